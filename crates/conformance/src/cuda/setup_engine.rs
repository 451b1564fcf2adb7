//! The least engines of a GPU: each runs one of the kernels that come before attention, and nothing
//! else.
//!
//! Tests and detectors walk the whole road with them, from facts to a captured graph, and they are how
//! a crate of kernels looks: `check_support` asks the gate, then its own rules, then lays out the
//! workspace; `build` turns the plan's artifact into a loaded kernel; `launch` looks at the stream
//! once and launches.

use std::sync::Arc;

use frazil_core::{
    BuildError, Call, Candidate, Compiled, Config, Device, Engine, EngineId, Error, Facts, Feature,
    FeatureSet, Launch, Launches, Layout, Maturity, OverrideRules, Plan, RegisteredEngine, Role,
    SdpaFwdFacts, Support, Target, Unsupported,
};
use frazil_cuda::compile::{Arch, Request, gate};
use frazil_cuda::seqlens::{self, Seqlens, SeqlensKernel};
use frazil_cuda::work_list::{self, Bands, WorkList, WorkListKernel};
use frazil_cuda::{Artifact, Artifacts, CudaDevice, DriverCalls, ImageKind, LoadError};

use crate::work_list::{Cut, Order};

/// Name of the engine of packed-length setup.
pub const SETUP_ENGINE: EngineId = EngineId::new("conformance/seqlens-only");

/// Name of the engine of the work list.
pub const WORK_LIST_ENGINE: EngineId = EngineId::new("conformance/work-list-only");

/// Serves attention forward with device lengths, and for a list in natural order any, by leaving in its
/// workspace where the rows lie: `q_lengths`, `q_starts`, …, and of a list the bands; O is not written.
#[derive(Clone, Debug)]
pub struct SetupEngine {
    artifacts: Arc<Artifacts>,
    kind: Kind,
}

/// Which kernel an engine runs.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Seqlens,
    WorkList(Bands, Order),
}

/// Everything that is packed and so has element offsets.
const ELEMENT_OFFSETS: [Role; 7] =
    [Role::Q, Role::O, Role::Lse, Role::Max, Role::SumExp, Role::K, Role::V];

impl SetupEngine {
    /// The engine of packed-length setup, with where its kernel comes from.
    pub fn new(artifacts: Arc<Artifacts>) -> Self {
        Self { artifacts, kind: Kind::Seqlens }
    }

    /// That engine as a router takes it.
    pub fn registered(artifacts: Arc<Artifacts>) -> RegisteredEngine {
        Self::new(artifacts).register(SETUP_ENGINE)
    }

    /// The engine of the work list, as a router takes it.
    pub fn listing(artifacts: Arc<Artifacts>, cut: Cut) -> RegisteredEngine {
        let Cut { band_tokens, block_n, num_runs, section_bytes, order } = cut;
        let bands = Bands { band_tokens, block_n, num_runs, section_bytes };
        Self { artifacts, kind: Kind::WorkList(bands, order) }.register(WORK_LIST_ENGINE)
    }

    fn register(self, id: EngineId) -> RegisteredEngine {
        let features = FeatureSet::of(Feature::ALL);
        let (maturity, package) = (Maturity::Simulated, env!("CARGO_PKG_NAME"));
        RegisteredEngine::new(id, features, maturity, package, Arc::new(self))
    }

    /// Rules, most general first; then what a plan is made of.
    fn offer(&self, facts: &Facts, target: &Target) -> Result<(Candidate, Setup), Unsupported> {
        gate(target, self.kind.oldest_nvrtc())?;
        let op_name = facts.op_name();
        let Facts::SdpaFwd(facts) = facts else {
            return Err(Unsupported::Operation { found: op_name });
        };
        let mut workspace = Layout::new();
        let Some(setup) = self.kind.setup(facts, &mut workspace) else {
            let (dim, served) = ("sides with device lengths", "1, 2");
            return Err(Unsupported::Dim { dim, found: 0, served });
        };
        let (config, kernel) = self.kind.kernel();
        let candidate = Candidate {
            config,
            workspace,
            launches: Launches::Own(vec![kernel.into()]),
            error_word: setup.seqlens().map(|sides| sides.error_word().offset()),
            overrides: Some(OverrideRules::default()),
        };
        Ok((candidate, setup))
    }

    /// The one kernel of a plan of this engine, as this kind of driver loads it, and its setup.
    fn parts(&self, plan: &Plan, kind: ImageKind) -> Result<(Request, Setup), BuildError> {
        let foreign = || Error::ForeignPlan { name: plan.name() };
        let offered = self.offer(plan.facts(), plan.target());
        let (own, setup) = offered.map_err(|_| foreign())?;
        if own.config != *plan.config() || own.workspace != *plan.workspace() {
            return Err(foreign().into());
        }
        let arch = Arch::of(plan.target()).map_err(|_| foreign())?;
        Ok((self.kind.request(arch, kind), setup))
    }
}

impl Kind {
    fn oldest_nvrtc(self) -> frazil_core::Version {
        match self {
            Self::Seqlens => seqlens::OLDEST_NVRTC,
            Self::WorkList(..) => work_list::OLDEST_NVRTC,
        }
    }

    fn kernel(self) -> (Config, &'static str) {
        match self {
            Self::Seqlens => (seqlens::config(), seqlens::KERNEL),
            Self::WorkList(..) => (work_list::config(), work_list::KERNEL),
        }
    }

    fn request(self, arch: Arch, kind: ImageKind) -> Request {
        match self {
            Self::Seqlens => seqlens::request(arch, kind),
            Self::WorkList(..) => work_list::request(arch, kind),
        }
    }

    fn setup(&self, facts: &SdpaFwdFacts, workspace: &mut Layout) -> Option<Setup> {
        match self {
            Self::Seqlens => Seqlens::of(facts, &ELEMENT_OFFSETS, workspace).map(Setup::Seqlens),
            Self::WorkList(bands, Order::DearestFirst) => {
                WorkList::of(facts, bands, workspace).map(Setup::WorkList)
            }
            Self::WorkList(bands, Order::Natural) => {
                let (list, _) = WorkList::in_natural_order(facts, bands, workspace);
                Some(Setup::WorkList(list))
            }
        }
    }
}

/// What an engine runs, for one plan.
enum Setup {
    Seqlens(Seqlens),
    WorkList(WorkList),
}

impl Setup {
    fn seqlens(&self) -> Option<&Seqlens> {
        match self {
            Self::Seqlens(setup) => Some(setup),
            Self::WorkList(list) => list.seqlens(),
        }
    }

    /// Loads its kernel.
    ///
    /// # Safety
    ///
    /// The artifact is what a compiler gave for the engine's request, unchanged.
    #[expect(unsafe_code, reason = "machine code is loaded")]
    unsafe fn load(self, on: &CudaDevice, artifact: &Artifact) -> Result<SetupLaunch, LoadError> {
        match self {
            // SAFETY: the caller's promise.
            Self::Seqlens(setup) => unsafe { setup.load(on, artifact) }.map(SetupLaunch::Seqlens),
            // SAFETY: the caller's promise.
            Self::WorkList(list) => unsafe { list.load(on, artifact) }.map(SetupLaunch::WorkList),
        }
    }
}

impl Engine for SetupEngine {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        self.offer(facts, target).map(|(candidate, _)| Support::one(candidate))
    }

    fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
        let (request, _) = self.parts(plan, ImageKind::Cubin)?;
        Ok(vec![self.artifacts.get(&request)?.compiled(&request)])
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let device = CudaDevice::of(device)?;
        let (request, setup) = self.parts(plan, device.driver().image_kind())?;
        let artifact = self.artifacts.get(&request)?.artifact;
        // SAFETY: the artifact is what the compiler gave for this request.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        let launch = unsafe { setup.load(device, &artifact) }.map_err(Error::from)?;
        Ok(Box::new(launch))
    }
}

/// A plan ready to run.
#[derive(Debug)]
enum SetupLaunch {
    Seqlens(SeqlensKernel),
    WorkList(WorkListKernel),
}

impl Launch for SetupLaunch {
    #[expect(unsafe_code, reason = "the call's addresses are handed to a kernel")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        let device = match self {
            Self::Seqlens(kernel) => kernel.device(),
            Self::WorkList(kernel) => kernel.device(),
        };
        // Made current and looked at once, for all launches of the call.
        let queue = device.queue(call.stream())?;
        match self {
            // SAFETY: the caller's promise that the call was checked against the plan that this was
            // built from; its layout is the one that the setup was given.
            Self::Seqlens(kernel) => unsafe { kernel.launch(&queue, call) },
            // SAFETY: as above.
            Self::WorkList(kernel) => unsafe { kernel.launch(&queue, call) },
        }
    }
}
