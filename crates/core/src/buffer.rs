//! Memory, always measured.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::{DType, Device, DeviceId, Element, Error, MemoryAt, Plan};

/// Memory of one device: address, size, and whether it may be written.
///
/// Made safely from host slices, or by [`Buffer::from_raw`], whose caller promises what the slices
/// prove. Neither `Clone` nor `Sync`, so that two threads cannot run calls at once over memory that
/// one of them writes; [`BindingError::InUse`](crate::BindingError::InUse) does the same for one
/// thread.
#[derive(Debug)]
pub struct Buffer<'a> {
    addr: u64,
    bytes: u64,
    device: DeviceId,
    dtype: Option<DType>,
    writable: bool,
    borrow: PhantomData<(&'a [u8], Cell<()>)>,
}

impl<'a> Buffer<'a> {
    /// Memory that is only read.
    pub fn from_slice<T: Element>(slice: &'a [T]) -> Self {
        Self::host::<T>(slice.as_ptr().expose_provenance(), size_of_val(slice), false)
    }

    /// Memory that may be written.
    pub fn from_slice_mut<T: Element>(slice: &'a mut [T]) -> Self {
        Self::host::<T>(slice.as_mut_ptr().expose_provenance(), size_of_val(slice), true)
    }

    fn host<T: Element>(addr: usize, bytes: usize, writable: bool) -> Self {
        Self {
            addr: addr as u64,
            bytes: bytes as u64,
            device: DeviceId::Host,
            dtype: Some(T::DTYPE),
            writable,
            borrow: PhantomData,
        }
    }

    /// Memory known by its address. Its element type is unknown, unless
    /// [`Buffer::with_dtype`] states it.
    ///
    /// # Safety
    ///
    /// For every execute that the value, or bindings that hold it, are used in, until the stream has
    /// passed the work: `bytes` bytes at `addr` are memory of `device`, not written by anyone else
    /// and, where the tensor is an output or the workspace, not read by anyone else, other executes
    /// in flight on other streams included. Host memory is initialised and the provenance of `addr`
    /// has been exposed. `addr` may be 0 when `bytes` is.
    #[expect(unsafe_code, reason = "the caller's promise about foreign memory")]
    pub unsafe fn from_raw(addr: u64, bytes: u64, device: DeviceId) -> Self {
        Self { addr, bytes, device, dtype: None, writable: true, borrow: PhantomData }
    }

    /// No memory.
    pub fn empty(device: DeviceId) -> Self {
        Self { addr: 0, bytes: 0, device, dtype: None, writable: true, borrow: PhantomData }
    }

    /// States the type of the elements, as their producer gives it; a binding of another type is
    /// then refused by name.
    #[must_use]
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Memory that must not be written: a binding as an output is then refused.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.writable = false;
        self
    }

    /// Address of the first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Size, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whose memory it is.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Type of the elements, where the producer gave it.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Asks the device whether the buffer is what it claims to be. `Ok` too where the device keeps
    /// no account of its memory, as the host.
    pub(crate) fn verify(&self, device: &Device) -> Result<Result<(), BufferError>, Error> {
        let (claimed, need) = (self.device, device.id());
        if claimed != need {
            return Ok(Err(BufferError::Device { claimed, need }));
        }
        let (addr, bytes) = (self.addr, self.bytes);
        if bytes == 0 {
            return Ok(Ok(()));
        }
        Ok(match device.memory_at(addr)? {
            MemoryAt::Unknown => Ok(()),
            MemoryAt::Unallocated => Err(BufferError::Unallocated { addr, claimed }),
            MemoryAt::Allocated { device: found, .. } if found != claimed => {
                Err(BufferError::Elsewhere { addr, found, claimed })
            }
            MemoryAt::Allocated { addr: start, bytes: size, .. } => {
                let left = size.saturating_sub(addr.saturating_sub(start));
                if bytes <= left { Ok(()) } else { Err(BufferError::TooLong { addr, bytes, left }) }
            }
        })
    }
}

/// Why a buffer is not what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// Of another device than the one asked.
    #[error("it is said to lie on {claimed}, asked was {need}")]
    Device {
        /// Where it is said to be.
        claimed: DeviceId,
        /// The device asked.
        need: DeviceId,
    },
    /// Not in an allocation of any device, or in one that has been freed.
    #[error("nothing is allocated at {addr:#x} on {claimed}")]
    Unallocated {
        /// Its address.
        addr: u64,
        /// Where it is said to be.
        claimed: DeviceId,
    },
    /// Memory of another device than it claims.
    #[error("{addr:#x} is memory of {found}, said to lie on {claimed}")]
    Elsewhere {
        /// Its address.
        addr: u64,
        /// Whose memory it is.
        found: DeviceId,
        /// Where it is said to be.
        claimed: DeviceId,
    },
    /// It reaches past the end of its allocation.
    #[error("{bytes} bytes at {addr:#x}, where the allocation ends after {left}")]
    TooLong {
        /// Its address.
        addr: u64,
        /// Its size, in bytes.
        bytes: u64,
        /// Bytes from the address to the end of the allocation.
        left: u64,
    },
}

/// Host memory aligned for any tensor and for workspaces, zeroed when made.
#[derive(Debug)]
pub struct HostBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl HostBuffer {
    /// That many bytes, aligned to [`WORKSPACE_ALIGN`](crate::WORKSPACE_ALIGN).
    ///
    /// # Panics
    ///
    /// If the memory cannot be had, as every allocation.
    pub fn zeroed(len: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "256")]
        const ALIGN: usize = crate::WORKSPACE_ALIGN as usize;
        // Saturated, it is more than any allocation may have.
        let bytes = vec![0_u8; len.saturating_add(ALIGN)];
        let start = bytes.as_ptr().align_offset(ALIGN);
        Self { bytes, start, len }
    }

    /// Scratch for one execute of a plan at a time, as large as the plan asks.
    ///
    /// # Panics
    ///
    /// If the memory cannot be had, as every allocation.
    pub fn workspace_of(plan: &Plan) -> Self {
        Self::zeroed(usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// The bytes, to be written.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// As a buffer whose element type is unknown.
    pub fn buffer(&mut self) -> Buffer<'_> {
        let mut buffer = Buffer::from_slice_mut(self.as_bytes_mut());
        buffer.dtype = None;
        buffer
    }
}
