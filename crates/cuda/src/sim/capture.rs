//! Streams and their captures: what is recorded, what is forbidden, and what breaks a capture.
//!
//! What calls do beside a capture was measured on an H200, call by call and mode by mode:
//! `tests/data/capture-h200-2026-12-01.csv`, which the tests of the contract hold this module to. The
//! rules below are the shortest that give that table, with where the documentation has them:
//!
//! | rule | documented in |
//! |---|---|
//! | which threads a mode keeps from unsafe calls | `cuThreadExchangeStreamCaptureMode` |
//! | unsafe are allocations; and, measured: frees, unloads, waits, making and ending executable graphs | `cuThreadExchangeStreamCaptureMode` names the first |
//! | a load is safe from CUDA 12.3 on (measured with 13.0), unsafe before | NVIDIA Warp, `capture_begin` |
//! | no mode allows a wait for the capturing stream, its context or its events; measured: nor a graph launched into a capture | Programming Guide, "Prohibited and Unhandled Operations" |
//! | what is forbidden breaks the capture, which gives errors until it is ended, and then no graph | same |
//! | the legacy stream is unusable while a blocking stream is captured; asking whether it is capturing breaks nothing | same, and `cuStreamIsCapturing` |
//! | the legacy stream is not captured; a capture that is not relaxed ends on its thread, and, measured, is lost by a try elsewhere | `cuStreamBeginCapture` |
//!
//! Streams that the driver's calls make are non-blocking, so that the per-thread stream is the only
//! blocking one; and there is no `cuStreamWaitEvent`, so that no capture spans two streams.

use std::collections::BTreeSet;
use std::thread::{self, ThreadId};

use super::State;
use super::code::{Code, Outcome};
use super::graph::Work;
use crate::{CaptureMode, CaptureStatus};

/// The greatest handle that is no stream of its own: 0 and 1 are the legacy stream, 2 the
/// per-thread stream.
pub(super) const LAST_SENTINEL: u64 = 2;

/// A stream, by what it is and not by the handle that was given for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKey {
    Legacy,
    PerThread(ThreadId),
    Created(u64),
}

impl StreamKey {
    /// Whether it waits for the legacy stream and the other way round.
    fn is_blocking(self) -> bool {
        matches!(self, Self::PerThread(_))
    }
}

/// A capture that was not ended yet.
#[derive(Debug)]
struct Capture {
    id: u64,
    stream: StreamKey,
    thread: ThreadId,
    mode: CaptureMode,
    valid: bool,
    work: Vec<Work>,
}

impl Capture {
    /// Whether a thread of that mode is kept from unsafe calls by it.
    fn forbids(&self, caller: ThreadId, caller_mode: CaptureMode) -> bool {
        let own = self.thread == caller && self.mode != CaptureMode::Relaxed;
        let global = self.thread != caller && self.mode == CaptureMode::Global;
        match caller_mode {
            CaptureMode::Global => own || global,
            CaptureMode::ThreadLocal => own,
            CaptureMode::Relaxed => false,
        }
    }
}

/// Live streams and the captures that were not ended.
#[derive(Debug, Default)]
pub(super) struct Streams {
    created: BTreeSet<u64>,
    captures: Vec<Capture>,
}

impl Streams {
    fn capture(&mut self, stream: StreamKey) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|capture| capture.stream == stream)
    }

    /// Breaks the captures that match; whether there were any.
    fn invalidate(&mut self, matches: impl Fn(&Capture) -> bool) -> bool {
        let mut any = false;
        for capture in self.captures.iter_mut().filter(|capture| matches(capture)) {
            capture.valid = false;
            any = true;
        }
        any
    }
}

/// What becomes of work that is put on a stream.
pub(super) enum Fate {
    /// It runs.
    Run,
    /// It is recorded by the capture of that name.
    Record(u64),
}

impl State {
    pub(super) fn stream_create(&mut self) -> u64 {
        let stream = super::new_handle();
        self.streams.created.insert(stream);
        stream
    }

    /// A stream that is destroyed takes its capture with it.
    pub(super) fn stream_destroy(&mut self, stream: u64) -> Outcome<()> {
        let key = self.stream(stream)?;
        let StreamKey::Created(handle) = key else { return Err(Code::INVALID_HANDLE) };
        self.streams.captures.retain(|capture| capture.stream != key);
        self.streams.created.remove(&handle);
        Ok(())
    }

    /// The stream of a handle, sentinels included.
    pub(super) fn stream(&mut self, handle: u64) -> Outcome<StreamKey> {
        match handle {
            0 | 1 => Ok(StreamKey::Legacy),
            LAST_SENTINEL => Ok(StreamKey::PerThread(thread::current().id())),
            created if self.streams.created.contains(&created) => Ok(StreamKey::Created(created)),
            handle => Err(self.dead("stream", handle)),
        }
    }

    /// A call that captures may forbid. What is forbidden breaks every capture that forbids it.
    pub(super) fn unsafe_under_capture(&mut self) -> Outcome<()> {
        let (caller, mode) = (thread::current().id(), self.threads.mode());
        let forbidden = self.streams.invalidate(|capture| capture.forbids(caller, mode));
        if forbidden { Err(Code::CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// A wait for everything: no mode allows it while anything is capturing.
    pub(super) fn forbid_any_capture(&mut self) -> Outcome<()> {
        let forbidden = self.streams.invalidate(|_| true);
        if forbidden { Err(Code::CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// What the stream of a capture never does; trying breaks the capture.
    pub(super) fn forbid_in_capture(&mut self, capture: u64) -> Code {
        self.streams.invalidate(|other| other.id == capture);
        Code::CAPTURE_UNSUPPORTED
    }

    /// A launch that is refused breaks the capture of its stream, as it was measured to.
    pub(super) fn refused_launch(&mut self, stream: u64, code: Code) -> Code {
        match self.stream(stream) {
            Ok(key) => {
                self.streams.invalidate(|capture| capture.stream == key);
                code
            }
            Err(no_stream) => no_stream,
        }
    }

    /// A wait for an event that a capture recorded: it breaks that capture, if it is not ended.
    pub(super) fn forbid_captured_event(&mut self, capture: u64) -> Code {
        self.streams.invalidate(|other| other.id == capture);
        Code::CAPTURED_EVENT
    }

    /// A use of a stream: what becomes of work on it.
    pub(super) fn fate(&mut self, stream: StreamKey) -> Outcome<Fate> {
        if stream == StreamKey::Legacy {
            let forbidden = self.streams.invalidate(|capture| capture.stream.is_blocking());
            return if forbidden { Err(Code::CAPTURE_IMPLICIT) } else { Ok(Fate::Run) };
        }
        match self.streams.capture(stream) {
            None => Ok(Fate::Run),
            Some(capture) if capture.valid => Ok(Fate::Record(capture.id)),
            Some(_) => Err(Code::CAPTURE_INVALIDATED),
        }
    }

    pub(super) fn record(&mut self, stream: StreamKey, work: Work) {
        if let Some(capture) = self.streams.capture(stream) {
            capture.work.push(work);
        }
    }

    /// A wait for a stream. That of a capture is refused as such whether it is broken or not.
    pub(super) fn stream_synchronize(&mut self, stream: u64) -> Outcome<()> {
        let key = self.stream(stream)?;
        if let Some(capture) = self.streams.capture(key) {
            let id = capture.id;
            return Err(self.forbid_in_capture(id));
        }
        self.fate(key)?;
        self.unsafe_under_capture()?;
        self.surface_fault()
    }

    pub(super) fn capture_status(&mut self, stream: u64) -> Outcome<CaptureStatus> {
        let key = self.stream(stream)?;
        let blocking = |capture: &Capture| capture.stream.is_blocking();
        if key == StreamKey::Legacy && self.streams.captures.iter().any(blocking) {
            return Err(Code::CAPTURE_IMPLICIT);
        }
        Ok(match self.streams.capture(key) {
            None => CaptureStatus::None,
            Some(capture) if capture.valid => CaptureStatus::Active,
            Some(_) => CaptureStatus::Invalidated,
        })
    }

    pub(super) fn begin_capture(&mut self, stream: u64, mode: CaptureMode) -> Outcome<()> {
        let stream = self.stream(stream)?;
        if stream == StreamKey::Legacy {
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        if self.streams.capture(stream).is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let (id, thread, work) = (super::new_handle(), thread::current().id(), Vec::new());
        self.streams.captures.push(Capture { id, stream, thread, mode, valid: true, work });
        Ok(())
    }

    /// Takes the stream out of its capture, whatever comes of it; the work, in order.
    pub(super) fn end_capture(&mut self, stream: u64) -> Outcome<Vec<Work>> {
        let key = self.stream(stream)?;
        let captures = &mut self.streams.captures;
        let at =
            captures.iter().position(|capture| capture.stream == key).ok_or(Code::ILLEGAL_STATE)?;
        let capture = captures.remove(at);
        let is_foreign = capture.thread != thread::current().id();
        if is_foreign && capture.mode != CaptureMode::Relaxed {
            return Err(Code::CAPTURE_WRONG_THREAD);
        }
        if capture.valid { Ok(capture.work) } else { Err(Code::CAPTURE_INVALIDATED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation's three sentences on modes, as a table: the caller's mode, the capture's,
    /// and whether the capture is one of the caller's own thread.
    #[test]
    fn a_capture_forbids_unsafe_calls_to_the_threads_that_the_documentation_names() {
        use CaptureMode::{Global, Relaxed, ThreadLocal};
        let own = thread::current().id();
        let other = thread::spawn(|| thread::current().id()).join().unwrap();
        for (caller_mode, mode, of, forbidden) in [
            (Global, Global, own, true),
            (Global, ThreadLocal, own, true),
            (Global, Relaxed, own, false),
            (Global, Global, other, true),
            (Global, ThreadLocal, other, false),
            (Global, Relaxed, other, false),
            (ThreadLocal, Global, own, true),
            (ThreadLocal, ThreadLocal, own, true),
            (ThreadLocal, Relaxed, own, false),
            (ThreadLocal, Global, other, false),
            (ThreadLocal, ThreadLocal, other, false),
            (ThreadLocal, Relaxed, other, false),
            (Relaxed, Global, own, false),
            (Relaxed, ThreadLocal, own, false),
            (Relaxed, Global, other, false),
        ] {
            let stream = StreamKey::Created(7);
            let capture =
                Capture { id: 1, stream, thread: of, mode, valid: true, work: Vec::new() };
            let whose = if of == own { "own" } else { "another's" };
            assert_eq!(
                capture.forbids(own, caller_mode),
                forbidden,
                "{caller_mode:?} caller, {whose} {mode:?} capture"
            );
        }
    }
}
