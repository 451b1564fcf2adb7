//! Building while somebody captures.

use std::marker::PhantomData;

use crate::{CaptureMode, CudaDevice, Driver, DriverCalls, DriverError};

/// This thread's capture mode is relaxed; the one before comes back when this is dropped.
///
/// A capture in GLOBAL mode forbids every thread the calls that could break it, and a forbidden call
/// breaks it: to allocate, to free, to unload a module, to wait. A thread whose own mode is relaxed
/// is exempt: CUDA Driver API, `cuThreadExchangeStreamCaptureMode`. Which call is forbidden when is
/// measured in `crates/cuda/tests/data/capture-h200-2026-12-01.csv`: waiting for a whole context, or
/// for the stream that captures, breaks a capture in any mode.
#[derive(Debug)]
#[must_use = "the mode is relaxed for as long as this lives"]
pub struct RelaxedCapture<'d> {
    driver: &'d Driver,
    before: CaptureMode,
    /// Modes are a thread's.
    on_this_thread: PhantomData<*const ()>,
}

impl CudaDevice {
    /// Relaxes this thread's capture mode.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    pub fn relax_capture(&self) -> Result<RelaxedCapture<'_>, DriverError> {
        let driver = self.driver();
        let before = driver.thread_exchange_stream_capture_mode(CaptureMode::Relaxed)?;
        Ok(RelaxedCapture { driver, before, on_this_thread: PhantomData })
    }
}

impl Drop for RelaxedCapture<'_> {
    fn drop(&mut self) {
        // It takes any mode that it gave itself.
        let _ = self.driver.thread_exchange_stream_capture_mode(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fake::Fake;

    #[test]
    fn the_mode_before_comes_back_in_turn() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 0, None).unwrap();
        let (global, thread_local, relaxed) = (0, 1, 2);
        assert_eq!(fake.mode(), global);
        let outer = device.relax_capture().unwrap();
        let inner = device.relax_capture().unwrap();
        assert_eq!(fake.mode(), relaxed);
        drop(inner);
        assert_eq!(fake.mode(), relaxed);
        drop(outer);
        assert_eq!(fake.mode(), global);
        fake.driver().thread_exchange_stream_capture_mode(CaptureMode::ThreadLocal).unwrap();
        drop(device.relax_capture().unwrap());
        assert_eq!(fake.mode(), thread_local);
    }

    #[test]
    fn a_mode_that_cannot_be_set_is_an_error() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 0, None).unwrap();
        fake.fail("cuThreadExchangeStreamCaptureMode", 999);
        assert_eq!(device.relax_capture().unwrap_err().call, "cuThreadExchangeStreamCaptureMode");
    }
}
