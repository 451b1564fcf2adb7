//! Memory and streams of `cudarc`, and so of candle, lent to an execute. Nothing is owned, freed or
//! copied.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use frazil_core::{Bindings, Device, Executable, TensorId, Workspace};
//! use frazil_cuda::interop;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let executable: Executable = todo!();
//! let stream = CudaContext::new(0)?.default_stream();
//! let q = stream.alloc_zeros::<f32>(1024)?;
//! let mut o = stream.alloc_zeros::<f32>(1024)?;
//! let mut scratch = stream.alloc_zeros::<u8>(1 << 20)?;
//!
//! // SAFETY: the execute below is queued on this stream, which outlives it.
//! let queue = unsafe { interop::stream(&stream) };
//! // SAFETY: the buffers are used on this stream alone, and the lent values are dropped after it.
//! let (mut q, mut o, mut scratch) = unsafe {
//!     (interop::lend(&q, &stream)?, interop::lend_mut(&mut o, &stream)?,
//!      interop::lend_mut(&mut scratch, &stream)?)
//! };
//! let bindings = Bindings::of([(TensorId(1), q.buffer()), (TensorId(2), o.buffer())])?;
//! executable.execute(&bindings, Workspace::new(scratch.buffer()), queue)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Events
//!
//! Where a context of cudarc has several streams, cudarc orders them by events: whoever asks a slice
//! for its address makes their stream wait for the slice's last write, and records an event when
//! done. [`lend`] takes part in that, and the value that it gives records on drop. A context with
//! the default streams alone, and one whose tracking was switched off
//! (`CudaContext::disable_event_tracking`), has no events, and then [`lend`] asks nothing of the
//! driver.
//!
//! Events do not go with captures: a captured stream that waits for an event from before the capture
//! breaks it. cudarc's own launches have the same limit. In a capture of a context that tracks
//! events, [`lend`] is therefore refused by name ([`LendError::TracksEvents`]), and the capture goes
//! on.
//!
//! # Versions
//!
//! cudarc is built for one version of CUDA. The feature `cudarc` of this crate asks for that of the
//! `nvcc` at hand, or without one for the newest, and opens libraries at run time, so that nothing
//! of CUDA is needed to build. A version that another crate of the same build names by feature
//! (`cudarc/cuda-12080`) comes first, and the variable `CUDARC_CUDA_VERSION=12080` before both.

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
use frazil_core::{Buffer, DType, DeviceId, Element, Stream};

use crate::{CaptureStatus, DriverCalls, DriverError, NoDriver};

/// A slice of cudarc, lent to executes on one stream.
///
/// Dropping it tells cudarc that those executes are queued.
#[must_use = "dropped, the slice is lent no more"]
pub struct Lent<'a> {
    addr: u64,
    bytes: u64,
    device: DeviceId,
    dtype: DType,
    is_writable: bool,
    _events: SyncOnDrop<'a>,
}

/// Why a slice cannot be lent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LendError {
    /// The stream captures, and an event would break the capture.
    #[error(
        "the stream captures, and cudarc's context orders streams by events, which would break the \
         capture: switch that off (`CudaContext::disable_event_tracking`) and order streams yourself"
    )]
    TracksEvents,
    /// The stream could not be asked whether it captures.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The driver could not be opened.
    #[error(transparent)]
    NoDriver(#[from] NoDriver),
}

/// Lends a slice or a view that is only read.
///
/// # Errors
///
/// [`LendError`]; the slice was not touched.
///
/// # Safety
///
/// Until the value is dropped, and it is dropped, every execute that takes its buffer is queued on
/// `stream`.
pub unsafe fn lend<'a, T: Element>(
    slice: &'a impl DevicePtr<T>,
    stream: &'a CudaStream,
) -> Result<Lent<'a>, LendError> {
    check(slice, stream)?;
    let (bytes, device) = extent(slice);
    let (addr, events) = slice.device_ptr(stream);
    Ok(Lent { addr, bytes, device, dtype: T::DTYPE, is_writable: false, _events: events })
}

/// Lends a slice or a view that is written, and may be read: an output, or a workspace.
///
/// # Errors
///
/// [`LendError`]; the slice was not touched.
///
/// # Safety
///
/// As [`lend`].
pub unsafe fn lend_mut<'a, T: Element>(
    slice: &'a mut impl DevicePtrMut<T>,
    stream: &'a CudaStream,
) -> Result<Lent<'a>, LendError> {
    check(slice, stream)?;
    let (bytes, device) = extent(slice);
    let (addr, events) = slice.device_ptr_mut(stream);
    Ok(Lent { addr, bytes, device, dtype: T::DTYPE, is_writable: true, _events: events })
}

/// A stream of cudarc, as `execute` takes it.
///
/// # Safety
///
/// At every use of the value or a copy of it, the stream lives, until the work queued on it is
/// done.
pub unsafe fn stream(stream: &CudaStream) -> Stream {
    // SAFETY: the caller's promise.
    unsafe { Stream::from_raw(raw(stream)) }
}

impl Lent<'_> {
    /// All of it, to be bound. Its elements' type is that of the slice;
    /// [`Buffer::with_dtype`] states another, as for 8-bit floats, which are `u8` here.
    pub fn buffer(&mut self) -> Buffer<'_> {
        // SAFETY: the slice is borrowed, so it is not freed, and by cudarc's own rules used by
        // others only in the order of streams and events that this value takes part in; that its
        // executes are on the stream it was lent for is the promise of whoever lent it.
        let buffer = unsafe { Buffer::from_raw(self.addr, self.bytes, self.device) };
        let buffer = buffer.with_dtype(self.dtype);
        if self.is_writable { buffer } else { buffer.read_only() }
    }
}

impl std::fmt::Debug for Lent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { addr, bytes, device, dtype, .. } = self;
        write!(f, "Lent({bytes} bytes of {dtype} at {addr:#x} of {device})")
    }
}

/// Refuses what would break a capture, before any event is waited for.
fn check<T>(slice: &impl DeviceSlice<T>, stream: &CudaStream) -> Result<(), LendError> {
    let contexts = [slice.stream().context(), stream.context()];
    if !contexts.iter().any(|context| context.is_managing_stream_synchronization()) {
        return Ok(());
    }
    // Asked past cudarc, whose own question may answer with an error that was left by others.
    let driver = crate::driver()?;
    // SAFETY: the stream is borrowed, so it lives.
    match unsafe { driver.stream_is_capturing(raw(stream)) }? {
        CaptureStatus::None => Ok(()),
        CaptureStatus::Active | CaptureStatus::Invalidated => Err(LendError::TracksEvents),
    }
}

fn extent<T>(slice: &impl DeviceSlice<T>) -> (u64, DeviceId) {
    let ordinal = slice.stream().context().ordinal();
    // Ordinals of the driver are `int`.
    let ordinal = u32::try_from(ordinal).unwrap_or(u32::MAX);
    (slice.num_bytes() as u64, DeviceId::Cuda(ordinal))
}

fn raw(stream: &CudaStream) -> u64 {
    stream.cu_stream().expose_provenance() as u64
}
