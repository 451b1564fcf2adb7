//! The universal engine for GPUs: attention forward on compute capability 8.0 and later.
//!
//! Serves f16 and bf16 with head dims that are multiples of 8 up to 256, in every storage form, with
//! rows aligned to 16 bytes. A plan is one kernel; with lengths on the device of many sequences, the work
//! list comes first. Where few queries see many keys, units are cut into pieces, and the merge of these
//! comes last; the list first, where lengths lie on the device or units do not cost alike.
//!
//! Code map: `support` says yes or no · `config` chooses the tile · `order` shares out the work and lays
//! out the workspace · `launch` is a plan on a device. The kernel is `kernels/sm80/sdpa_fwd.cu`.

mod config;
mod launch;
mod order;
mod support;

use std::fmt;
use std::sync::Arc;

use frazil_core::{
    BuildError, Compiled, Device, Engine, EngineId, EngineRegistration, Error, Facts, Feature,
    FeatureSet, Launch, Maturity, Plan, RegisteredEngine, Support, Target, Unsupported, inventory,
};
use frazil_cuda::nvrtc::NoNvrtc;
use frazil_cuda::{Artifacts, CudaDevice, DriverCalls, ImageKind, artifacts};

use crate::support::Offer;

/// Name of the engine.
pub const ID: EngineId = EngineId::new("sdpa_fwd_sm80");

/// All of attention forward but dropout, the block mask, and K and V of another type than Q.
const FEATURES: FeatureSet = FeatureSet::of(&[
    Feature::Band,
    Feature::SoftCap,
    Feature::Bias,
    Feature::Alibi,
    Feature::AlibiPerSequence,
    Feature::Sink,
    Feature::LseNatural,
    Feature::LseBase2,
    Feature::Max,
    Feature::SumExp,
    Feature::QPadded,
    Feature::QPackedLengths,
    Feature::QPackedPrefix,
    Feature::QPackedStarts,
    Feature::KvPadded,
    Feature::KvPackedLengths,
    Feature::KvPackedPrefix,
    Feature::KvPackedStarts,
    Feature::KvPaged,
    Feature::PaddedRowOutputs,
]);

inventory::submit! {
    EngineRegistration {
        id: ID,
        features: FEATURES,
        maturity: MATURITY,
        package: env!("CARGO_PKG_NAME"),
        construct: || Arc::new(Sm80Engine::of_process()),
    }
}

const MATURITY: Maturity = Maturity::Simulated;

/// Attention forward on GPUs, with where its kernels come from.
#[derive(Clone)]
pub struct Sm80Engine {
    artifacts: Source,
}

/// Where kernels come from.
#[derive(Clone)]
enum Source {
    /// The store of this process, asked for when there is something to build.
    Process,
    /// This one.
    Given(Arc<Artifacts>),
}

impl Sm80Engine {
    /// With the kernels of this process's store, [`artifacts`].
    pub const fn of_process() -> Self {
        Self { artifacts: Source::Process }
    }

    /// With the kernels of a store that is handed over: for tests, and for those who keep their own.
    pub fn with_artifacts(artifacts: Arc<Artifacts>) -> Self {
        Self { artifacts: Source::Given(artifacts) }
    }

    /// The engine as a router takes it, where it is not collected.
    pub fn registered(self) -> RegisteredEngine {
        let package = env!("CARGO_PKG_NAME");
        RegisteredEngine::new(ID, FEATURES, MATURITY, package, Arc::new(self))
    }

    fn artifacts(&self) -> Result<&Artifacts, BuildError> {
        match &self.artifacts {
            Source::Given(artifacts) => Ok(artifacts),
            Source::Process => Ok(artifacts().map_err(no_compiler)?),
        }
    }
}

/// A plan is offered only where there is an NVRTC; one that is gone since is a fault.
fn no_compiler(error: NoNvrtc) -> Error {
    Error::Compile { kernel: launch::KERNEL.into(), options: Vec::new(), log: error.to_string() }
}

impl fmt::Debug for Sm80Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sm80Engine")
    }
}

impl Engine for Sm80Engine {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        let offers = Offer::all(facts, target)?;
        let candidates = offers.into_iter().map(|offer| offer.candidate).collect();
        // There is one at least, or a reason.
        Ok(Support::best_first(candidates).unwrap_or_else(|| unreachable!("an offer, or why not")))
    }

    fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
        let offer = Offer::of_plan(plan)?;
        let artifacts = self.artifacts()?;
        let compiled = |request| Ok(artifacts.get(&request)?.compiled(&request));
        offer.requests(ImageKind::Cubin).into_iter().map(compiled).collect()
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let device = CudaDevice::of(device)?;
        let offer = Offer::of_plan(plan)?;
        let kind = device.driver().image_kind();
        let launch = launch::Sm80Launch::load(offer, device, self.artifacts()?, kind)?;
        Ok(Box::new(launch))
    }
}
