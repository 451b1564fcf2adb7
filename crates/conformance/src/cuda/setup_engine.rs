//! The least engine of a GPU: it runs packed-length setup and nothing else.
//!
//! Tests and detectors walk the whole road with it, from facts to a captured graph, and it is how a
//! crate of kernels looks: `check_support` asks the gate, then its own rules, then lays out the
//! workspace; `build` turns the plan's artifact into a loaded kernel; `launch` looks at the stream
//! once and launches.

use std::sync::Arc;

use frazil_core::{
    BuildError, Call, Candidate, Compiled, Device, Engine, EngineId, Error, Facts, Feature,
    FeatureSet, Launch, Launches, Layout, Maturity, OverrideRules, Plan, RegisteredEngine, Role,
    Support, Target, Unsupported,
};
use frazil_cuda::compile::{Arch, Request, gate};
use frazil_cuda::seqlens::{self, Seqlens, SeqlensKernel};
use frazil_cuda::{Artifacts, CudaDevice, DriverCalls, ImageKind};

/// Name of the engine.
pub const SETUP_ENGINE: EngineId = EngineId::new("conformance/seqlens-only");

/// Serves attention forward with device lengths by leaving in its workspace where the rows lie:
/// `q_lengths`, `q_starts`, …; O is not written.
#[derive(Clone, Debug)]
pub struct SetupEngine {
    artifacts: Arc<Artifacts>,
}

/// Everything that is packed and so has element offsets.
const ELEMENT_OFFSETS: [Role; 7] =
    [Role::Q, Role::O, Role::Lse, Role::Max, Role::SumExp, Role::K, Role::V];

impl SetupEngine {
    /// The engine, with where its kernel comes from.
    pub fn new(artifacts: Arc<Artifacts>) -> Self {
        Self { artifacts }
    }

    /// The engine as a router takes it.
    pub fn registered(artifacts: Arc<Artifacts>) -> RegisteredEngine {
        let features = FeatureSet::of(Feature::ALL);
        let (maturity, package) = (Maturity::Simulated, env!("CARGO_PKG_NAME"));
        let engine = Arc::new(Self::new(artifacts));
        RegisteredEngine::new(SETUP_ENGINE, features, maturity, package, engine)
    }

    /// Rules, most general first; then what a plan is made of.
    fn offer(facts: &Facts, target: &Target) -> Result<(Candidate, Seqlens), Unsupported> {
        gate(target, seqlens::OLDEST_NVRTC)?;
        let op_name = facts.op_name();
        let Facts::SdpaFwd(facts) = facts else {
            return Err(Unsupported::Operation { found: op_name });
        };
        let mut workspace = Layout::new();
        let Some(setup) = Seqlens::of(facts, &ELEMENT_OFFSETS, &mut workspace) else {
            let (dim, served) = ("sides with device lengths", "1, 2");
            return Err(Unsupported::Dim { dim, found: 0, served });
        };
        let candidate = Candidate {
            config: seqlens::config(),
            workspace,
            launches: Launches::Own(vec![seqlens::KERNEL.into()]),
            error_word: Some(setup.error_word().offset()),
            overrides: Some(OverrideRules::default()),
        };
        Ok((candidate, setup))
    }

    /// The one kernel of a plan of this engine, as this kind of driver loads it, and its setup.
    fn parts(plan: &Plan, kind: ImageKind) -> Result<(Request, Seqlens), BuildError> {
        let foreign = || Error::ForeignPlan { name: plan.name() };
        let offered = Self::offer(plan.facts(), plan.target());
        let (own, setup) = offered.map_err(|_| foreign())?;
        if own.config != *plan.config() || own.workspace != *plan.workspace() {
            return Err(foreign().into());
        }
        let arch = Arch::of(plan.target()).map_err(|_| foreign())?;
        Ok((seqlens::request(arch, kind), setup))
    }
}

impl Engine for SetupEngine {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        Self::offer(facts, target).map(|(candidate, _)| Support::one(candidate))
    }

    fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
        let (request, _) = Self::parts(plan, ImageKind::Cubin)?;
        Ok(vec![self.artifacts.get(&request)?.compiled(&request)])
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let device = CudaDevice::of(device)?;
        let (request, setup) = Self::parts(plan, device.driver().image_kind())?;
        let artifact = self.artifacts.get(&request)?.artifact;
        // SAFETY: the artifact is what the compiler gave for this request.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        let kernel = unsafe { setup.load(device, &artifact) }.map_err(Error::from)?;
        Ok(Box::new(SetupLaunch { kernel }))
    }
}

/// A plan ready to run.
#[derive(Debug)]
struct SetupLaunch {
    kernel: SeqlensKernel,
}

impl Launch for SetupLaunch {
    #[expect(unsafe_code, reason = "the call's addresses are handed to a kernel")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        // Made current and looked at once, for all launches of the call.
        let queue = self.kernel.device().queue(call.stream())?;
        // SAFETY: the caller's promise that the call was checked against the plan that this was
        // built from; its layout is the one that the setup was given.
        unsafe { self.kernel.launch(&queue, call) }
    }
}
