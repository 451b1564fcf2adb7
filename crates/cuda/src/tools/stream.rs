//! Streams and events that are owned.

use std::sync::{Mutex, MutexGuard, PoisonError};

use frazil_core::Stream;

use super::Capture;
use crate::{
    CaptureMode, CaptureStatus, CudaDevice, Current, DriverCalls, DriverError, EventHandle,
    RelaxedCapture,
};

/// Streams of a device. None is destroyed, so that a [`Stream`] of one is good for as long as the
/// process lives.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Made>);

#[derive(Debug, Default)]
struct Made {
    all: Vec<u64>,
    /// Those that nobody holds.
    idle: Vec<u64>,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, Made> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The device current and its streams' work done.
pub(super) struct Settled<'d> {
    _current: Current<'d>,
    _relaxed: RelaxedCapture<'d>,
}

impl CudaDevice {
    /// Waits for all that was queued on streams made here. Neither this nor what follows, as long as
    /// the result lives, breaks a capture; streams that capture are left alone, since what they are
    /// given does not run.
    pub(super) fn settle(&self) -> Result<Settled<'_>, DriverError> {
        let (current, relaxed) = (self.make_current()?, self.relax_capture()?);
        let all = self.streams().lock().all.clone();
        for stream in all {
            // SAFETY: streams made here are never destroyed.
            let status = unsafe { self.driver().stream_is_capturing(stream) }?;
            if status == CaptureStatus::None {
                // SAFETY: as above.
                unsafe { self.driver().stream_synchronize(stream) }?;
            }
        }
        Ok(Settled { _current: current, _relaxed: relaxed })
    }
}

/// A stream that nobody else holds, and that waits for no other stream by itself. Given back to its
/// device when dropped.
#[derive(Debug)]
pub struct OwnedStream {
    device: CudaDevice,
    raw: u64,
}

impl OwnedStream {
    /// A stream of a device.
    ///
    /// # Errors
    ///
    /// [`DriverError`] where it cannot be had.
    pub fn new(device: &CudaDevice) -> Result<Self, DriverError> {
        let mut streams = device.streams().lock();
        let raw = match streams.idle.pop() {
            Some(raw) => raw,
            None => {
                let _current = device.make_current()?;
                let raw = device.driver().stream_create()?;
                streams.all.push(raw);
                raw
            }
        };
        drop(streams);
        Ok(Self { device: device.clone(), raw })
    }

    /// Its device.
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// As `execute` takes it.
    pub fn stream(&self) -> Stream {
        // SAFETY: streams made here are never destroyed.
        unsafe { Stream::from_raw(self.raw) }
    }

    /// The handle, as the driver takes it.
    pub fn raw(&self) -> u64 {
        self.raw
    }

    /// Waits until all work queued on it is done.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of work that failed, and while it captures: the capture is then broken.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.device.make_current()?;
        let _relaxed = self.device.relax_capture()?;
        // SAFETY: streams made here are never destroyed.
        unsafe { self.device.driver().stream_synchronize(self.raw) }
    }

    /// From here on, what is queued on it becomes a graph and does not run.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    pub fn capture(&self, mode: CaptureMode) -> Result<Capture<'_>, DriverError> {
        Capture::begin(self, mode)
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        self.device.streams().lock().idle.push(self.raw);
    }
}

/// A point in a stream's work, with the time at which it was passed.
#[derive(Debug)]
pub struct Event {
    device: CudaDevice,
    handle: EventHandle,
}

impl Event {
    /// An event that was not passed yet.
    ///
    /// # Errors
    ///
    /// [`DriverError`] where it cannot be had.
    pub fn new(device: &CudaDevice) -> Result<Self, DriverError> {
        let _current = device.make_current()?;
        let handle = device.driver().event_create()?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Queues it.
    ///
    /// # Errors
    ///
    /// [`DriverError`], as for a stream of another device.
    pub fn record(&self, stream: &OwnedStream) -> Result<(), DriverError> {
        let _current = self.device.make_current()?;
        // SAFETY: both live; the driver refuses a stream of another context.
        unsafe { self.device.driver().event_record(self.handle, stream.raw) }
    }

    /// Waits until it was passed.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also of work before it that failed.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.device.make_current()?;
        let _relaxed = self.device.relax_capture()?;
        // SAFETY: the event lives.
        unsafe { self.device.driver().event_synchronize(self.handle) }
    }

    /// Milliseconds from an earlier event to this one, both passed.
    ///
    /// # Errors
    ///
    /// [`DriverError`] where one was not recorded, or not passed yet.
    pub fn milliseconds_since(&self, start: &Self) -> Result<f32, DriverError> {
        let _current = self.device.make_current()?;
        // SAFETY: both live; the driver refuses those that were not recorded.
        unsafe { self.device.driver().event_elapsed_time(start.handle, self.handle) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: the event is this value's; the driver keeps what a stream still needs of it.
            let _ = unsafe { self.device.driver().event_destroy(self.handle) };
        }
    }
}
