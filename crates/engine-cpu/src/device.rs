//! The host as a device.

use std::any::Any;

use frazil_core::{
    Device, DeviceHandle, DeviceId, DeviceProps, Error, HostProps, MemoryAt, Target,
};

/// This computer's processor and memory.
#[derive(Debug)]
pub struct HostDevice {
    target: Target,
}

impl HostDevice {
    /// The host, working on as many threads as the system grants.
    pub fn new() -> Self {
        Self { target: Target::host() }
    }

    /// The host, working on at most that many threads; 0 counts as 1, the calling thread.
    pub fn with_threads(num_threads: u32) -> Self {
        let device = DeviceProps::Host(HostProps { num_threads: num_threads.max(1) });
        Self { target: Target { device, ..Target::host() } }
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceHandle for HostDevice {
    fn target(&self) -> &Target {
        &self.target
    }

    fn id(&self) -> DeviceId {
        DeviceId::Host
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
        Ok(MemoryAt::Unknown)
    }
}

/// The host, working on as many threads as the system grants.
pub fn host() -> Device {
    Device::new(HostDevice::new())
}

/// The host, working on at most that many threads; 0 counts as 1, the calling thread.
pub fn host_with_threads(num_threads: u32) -> Device {
    Device::new(HostDevice::with_threads(num_threads))
}
