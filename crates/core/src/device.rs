//! Devices and streams as values of core.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::{Error, Target};

/// Names a device in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceId {
    /// Host memory and the host processor.
    Host,
    /// A CUDA GPU, by ordinal.
    Cuda(u32),
    /// A simulated GPU, by ordinal.
    Simulated(u32),
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Simulated(ordinal) => write!(f, "sim:{ordinal}"),
        }
    }
}

/// What lies behind a [`Device`]; implemented by the crates that own a kind of device.
pub trait DeviceHandle: fmt::Debug + Send + Sync {
    /// The device and the tools at hand.
    fn target(&self) -> &Target;
    /// Its name in this process.
    fn id(&self) -> DeviceId;
    /// For the engine that knows this kind.
    fn as_any(&self) -> &dyn Any;
    /// What is known of the memory at an address. For debugging: no execute asks.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] where the device cannot be asked.
    fn memory_at(&self, addr: u64) -> Result<MemoryAt, Error>;
}

/// What a device knows of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAt {
    /// This kind of device keeps no account of its memory.
    Unknown,
    /// No allocation.
    Unallocated,
    /// Part of an allocation.
    Allocated {
        /// Whose memory it is.
        device: DeviceId,
        /// First address.
        addr: u64,
        /// Size, in bytes.
        bytes: u64,
    },
}

/// A device that plans can be built on.
#[derive(Clone, Debug)]
pub struct Device(Arc<dyn DeviceHandle>);

impl Device {
    /// Wraps what a device crate implements.
    pub fn new(handle: impl DeviceHandle + 'static) -> Self {
        Self(Arc::new(handle))
    }
}

impl Deref for Device {
    type Target = dyn DeviceHandle;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

/// Where work is queued: a raw handle, passed on as it is, or the host itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(Option<u64>);

impl Stream {
    /// The calling thread: `execute` returns when the work is done.
    pub const HOST: Self = Self(None);

    /// A `CUstream`; the legacy (0, 1) and per-thread (2) sentinels are handles like any other.
    ///
    /// # Safety
    ///
    /// At every use of the value or a copy of it, the handle is a live stream of the device it is
    /// used with, and it lives until the work queued on it is done.
    #[expect(unsafe_code, reason = "the caller's promise about a foreign handle")]
    pub unsafe fn from_raw(handle: u64) -> Self {
        Self(Some(handle))
    }

    /// The handle, unless this is the host.
    pub fn raw(self) -> Option<u64> {
        self.0
    }
}
