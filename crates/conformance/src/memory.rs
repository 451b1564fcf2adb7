//! Memory of a device, as the runner needs it.

use std::fmt;
use std::marker::PhantomData;

use frazil_core::{Buffer, Device, DeviceId, HostBuffer, Stream};

/// An allocation, a copy or a wait that failed: what and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryError(pub String);

/// A device with memory that the runner can fill and read.
///
/// The host has one here ([`HostMemory`]); GPUs, real and simulated, implement it where their
/// drivers are.
pub trait DeviceMemory {
    /// The device.
    fn device(&self) -> &Device;

    /// Where work is queued.
    fn stream(&self) -> Stream;

    /// Memory of that size, aligned to 256 bytes, content undefined.
    ///
    /// # Errors
    ///
    /// When there is none.
    fn alloc(&self, bytes: u64) -> Result<Box<dyn Block>, MemoryError>;

    /// Waits until the work queued is done.
    ///
    /// # Errors
    ///
    /// When the work, or the wait, failed.
    fn sync(&self) -> Result<(), MemoryError>;
}

/// Memory of a device, freed when dropped.
pub trait Block: fmt::Debug {
    /// Address of the first byte, for one execute: on the host, its provenance is exposed anew.
    fn addr(&mut self) -> u64;

    /// Size, in bytes.
    fn bytes(&self) -> u64;

    /// Writes bytes from an offset on; returns when they are there.
    ///
    /// # Errors
    ///
    /// When the copy failed.
    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError>;

    /// Reads bytes from an offset on.
    ///
    /// # Errors
    ///
    /// When the copy failed.
    fn download(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError>;
}

/// Memory of the host.
#[derive(Clone, Debug)]
pub struct HostMemory {
    device: Device,
}

impl HostMemory {
    /// For a device of the host.
    ///
    /// # Panics
    ///
    /// For a device that is not the host.
    pub fn new(device: Device) -> Self {
        assert_eq!(device.id(), DeviceId::Host, "host memory is the host's");
        Self { device }
    }
}

impl DeviceMemory for HostMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn stream(&self) -> Stream {
        Stream::HOST
    }

    fn alloc(&self, bytes: u64) -> Result<Box<dyn Block>, MemoryError> {
        let len = usize::try_from(bytes)
            .map_err(|_| MemoryError(format!("{bytes} bytes of host memory")))?;
        Ok(Box::new(HostBlock(HostBuffer::zeroed(len))))
    }

    fn sync(&self) -> Result<(), MemoryError> {
        Ok(())
    }
}

#[derive(Debug)]
struct HostBlock(HostBuffer);

impl HostBlock {
    fn range(&self, offset: u64, len: usize) -> Result<std::ops::Range<usize>, MemoryError> {
        let start = usize::try_from(offset).ok();
        start
            .and_then(|start| Some(start..start.checked_add(len)?))
            .filter(|range| range.end <= self.0.as_bytes().len())
            .ok_or_else(|| MemoryError(format!("{len} bytes at {offset} of {}", self.bytes())))
    }
}

impl Block for HostBlock {
    fn addr(&mut self) -> u64 {
        self.0.buffer().addr()
    }

    fn bytes(&self) -> u64 {
        self.0.as_bytes().len() as u64
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let range = self.range(offset, bytes.len())?;
        self.0.as_bytes_mut()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        bytes.copy_from_slice(&self.0.as_bytes()[self.range(offset, bytes.len())?]);
        Ok(())
    }
}

/// A block during one execute, in parts that may overlap: tensors can share a buffer.
#[derive(Debug)]
pub(crate) struct Exposed<'a> {
    addr: u64,
    bytes: u64,
    device: DeviceId,
    borrow: PhantomData<&'a mut dyn Block>,
}

impl<'a> Exposed<'a> {
    pub(crate) fn new(block: &'a mut dyn Block, device: DeviceId) -> Self {
        Self { addr: block.addr(), bytes: block.bytes(), device, borrow: PhantomData }
    }

    /// `bytes` bytes from `offset` on; no memory where `bytes` is 0.
    ///
    /// # Panics
    ///
    /// If the part is not inside the block.
    #[expect(unsafe_code, reason = "tensors of one buffer overlap, which slices cannot")]
    pub(crate) fn part(&self, offset: u64, bytes: u64) -> Buffer<'a> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "inside the block");
        if bytes == 0 {
            return Buffer::empty(self.device);
        }
        // SAFETY: the block owns these bytes, is borrowed exclusively for `'a`, so nobody reads or
        // writes them but the execute that the buffer is for, and has exposed their provenance.
        unsafe { Buffer::from_raw(self.addr + offset, bytes, self.device) }
    }
}
