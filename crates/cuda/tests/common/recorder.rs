//! An engine that keeps what a kernel would be launched with.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use frazil_conformance::memory::HostMemory;
use frazil_conformance::seqlens::Problem;
use frazil_core::{
    BuildError, Call, Candidate, Compiled, Config, Device, DeviceHandle, DeviceId, Engine,
    EngineId, Error, Facts, Feature, FeatureSet, Launch, Launches, Layout, Maturity, MemoryAt,
    OverrideRules, Plan, Region, RegisteredEngine, SdpaFwdFacts, Support, Target, Unsupported,
};

/// The host's half of a kernel, for one plan.
pub(crate) trait Kernel: Send + Sync + Sized + 'static {
    type Params: Send + 'static;

    /// Nothing for facts that it does not serve.
    fn of(facts: &SdpaFwdFacts, layout: &mut Layout) -> Option<Self>;

    fn error_word(&self) -> Option<Region>;

    fn params(&self, call: &Call<'_>) -> Self::Params;
}

/// The parameters of a problem's call, and the plan's regions by name.
pub(crate) fn params_of<K: Kernel>(problem: &Problem) -> (K::Params, Vec<(&'static str, u64)>) {
    let recorder = Recorder::<K>::default();
    let kept = Arc::clone(&recorder.params);
    let id = EngineId::new("test/recorder");
    let features = FeatureSet::of(Feature::ALL);
    let engine =
        RegisteredEngine::new(id, features, Maturity::Simulated, "tests", Arc::new(recorder));
    let facts = Arc::new(Facts::read(&problem.graph().unwrap()).unwrap());
    let device = Device::new(Host(Target::host()));
    let plan = Arc::new(engine).ask(&facts, &Arc::new(Target::host())).unwrap().remove(0);
    let executable = plan.build(&device).unwrap();
    problem.execute(&executable, &HostMemory::new(device)).unwrap();
    let regions = plan.workspace().regions().map(|(name, region)| (name, region.bytes())).collect();
    (kept.lock().unwrap().take().unwrap(), regions)
}

/// What a kernel makes of facts.
pub(crate) fn of_facts<K: Kernel>(facts: &Facts, layout: &mut Layout) -> Option<K> {
    let Facts::SdpaFwd(facts) = facts else { panic!("{facts:?}") };
    K::of(facts, layout)
}

#[derive(Debug)]
struct Host(Target);

impl DeviceHandle for Host {
    fn target(&self) -> &Target {
        &self.0
    }

    fn id(&self) -> DeviceId {
        DeviceId::Host
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
        Ok(MemoryAt::Unknown)
    }
}

/// Keeps the parameters instead of launching with them.
struct Recorder<K: Kernel> {
    params: Arc<Mutex<Option<K::Params>>>,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> std::fmt::Debug for Recorder<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl<K: Kernel> Default for Recorder<K> {
    fn default() -> Self {
        Self { params: Arc::default(), kernel: PhantomData }
    }
}

impl<K: Kernel> Engine for Recorder<K> {
    fn check_support(&self, facts: &Facts, _: &Target) -> Result<Support, Unsupported> {
        let mut workspace = Layout::new();
        let kernel = of_facts::<K>(facts, &mut workspace).expect("facts that it serves");
        Ok(Support::one(Candidate {
            config: Config::default(),
            workspace,
            launches: Launches::Own(Vec::new()),
            error_word: kernel.error_word().map(|region| region.offset()),
            overrides: Some(OverrideRules::default()),
        }))
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let kernel = of_facts::<K>(plan.facts(), &mut Layout::new()).expect("facts that it serves");
        Ok(Box::new(Record { params: Arc::clone(&self.params), kernel }))
    }
}

struct Record<K: Kernel> {
    params: Arc<Mutex<Option<K::Params>>>,
    kernel: K,
}

impl<K: Kernel> Launch for Record<K> {
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        *self.params.lock().unwrap() = Some(self.kernel.params(call));
        Ok(())
    }
}
