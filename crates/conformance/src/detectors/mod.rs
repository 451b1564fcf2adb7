//! The rules of execute, each with a detector, for any engine of a GPU, real or simulated.
//!
//! A [`Detector`] looks at one rule: it builds a plan, calls it in a way that shows a breach, and
//! says what it found. [`Violating`] wraps an engine and breaks one rule, so that every detector is
//! seen to find what it is for; [`Violation::is_found_by`] is the table of who finds what.
//!
//! Each detector runs on a thread of its own, since contexts and capture modes are a thread's. It
//! captures in GLOBAL mode only where that is what it looks at: such a capture forbids calls to
//! every thread of the process, and counts of allocations and driver calls are of the whole process
//! too. So detectors run one at a time, with nothing beside them: [`Detector::findings`] takes turns,
//! and a test program that has other tests that use a GPU or allocate keeps them away.

mod calls;
mod capture;
mod cases;
mod finding;
mod job;
mod results;
mod steady;
mod violating;
mod violation;

use std::sync::{Mutex, PoisonError};
use std::thread;

use frazil_core::{Device, Geometry, Plan, TensorId};

pub use calls::{BESIDE_LAUNCHES, LAUNCH};
pub use cases::CaseCalls;
pub use finding::{Blind, Finding};
pub use results::{Results, ResultsIn};
pub use violating::{STRAY_KERNEL, Strays, Violating};
pub use violation::Violation;

use finding::Stop;

/// What is looked at: an engine's plans for one graph on one device, and two calls of it.
pub struct Subject<'a> {
    /// The device. A build loads what the device has not loaded yet, so a device that is opened
    /// anew shows most.
    pub device: &'a Device,
    /// Asks the engine, each time anew, so that a plan can be dropped with all that belongs to it.
    pub plan: &'a (dyn Fn() -> Plan + Sync),
    /// Two calls with different results, for the same graph with the same extents: what is on the
    /// device alone differs, as lengths.
    pub samples: [Sample<'a>; 2],
    /// Tensors that calls bind with other extents and strides than declared.
    pub overrides: &'a [(TensorId, Geometry)],
    /// Where results are.
    pub results_in: ResultsIn,
    /// How often things are repeated.
    pub effort: Effort,
}

/// The inputs of one call, and what must come of it.
pub struct Sample<'a> {
    /// All bytes of every input.
    pub inputs: Vec<(TensorId, Vec<u8>)>,
    /// Says what is wrong with the results.
    pub judge: &'a (dyn Fn(&Results) -> Result<(), String> + Sync),
}

/// How often a detector repeats a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Calls of one thread, one after another.
    pub repeats: u32,
    /// Calls of each of two threads.
    pub thread_repeats: u32,
}

impl Effort {
    /// A thousand repeats, where a GPU runs them.
    pub const GPU: Self = Self { repeats: 1000, thread_repeats: 200 };

    /// A few dozen, where a GPU is simulated.
    pub const SIMULATED: Self = Self { repeats: 24, thread_repeats: 5 };
}

/// A rule of execute that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Detector {
    /// Build and execute happen inside a capture in GLOBAL mode, which survives and can be replayed.
    Capture,
    /// Plan and executable are dropped inside a capture in GLOBAL mode, which survives, and what was
    /// captured of them still gives the right result.
    Drop,
    /// What was captured is the launches that the plan promised: kernels, in order, nothing else.
    Launches,
    /// Execute allocates nothing on the host: needs
    /// [`CountingAllocator`](crate::alloc::CountingAllocator), and a driver that is not simulated.
    HostAllocations,
    /// Execute calls the driver to launch, and to look at the context and the stream: needs a
    /// [`CountingDriver`](crate::counting_driver::CountingDriver).
    DriverCalls,
    /// All work is on the caller's stream, whichever that is: while it captures, nothing is written.
    Streams,
    /// The context that was current is current again after build, execute and drop, and so is the
    /// one below it.
    Context,
    /// Captured once and replayed with inputs rewritten in place, the bits are those of a fresh
    /// call.
    Replay,
    /// Two threads call one executable at once, with streams and workspaces of their own.
    Threads,
    /// The same call gives the same bits, however often.
    Repeats,
    /// Whatever the workspace holds before a call changes no bit.
    Poison,
    /// Nothing is written around tensors and workspace, or to inputs.
    Guards,
}

impl Detector {
    /// All of them. The first builds inside a capture, and so goes first on a device that is new.
    pub const ALL: [Self; 12] = [
        Self::Capture,
        Self::Drop,
        Self::Launches,
        Self::HostAllocations,
        Self::DriverCalls,
        Self::Streams,
        Self::Context,
        Self::Replay,
        Self::Threads,
        Self::Repeats,
        Self::Poison,
        Self::Guards,
    ];

    /// What is wrong with the subject; nothing where the rule is kept.
    ///
    /// # Errors
    ///
    /// [`Blind`] where the rule cannot be looked at here, which is not to be taken for its being
    /// kept.
    ///
    /// # Panics
    ///
    /// Where the engine panics.
    pub fn findings(self, subject: &Subject<'_>) -> Result<Vec<Finding>, Blind> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let look = match self {
            Self::Capture => capture::build_and_execute,
            Self::Drop => capture::dropped,
            Self::Launches => capture::launches,
            Self::HostAllocations => calls::host_allocations,
            Self::DriverCalls => calls::driver_calls,
            Self::Streams => calls::streams,
            Self::Context => calls::context,
            Self::Replay => steady::replay,
            Self::Threads => steady::threads,
            Self::Repeats => steady::repeats,
            Self::Poison => steady::poison,
            Self::Guards => steady::guards,
        };
        let looked = thread::scope(|scope| scope.spawn(|| look(subject)).join());
        match looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Ok(findings) => Ok(findings),
            Err(Stop::Found(finding)) => Ok(vec![*finding]),
            Err(Stop::Blind(blind)) => Err(blind),
        }
    }
}
