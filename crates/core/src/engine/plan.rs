//! Support, and the plans that come from it alone.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Config, EngineId, Maturity, RegisteredEngine};
use crate::{BuildError, Compiled, Device, Error, Executable, Facts, Layout, Role, Target};

/// The kernels that one execute launches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launches {
    /// Exactly these, in order.
    Own(Vec<Cow<'static, str>>),
    /// Those of a foreign library, read from a graph at build, after these of ours.
    Foreign {
        /// Ours, in order.
        setup: Vec<Cow<'static, str>>,
    },
}

/// Which overrides a plan takes: a rule for the strides of a role; those of roles left out are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideRules(pub Vec<(Role, StrideRule)>);

/// What the strides of an override may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrideRule {
    /// The last axis must keep stride 1.
    pub unit_stride: bool,
    /// Every other stride must be a multiple of this many bytes; at least 1, which leaves them free.
    pub multiple_bytes: std::num::NonZeroU32,
}

/// One way in which an engine can serve some facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What is compiled in.
    pub config: Config,
    /// Scratch memory of one execute.
    pub workspace: Layout,
    /// What is launched.
    pub launches: Launches,
    /// Offset of the error word in the workspace, for plans steered by device tensors.
    pub error_word: Option<u64>,
    /// What overrides are taken; `None`: none.
    pub overrides: Option<OverrideRules>,
}

/// Proof that an engine serves some facts: the candidates, best first.
#[derive(Clone, Debug)]
pub struct Support(Vec<Candidate>);

impl Support {
    /// `None` when there is no candidate: the engine then says why.
    pub fn best_first(candidates: Vec<Candidate>) -> Option<Self> {
        (!candidates.is_empty()).then_some(Self(candidates))
    }

    /// The one candidate of an engine that has no choice.
    pub fn one(candidate: Candidate) -> Self {
        Self(vec![candidate])
    }

    pub(super) fn into_plans(
        self,
        engine: &Arc<RegisteredEngine>,
        facts: &Arc<Facts>,
        target: &Arc<Target>,
    ) -> Vec<Plan> {
        self.0
            .into_iter()
            .map(|candidate| Plan {
                engine: Arc::clone(engine),
                facts: Arc::clone(facts),
                target: Arc::clone(target),
                candidate: Arc::new(candidate),
            })
            .collect()
    }
}

/// An engine's promise to serve some facts on a target with one config. Pure data.
#[derive(Clone, Debug)]
pub struct Plan {
    engine: Arc<RegisteredEngine>,
    facts: Arc<Facts>,
    target: Arc<Target>,
    candidate: Arc<Candidate>,
}

/// What is stored of a plan: enough to find it again among the router's answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanName {
    /// The engine.
    pub engine: EngineId,
    /// What is compiled in.
    pub config: Config,
}

/// `sdpa_fwd_cpu[block_m=64,block_n=128]`.
impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.engine, self.config)
    }
}

impl Plan {
    /// Engine and config, for storing.
    pub fn name(&self) -> PlanName {
        PlanName { engine: self.engine.id().clone(), config: self.config().clone() }
    }

    /// The engine that made it.
    pub fn engine(&self) -> &EngineId {
        self.engine.id()
    }

    /// How far that engine is proven.
    pub fn maturity(&self) -> Maturity {
        self.engine.maturity()
    }

    /// What it serves.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Where it runs.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What is compiled in.
    pub fn config(&self) -> &Config {
        &self.candidate.config
    }

    /// Scratch memory of one execute: regions by name.
    pub fn workspace(&self) -> &Layout {
        &self.candidate.workspace
    }

    /// Scratch memory that every execute needs, in bytes, for every legal override.
    pub fn workspace_bytes(&self) -> u64 {
        self.candidate.workspace.bytes()
    }

    /// What every execute launches.
    pub fn launches(&self) -> &Launches {
        &self.candidate.launches
    }

    /// Offset in the workspace of a `u32` of [`ErrorWord`](crate::ErrorWord) bits, written by every
    /// execute and valid when its work is done; `None` where no device tensor steers the work.
    pub fn error_word(&self) -> Option<u64> {
        self.candidate.error_word
    }

    /// Which overrides it takes at execute; `None`: none.
    pub fn override_rules(&self) -> Option<&OverrideRules> {
        self.candidate.overrides.as_ref()
    }

    /// Makes, or finds, the kernels of the plan without a device, so that a later
    /// [`build`](Self::build) finds them, in this process or another: one entry a kernel, none for
    /// an engine that compiles nothing.
    ///
    /// # Errors
    ///
    /// A compiler's fault.
    pub fn compile(&self) -> Result<Vec<Compiled>, BuildError> {
        self.engine.engine().compile(self)
    }

    /// Makes the plan ready to run on a device that has the plan's target.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDevice`], a compiler's or driver's fault, or a foreign planner's decline.
    pub fn build(&self, device: &Device) -> Result<Executable, BuildError> {
        if device.target() != self.target() {
            return Err(BuildError::Fault(Error::WrongDevice {
                found: format!("{} {}", device.id(), device.target().device),
                need: self.target.device.to_string(),
            }));
        }
        let launch = self.engine.engine().build(self, device)?;
        Ok(Executable::new(self.clone(), device.clone(), launch))
    }
}
