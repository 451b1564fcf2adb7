//! Faults: what no other engine would put right.

use crate::{BindingError, EngineId, InvalidGraph, PlanName, Target, Unsupported, WorkspaceError};

/// Something went wrong, at whichever stage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph means nothing.
    #[error(transparent)]
    InvalidGraph(#[from] InvalidGraph),
    /// Every engine declined.
    #[error(transparent)]
    NoEngine(#[from] NoEngine),
    /// A stored plan is not among the answers.
    #[error("no plan {name} for this graph on {target}")]
    NoSuchPlan {
        /// The plan asked for.
        name: PlanName,
        /// The device asked about.
        target: String,
    },
    /// A plan was built on, or an engine was given, another device than it is for.
    #[error("built on {found}, the plan is for {need}")]
    WrongDevice {
        /// The device given.
        found: String,
        /// The device needed.
        need: String,
    },
    /// An engine was given a plan that it does not offer: its config or its workspace is not what
    /// the engine itself answers for these facts and this target.
    #[error("plan {name} is not one of this engine")]
    ForeignPlan {
        /// The plan given.
        name: PlanName,
    },
    /// The run-time compiler refused a source of ours.
    #[error("{kernel}: the compiler failed with {options:?}\n{log}")]
    Compile {
        /// Kernel.
        kernel: String,
        /// Options given.
        options: Vec<String>,
        /// What the compiler said.
        log: String,
    },
    /// A compiled kernel is not what its engine takes it for: a fault of ours.
    #[error("{kernel}: {message}")]
    Kernel {
        /// Kernel.
        kernel: String,
        /// What differs.
        message: String,
    },
    /// A driver call failed.
    #[error("{call} failed: {name} ({code})")]
    Driver {
        /// The call.
        call: &'static str,
        /// Name of the code.
        name: String,
        /// The code.
        code: i32,
    },
    /// A binding does not fit the plan.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// The workspace does not fit the plan.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Every engine's reason for not serving a graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no engine serves this graph on {target}:{}", list(.declined, .left_out))]
pub struct NoEngine {
    /// The device asked about.
    pub target: String,
    /// Engine and reason, in the order of asking.
    pub declined: Vec<(EngineId, Unsupported)>,
    /// Engines that a filter of the router left out.
    pub left_out: Vec<EngineId>,
}

impl NoEngine {
    /// The reasons for one target.
    pub fn new(
        target: &Target,
        declined: Vec<(EngineId, Unsupported)>,
        left_out: Vec<EngineId>,
    ) -> Self {
        Self { target: target.device.to_string(), declined, left_out }
    }
}

fn list(declined: &[(EngineId, Unsupported)], left_out: &[EngineId]) -> String {
    if declined.is_empty() && left_out.is_empty() {
        return " none is registered".into();
    }
    let declined = declined.iter().map(|(engine, why)| format!("\n  {engine}: {why}"));
    let left_out = left_out.iter().map(|engine| format!("\n  {engine}: left out by a filter"));
    declined.chain(left_out).collect()
}

/// Why a plan could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A foreign planner refused after all. Only the router goes on after this.
    #[error(transparent)]
    Declined(Unsupported),
    /// Something broke.
    #[error(transparent)]
    Fault(#[from] Error),
}
