//! Memory of a GPU, as the runner needs it.

use std::fmt::Display;

use frazil_core::{Device, Error, Stream};
use frazil_cuda::CudaDevice;
use frazil_cuda::tools::{self, OwnedStream};

use crate::memory::{Block, DeviceMemory, MemoryError};

/// Memory of a GPU and a stream of its own.
#[derive(Debug)]
pub struct CudaMemory {
    device: Device,
    stream: OwnedStream,
}

impl CudaMemory {
    /// For a GPU, real or simulated.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDevice`] for another kind of device; [`Error::Driver`] where there is no
    /// stream to be had.
    pub fn new(device: Device) -> Result<Self, Error> {
        let stream = OwnedStream::new(CudaDevice::of(&device)?)?;
        Ok(Self { device, stream })
    }
}

fn failed(error: impl Display) -> MemoryError {
    MemoryError(error.to_string())
}

impl DeviceMemory for CudaMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn stream(&self) -> Stream {
        self.stream.stream()
    }

    fn alloc(&self, bytes: u64) -> Result<Box<dyn Block>, MemoryError> {
        let memory = tools::DeviceMemory::new(self.stream.device(), bytes).map_err(failed)?;
        Ok(Box::new(CudaBlock(memory)))
    }

    fn sync(&self) -> Result<(), MemoryError> {
        self.stream.synchronize().map_err(failed)
    }
}

#[derive(Debug)]
struct CudaBlock(tools::DeviceMemory);

impl Block for CudaBlock {
    fn addr(&mut self) -> u64 {
        self.0.addr()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.0.write(offset, bytes).map_err(failed)
    }

    fn download(&self, offset: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let found = self.0.read::<u8>(offset, bytes.len()).map_err(failed)?;
        bytes.copy_from_slice(&found);
        Ok(())
    }
}
