//! Events. Their clock is logical: instructions of a warp that were simulated so far.

use std::collections::BTreeMap;

use super::State;
use super::capture::Fate;
use super::code::{Code, Outcome};
use crate::EventHandle;

/// Live events, by handle.
pub(super) type Events = BTreeMap<u64, Recorded>;

/// When an event was recorded last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    Never,
    /// By the capture of that name: a place in a graph, not in time.
    Captured(u64),
    /// At that many instructions.
    At(u64),
}

/// One instruction counts as one nanosecond.
const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

impl State {
    pub(super) fn event(&mut self, event: EventHandle) -> Outcome<Recorded> {
        match self.events.get(&event.raw()) {
            Some(recorded) => Ok(*recorded),
            None => Err(self.dead("event", event.raw())),
        }
    }

    pub(super) fn event_record(&mut self, event: EventHandle, stream: u64) -> Outcome<()> {
        self.event(event)?;
        let stream = self.stream(stream)?;
        let recorded = match self.fate(stream)? {
            Fate::Record(capture) => Recorded::Captured(capture),
            Fate::Run => Recorded::At(self.machine.instructions),
        };
        self.events.insert(event.raw(), recorded);
        Ok(())
    }

    /// A wait for an event; one that was never recorded is done.
    pub(super) fn event_synchronize(&mut self, event: EventHandle) -> Outcome<()> {
        if let Recorded::Captured(capture) = self.event(event)? {
            return Err(self.forbid_captured_event(capture));
        }
        self.unsafe_under_capture()?;
        self.surface_fault()
    }

    /// Milliseconds between two events, at one nanosecond an instruction.
    pub(super) fn event_elapsed(&mut self, start: EventHandle, end: EventHandle) -> Outcome<f32> {
        let (start, end) = (self.event(start)?, self.event(end)?);
        match (start, end) {
            (Recorded::At(start), Recorded::At(end)) => {
                let instructions = end as f64 - start as f64;
                #[expect(clippy::cast_possible_truncation, reason = "the driver answers in f32")]
                Ok((instructions / NANOSECONDS_PER_MILLISECOND) as f32)
            }
            (Recorded::Captured(_), _) | (_, Recorded::Captured(_)) => Err(Code::INVALID_VALUE),
            _ => Err(Code::INVALID_HANDLE),
        }
    }
}
