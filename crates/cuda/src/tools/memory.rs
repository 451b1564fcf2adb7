//! Device memory that is owned.

use std::fmt;

use bytemuck::Pod;
use frazil_core::{Buffer, DeviceHandle};

use super::OwnedStream;
use crate::{CudaDevice, DriverCalls, DriverError};

/// Memory of a device, freed when dropped.
pub struct DeviceMemory {
    device: CudaDevice,
    addr: u64,
    bytes: u64,
}

/// Why bytes did not go to or from a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A driver call failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The transfer reaches past the end of the memory.
    #[error("{bytes} bytes at {offset}, of memory of {size}")]
    OutOfRange {
        /// Where the transfer starts, in bytes.
        offset: u64,
        /// Its size, in bytes.
        bytes: u64,
        /// Size of the memory, in bytes.
        size: u64,
    },
}

impl DeviceMemory {
    /// Memory whose content is undefined. None is taken for 0 bytes, and the address is then 0.
    ///
    /// # Errors
    ///
    /// [`DriverError`] where it cannot be had.
    pub fn new(device: &CudaDevice, bytes: u64) -> Result<Self, DriverError> {
        let (_current, _relaxed) = (device.make_current()?, device.relax_capture()?);
        let addr = if bytes == 0 { 0 } else { device.driver().mem_alloc(bytes)? };
        Ok(Self { device: device.clone(), addr, bytes })
    }

    /// Memory that holds a copy of a slice.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    pub fn of<T: Pod>(device: &CudaDevice, values: &[T]) -> Result<Self, DriverError> {
        let mut memory = Self::new(device, size_of_val(values) as u64)?;
        memory.copy_in(0, bytemuck::cast_slice(values))?;
        Ok(memory)
    }

    /// Its first address.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Its size, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Overwrites a part of it, from an offset in bytes, after all work queued.
    ///
    /// # Errors
    ///
    /// [`TransferError`]; nothing is written where it is out of range.
    pub fn write<T: Pod>(&mut self, offset: u64, values: &[T]) -> Result<(), TransferError> {
        self.check(offset, size_of_val(values) as u64)?;
        Ok(self.copy_in(offset, bytemuck::cast_slice(values))?)
    }

    /// Sets every byte of it, after all work queued.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    pub fn fill(&mut self, byte: u8) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let (stream, driver) = (OwnedStream::new(&self.device)?, self.device.driver());
        let _settled = self.device.settle()?;
        // SAFETY: the memory is this value's, and no work is queued that could use it.
        unsafe { driver.memset_d8_async(self.addr, byte, self.bytes, stream.raw()) }?;
        stream.synchronize()
    }

    /// A copy of a part of it, from an offset in bytes, after all work queued.
    ///
    /// # Errors
    ///
    /// [`TransferError`].
    pub fn read<T: Pod>(&self, offset: u64, count: usize) -> Result<Vec<T>, TransferError> {
        self.check(offset, (count as u64).saturating_mul(size_of::<T>() as u64))?;
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        if !bytes.is_empty() {
            let (stream, driver) = (OwnedStream::new(&self.device)?, self.device.driver());
            let _settled = self.device.settle()?;
            // SAFETY: the range was looked at, and no work is queued that could write it.
            unsafe { driver.copy_to_host(bytes, self.addr + offset, stream.raw()) }?;
        }
        Ok(values)
    }

    /// All of it, as to be bound to an input.
    pub fn buffer(&self) -> Buffer<'_> {
        // SAFETY: the memory is this value's. What is written to it and freed, also by those who
        // hold it when the buffer is gone, comes after all work queued on streams made here; of
        // other streams the caller has promised that they are used rightly.
        unsafe { Buffer::from_raw(self.addr, self.bytes, self.device.id()) }.read_only()
    }

    /// All of it, as to be bound to an output or lent as a workspace.
    pub fn buffer_mut(&mut self) -> Buffer<'_> {
        // SAFETY: as above; the value is borrowed as a whole, so that no other buffer is of it, and
        // what is read of it comes after all work queued.
        unsafe { Buffer::from_raw(self.addr, self.bytes, self.device.id()) }
    }

    fn copy_in(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DriverError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (stream, driver) = (OwnedStream::new(&self.device)?, self.device.driver());
        let _settled = self.device.settle()?;
        // SAFETY: callers have looked at the range, and no work is queued that could use it.
        unsafe { driver.copy_to_device(self.addr + offset, bytes, stream.raw()) }
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<(), TransferError> {
        let size = self.bytes;
        let is_within = offset.checked_add(bytes).is_some_and(|end| end <= size);
        if is_within { Ok(()) } else { Err(TransferError::OutOfRange { offset, bytes, size }) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.addr == 0 {
            return;
        }
        // Where the wait fails, work may go on that uses the memory: it is then not freed.
        if let Ok(_settled) = self.device.settle() {
            // SAFETY: the memory is this value's, and all work of streams made here is done.
            let _ = unsafe { self.device.driver().mem_free(self.addr) };
        }
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMemory({} bytes at {:#x} of {})", self.bytes, self.addr, self.device.id())
    }
}
