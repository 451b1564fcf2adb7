//! The device made current, and streams looked at before they are used.

use std::marker::PhantomData;

use frazil_core::{BindingError, DeviceHandle, Error, Stream};

use crate::{ContextHandle, CudaDevice, DriverCalls, DriverError};

/// A device's context is current on this thread; what was current before comes back when this is
/// dropped.
///
/// Nothing is done where it was current already, as with candle, cudarc and PyTorch, whose contexts
/// are primary too. It stays on its thread.
#[derive(Debug)]
#[must_use = "the context is current for as long as this lives"]
pub struct Current<'d> {
    device: &'d CudaDevice,
    is_pushed: bool,
    /// Contexts are stacked by thread.
    on_this_thread: PhantomData<*const ()>,
}

impl Current<'_> {
    /// The device whose context is current.
    pub fn device(&self) -> &CudaDevice {
        self.device
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.is_pushed {
            // It fails only where the driver can do nothing at all any more, as after a fault of a
            // kernel, and then every other call says so.
            let _ = self.device.driver().ctx_pop_current();
        }
    }
}

/// A stream of a device, with the device current: what a launch needs, looked at once for all
/// launches of a call.
#[derive(Debug)]
pub struct Queue<'d> {
    current: Current<'d>,
    stream: u64,
    context: ContextHandle,
}

impl Queue<'_> {
    /// The device that the stream belongs to.
    pub fn device(&self) -> &CudaDevice {
        self.current.device
    }

    /// The device made current, as tensor maps want it.
    pub fn current(&self) -> &Current<'_> {
        &self.current
    }

    /// The stream, as the driver takes it.
    pub fn raw(&self) -> u64 {
        self.stream
    }

    /// The context of device and stream, which is current.
    pub fn context(&self) -> ContextHandle {
        self.context
    }
}

impl CudaDevice {
    /// Makes the device current on this thread.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    pub fn make_current(&self) -> Result<Current<'_>, DriverError> {
        let context = self.context()?;
        let driver = self.driver();
        let is_pushed = driver.ctx_get_current()? != Some(context);
        if is_pushed {
            // SAFETY: a primary context that is retained lives.
            unsafe { driver.ctx_push_current(context) }?;
        }
        Ok(Current { device: self, is_pushed, on_this_thread: PhantomData })
    }

    /// Makes the device current and looks whether a stream is its own.
    ///
    /// The legacy and per-thread sentinels (0, 1, 2) are streams of whatever context is current,
    /// which is the device's for as long as the result lives.
    ///
    /// # Errors
    ///
    /// [`BindingError::Stream`] for a stream of another device, of another context of this device
    /// (a green context has one of its own), or of the host; [`Error::Driver`] where a call fails.
    pub fn queue(&self, stream: Stream) -> Result<Queue<'_>, Error> {
        let wrong = |found| BindingError::Stream { found, need: self.id() };
        let raw = stream.raw().ok_or_else(|| wrong("the host"))?;
        let current = self.make_current()?;
        let context = self.context()?;
        // SAFETY: whoever made the stream promised that it lives when it is used.
        let found = unsafe { self.driver().stream_get_ctx(raw) }?;
        if found != context {
            return Err(wrong("of another device or context").into());
        }
        Ok(Queue { current, stream: raw, context })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fake::Fake;

    fn stream(raw: u64) -> Stream {
        // SAFETY: the fake refuses streams that it does not know.
        unsafe { Stream::from_raw(raw) }
    }

    #[test]
    fn what_was_current_before_comes_back() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 1, None).unwrap();
        for (before, during) in [
            (&[][..], &[1001][..]),
            (&[5], &[5, 1001]),
            (&[1000, 1001], &[1000, 1001]),
            (&[1001, 1000], &[1001, 1000, 1001]),
        ] {
            fake.set_contexts(before);
            {
                let outer = device.make_current().unwrap();
                assert_eq!(fake.contexts(), during);
                let inner = device.make_current().unwrap();
                assert_eq!(fake.contexts(), during);
                drop(inner);
                assert_eq!(outer.device().ordinal(), 1);
            }
            assert_eq!(fake.contexts(), before);
        }
    }

    #[test]
    fn a_context_that_is_current_already_costs_one_question() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 0, None).unwrap();
        fake.set_contexts(&[1000]);
        drop(device.make_current().unwrap());
        let before = fake.state(|state| state.calls.len());
        drop(device.make_current().unwrap());
        assert_eq!(fake.state(|state| state.calls[before..].to_vec()), ["cuCtxGetCurrent"]);
    }

    #[test]
    fn a_context_that_cannot_be_pushed_is_an_error_that_leaves_nothing_behind() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 0, None).unwrap();
        fake.fail("cuCtxPushCurrent_v2", 709);
        let error = device.make_current().unwrap_err();
        assert_eq!(error, DriverError { call: "cuCtxPushCurrent_v2", code: 709 });
        assert_eq!(fake.count("cuCtxPopCurrent_v2"), 0);
    }

    #[test]
    fn streams_of_the_device_and_sentinels_are_taken_others_refused() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 0, None).unwrap();
        fake.state(|state| state.streams.extend([(70, 1000), (71, 1001)]));
        // With another device current, sentinels are still streams of this one.
        fake.set_contexts(&[1001]);
        for raw in [0, 1, 2, 70] {
            let queue = device.queue(stream(raw)).unwrap();
            assert_eq!((queue.raw(), queue.context().raw()), (raw, 1000));
            assert_eq!(fake.contexts(), [1001, 1000]);
        }
        let error = device.queue(stream(71)).unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
        let error = device.queue(Stream::HOST).unwrap_err();
        assert!(error.to_string().contains("the host"), "{error}");
        let error = device.queue(stream(72)).unwrap_err();
        assert!(matches!(error, Error::Driver { call: "cuStreamGetCtx", code: 400, .. }));
        assert_eq!(fake.contexts(), [1001], "restored after every one");
    }
}
