//! What detectors say.

use std::fmt::Display;

use frazil_core::{BuildError, Error};
use frazil_cuda::DriverError;
use frazil_cuda::tools::TransferError;

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// The engine failed.
    #[error("{stage} failed {situation}: {error}")]
    Failed {
        /// `build` or `execute`.
        stage: &'static str,
        /// What was going on.
        situation: &'static str,
        /// Its error.
        error: String,
    },
    /// A capture was broken.
    #[error("{situation} broke the capture: {error}")]
    BrokenCapture {
        /// What was done in it.
        situation: &'static str,
        /// What the driver said at its end.
        error: String,
    },
    /// What was captured is not what the plan promised.
    #[error("captured {}, promised {}", list(.found), list(.promised))]
    Launches {
        /// Symbols of kernels, and kinds of other nodes, in order.
        found: Vec<String>,
        /// Symbols.
        promised: Vec<String>,
    },
    /// The host's heap was used.
    #[error("{allocations} allocations on the host in {calls} calls")]
    HostAllocations {
        /// Allocations.
        allocations: usize,
        /// Calls of execute.
        calls: usize,
    },
    /// The driver was called otherwise than may be.
    #[error("{function} was called {found} times in {calls} calls of execute, may be {may_be}")]
    DriverCalls {
        /// The function.
        function: String,
        /// How often it was called.
        found: u64,
        /// How often it may be.
        may_be: u64,
        /// Calls of execute.
        calls: u64,
    },
    /// Something ran that was not queued on the caller's stream.
    #[error("{memory} was written at byte {offset} while the caller's stream captured")]
    ForeignWork {
        /// A tensor, or the workspace.
        memory: String,
        /// The first byte that changed.
        offset: usize,
    },
    /// The thread's context is another one than before.
    #[error("after {after}, the context is {found:#x?}, was {before:#x?}")]
    Context {
        /// What had been done.
        after: &'static str,
        /// What was current.
        before: Option<u64>,
        /// What is.
        found: Option<u64>,
    },
    /// A result is not what it must be.
    #[error("wrong {situation}: {message}")]
    Wrong {
        /// How it came about.
        situation: &'static str,
        /// What the sample says of it.
        message: String,
    },
    /// Results that must have the same bits do not.
    #[error("other bits {situation}: {place}")]
    Unequal {
        /// How they came about.
        situation: &'static str,
        /// The first place at which they differ.
        place: String,
    },
    /// Bytes were written that the call must leave alone.
    #[error("{memory} was written at byte {offset}")]
    Written {
        /// An input, or what lies around a tensor or the workspace.
        memory: String,
        /// Byte, from where the memory begins; negative before it.
        offset: i64,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// Why a rule cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Blind {
    /// Allocations are not counted in this program.
    #[error("no counting allocator in this program")]
    NoCountingAllocator,
    /// Driver calls are not counted in this process.
    #[error("no counting driver in this process")]
    NoCountingDriver,
    /// A simulated driver is part of the program, and does not do what a real one does.
    #[error("no driver outside of this program: the GPU is simulated")]
    Simulated,
    /// What the detector itself needs has failed.
    #[error("the detector itself: {0}")]
    Failed(String),
}

/// Why a detector stops early.
pub(super) enum Stop {
    Found(Box<Finding>),
    Blind(Blind),
}

impl From<Finding> for Stop {
    fn from(finding: Finding) -> Self {
        Self::Found(Box::new(finding))
    }
}

impl From<Blind> for Stop {
    fn from(blind: Blind) -> Self {
        Self::Blind(blind)
    }
}

impl From<DriverError> for Stop {
    fn from(error: DriverError) -> Self {
        Blind::Failed(error.to_string()).into()
    }
}

impl From<TransferError> for Stop {
    fn from(error: TransferError) -> Self {
        Blind::Failed(error.to_string()).into()
    }
}

/// An engine's failure, which is a finding whatever the rule.
pub(super) fn failed(
    stage: &'static str,
    situation: &'static str,
) -> impl Fn(&dyn Display) -> Finding {
    move |error| Finding::Failed { stage, situation, error: error.to_string() }
}

pub(super) fn not_built(situation: &'static str) -> impl Fn(BuildError) -> Finding {
    move |error| failed("build", situation)(&error)
}

pub(super) fn not_executed(situation: &'static str) -> impl Fn(Error) -> Finding {
    move |error| failed("execute", situation)(&error)
}
