//! Engines: what they must answer, how they register, and the plans that their answers become.

mod config;
mod id;
mod plan;
mod registration;

use std::fmt::Debug;

pub use config::{Config, ParseConfigError};
pub use id::{EngineId, OWN_ENGINES, ParseEngineIdError};
pub use plan::{Candidate, Launches, OverrideRules, Plan, PlanName, StrideRule, Support};
pub use registration::{EngineRegistration, Maturity, RegisteredEngine};

use crate::{BuildError, Call, Compiled, Device, Error, Facts, Target, Unsupported};

/// A set of kernels for one operation on one family of devices.
pub trait Engine: Debug + Send + Sync {
    /// Says whether these facts can run on this target, and with which configs, best first.
    ///
    /// Pure: no CUDA call, no compilation, no environment. Asked only about facts whose features
    /// the engine's registration names. A yes is binding: `build` and `launch` then work.
    ///
    /// # Errors
    ///
    /// [`Unsupported`] with the value and the limit.
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported>;

    /// Makes, or finds, everything compiled that `build` would load for this plan, with no device:
    /// it need not be at hand. An engine that compiles nothing answers with nothing.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignPlan`] as `build` does; a compiler's fault.
    fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError>;

    /// Makes one plan of this engine ready to launch on a device. Slow where something must be
    /// compiled first.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDevice`] for a kind of device the engine does not know, [`Error::ForeignPlan`]
    /// for a plan that its own `check_support` does not offer; a compiler's or driver's fault. [`BuildError::Declined`] only from an engine with a foreign planner.
    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError>;
}

/// Kernels ready to run: all but the addresses is decided.
pub trait Launch: Send + Sync {
    /// Queues the work of one call, whose bindings core has checked.
    ///
    /// Allocates nothing, waits for nothing and reads no device memory on the host; on the host
    /// device the work is done when it returns.
    ///
    /// # Errors
    ///
    /// A failed launch: which driver call, its code and name.
    ///
    /// # Safety
    ///
    /// `call` was checked against the plan that [`Engine::build`] made this from, with the workspace
    /// that this engine laid out for it, and is launched once. [`Executable`](crate::Executable)
    /// keeps that; an engine that wraps another has to.
    #[expect(unsafe_code, reason = "addresses of one plan mean nothing to the kernels of another")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error>;
}
