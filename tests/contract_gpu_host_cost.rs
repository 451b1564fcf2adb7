//! What a call costs on the host, beside as many bare launches as it makes, of as many bytes of parameters.
//!
//! One test, since allocations are counted for the whole process, and time is the computer's.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/setup.rs"]
mod setup;
#[path = "common/sm80_calls.rs"]
mod sm80_calls;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frazil_conformance::alloc::{CountingAllocator, count_allocations};
use frazil_conformance::cuda::SetupEngine;
use frazil_core::{
    Bindings, BuildError, Call, Compiled, Config, Device, Engine, EngineId, Error, Executable,
    Facts, Feature, FeatureSet, Launch, Maturity, Plan, RegisteredEngine, Support, Target,
    TensorId, Unsupported, Workspace,
};
use frazil_cuda::compile::{Arch, Request};
use frazil_cuda::sources::Source;
use frazil_cuda::tools::{DeviceMemory, OwnedStream};
use frazil_cuda::{
    Artifacts, CudaDevice, DriverCalls, FunctionHandle, LaunchShape, combine, work_list,
};
use frazil_engine_sm80::Sm80Engine;
use here::or_skip;
use setup::problems;
use sm80_calls::{calls, launches};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Calls between two waits: a stream queues their launches, three a call at most, without waiting.
const CALLS: u32 = 300;
/// The best of so many is taken: what else the computer does only adds time.
const BATCHES: usize = 20;
/// How much longer than its launch a call may take.
const MOST: Duration = Duration::from_micros(1);

/// Setup without its last steps: what a call costs up to there.
#[derive(Debug)]
struct Part {
    setup: SetupEngine,
    /// Whether the context and the stream are looked at.
    looks: bool,
}

struct PartLaunch {
    device: CudaDevice,
    looks: bool,
}

impl Engine for Part {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        self.setup.check_support(facts, target)
    }

    fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
        self.setup.compile(plan)
    }

    fn build(&self, _: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let device = CudaDevice::of(device)?.clone();
        Ok(Box::new(PartLaunch { device, looks: self.looks }))
    }
}

impl Launch for PartLaunch {
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        if self.looks {
            self.device.queue(call.stream())?;
        }
        Ok(())
    }
}

/// An executable with memory for its calls, on one stream.
struct Rig {
    executable: Executable,
    stream: OwnedStream,
    tensors: Vec<(TensorId, DeviceMemory)>,
    workspace: DeviceMemory,
}

/// What the host takes for each of [`CALLS`] calls, and allocations of all.
type Cost = (Duration, usize);

impl Rig {
    fn new(device: &Device, plan: &Plan, inputs: &[(TensorId, Vec<u8>)]) -> Self {
        let cuda = CudaDevice::of(device).unwrap();
        let mut tensors = Vec::new();
        for port in plan.facts().ports().iter() {
            let (id, desc) = (port.desc().id(), port.desc());
            let memory = match inputs.iter().find(|(input, _)| *input == id) {
                Some((_, bytes)) => DeviceMemory::of(cuda, bytes),
                None => DeviceMemory::new(cuda, desc.geometry().span() * desc.dtype().bytes()),
            };
            tensors.push((id, memory.unwrap()));
        }
        Self {
            executable: plan.build(device).unwrap(),
            stream: OwnedStream::new(cuda).unwrap(),
            tensors,
            workspace: DeviceMemory::new(cuda, plan.workspace_bytes()).unwrap(),
        }
    }

    fn execute(&mut self) -> Cost {
        let tensors = self.tensors.iter_mut().map(|(id, memory)| (*id, memory.buffer_mut()));
        let bindings = Bindings::of(tensors).unwrap();
        let (stream, workspace) = (self.stream.stream(), &mut self.workspace);
        timed(&self.stream, || {
            let workspace = Workspace::new(workspace.buffer_mut());
            self.executable.execute(&bindings, workspace, stream).unwrap();
        })
    }
}

/// Launches that do nothing, one for each of a plan's.
struct Bare {
    device: CudaDevice,
    stream: OwnedStream,
    /// Each with the bytes of its parameters.
    functions: Vec<(FunctionHandle, usize)>,
}

impl Bare {
    fn of(plan: &Plan, device: &Device, artifacts: &Artifacts) -> Self {
        let device = CudaDevice::of(device).unwrap().clone();
        let bytes = launches(plan).into_iter().map(|kernel| params_bytes(plan, kernel));
        let functions =
            bytes.map(|bytes| (nothing(bytes, &device, plan.target(), artifacts), bytes));
        let functions = functions.collect();
        Self { stream: OwnedStream::new(&device).unwrap(), device, functions }
    }

    fn launch(&self) -> Cost {
        let shape = LaunchShape {
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic: false,
        };
        let (driver, raw, params) = (self.device.driver(), self.stream.raw(), [0; 4096]);
        timed(&self.stream, || {
            for &(function, bytes) in &self.functions {
                // SAFETY: the function takes so many bytes, and looks at none of them.
                unsafe { driver.launch_kernel_ex(&shape, raw, function, &params[..bytes]) }
                    .unwrap();
            }
        })
    }
}

/// Of one of the kernels that a plan launches.
fn params_bytes(plan: &Plan, kernel: &str) -> usize {
    match kernel {
        work_list::KERNEL => work_list::Params::BYTES,
        combine::KERNEL => combine::Params::BYTES,
        _ => usize::try_from(plan.config().get("params_bytes").unwrap()).unwrap(),
    }
}

fn timed(stream: &OwnedStream, mut call: impl FnMut()) -> Cost {
    stream.synchronize().unwrap();
    let (took, allocations) = count_allocations(|| {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| call());
        begin.elapsed()
    });
    stream.synchronize().unwrap();
    (took / CALLS, allocations)
}

fn registered(engine: impl Engine + 'static) -> Arc<RegisteredEngine> {
    let (id, features) = (EngineId::new("test/host-cost"), FeatureSet::of(Feature::ALL));
    let engine = Arc::new(engine);
    Arc::new(RegisteredEngine::new(id, features, Maturity::Simulated, "test", engine))
}

/// A kernel that does nothing, of a module of its own, which is never unloaded.
fn nothing(
    params_bytes: usize,
    device: &CudaDevice,
    target: &Target,
    artifacts: &Artifacts,
) -> FunctionHandle {
    const SYMBOL: &str = "frazil_nothing";
    let text = format!(
        "struct Params {{ unsigned char bytes[{params_bytes}]; }};\n\
         extern \"C\" __global__ void {SYMBOL}(const __grid_constant__ Params params) {{}}\n"
    );
    let driver = device.driver();
    let request = Request {
        source: Source::new("nothing.cu", &[("nothing.cu", &text)]).unwrap(),
        symbol: SYMBOL.into(),
        config: Config::default(),
        arch: Arch::of(target).unwrap(),
        kind: driver.image_kind(),
    };
    let artifact = artifacts.get(&request).unwrap().artifact;
    let _current = device.make_current().unwrap();
    // SAFETY: the image is what the compiler gave.
    let module = unsafe { driver.module_load_data(&artifact.image) }.unwrap();
    // SAFETY: the module is loaded.
    unsafe { driver.module_get_function(module, SYMBOL) }.unwrap()
}

/// The least of many rounds, beside the bare launches of the same rounds. Nothing is allocated.
fn least(bare: &Bare, rigs: &mut [Rig]) -> (Duration, Vec<Duration>) {
    let (mut least_bare, mut least) = (Duration::MAX, vec![Duration::MAX; rigs.len()]);
    for _ in 0..BATCHES {
        let (took, _) = bare.launch();
        least_bare = took.min(least_bare);
        for (least, rig) in least.iter_mut().zip(&mut *rigs) {
            let (took, allocations) = rig.execute();
            *least = took.min(*least);
            assert_eq!(allocations, 0, "in {CALLS} calls");
        }
    }
    (least_bare, least)
}

/// Setup alone, and what its call is made of.
fn of_setup(device: &Device, artifacts: &Arc<Artifacts>) -> (Duration, Duration, String) {
    let facts = Arc::new(Facts::read(&problems()[0].graph().unwrap()).unwrap());
    let target = Arc::new(device.target().clone());
    let inputs = problems()[0].contents().unwrap();
    let setup = || SetupEngine::new(Arc::clone(artifacts));
    let engines = [
        registered(setup()),
        registered(Part { setup: setup(), looks: false }),
        registered(Part { setup: setup(), looks: true }),
    ];
    let plans = engines.map(|engine| engine.ask(&facts, &target).unwrap().remove(0));
    let mut rigs = plans.each_ref().map(|plan| Rig::new(device, plan, &inputs));
    let bare = Bare::of(&plans[0], device, artifacts);
    // Callers have the device's context current; where not, a call makes it so and back.
    let current = CudaDevice::of(device).unwrap().make_current().unwrap();
    let (least_bare, least) = least(&bare, &mut rigs);
    drop(current);
    let pushed = (0..BATCHES).map(|_| rigs[0].execute().0).min().unwrap();
    let [whole, checked, looked] = least[..] else { unreachable!("three rigs") };
    let parts = format!(
        ", of which core's checks {checked:?}, context and stream {:?}; without a current context \
         {pushed:?}",
        looked.saturating_sub(checked)
    );
    (least_bare, whole, parts)
}

/// One plan of attention forward.
fn of_sm80(
    (name, position): (&str, usize),
    device: &Device,
    artifacts: &Arc<Artifacts>,
) -> (Duration, Duration, String) {
    let cases = calls(name).cases();
    let engine = Arc::new(Sm80Engine::with_artifacts(Arc::clone(artifacts)).registered());
    let target = Arc::new(device.target().clone());
    let plan = engine.ask(cases.facts(), &target).unwrap().swap_remove(position);
    let mut rigs = [Rig::new(device, &plan, &cases.samples()[0].inputs)];
    let bare = Bare::of(&plan, device, artifacts);
    let _current = CudaDevice::of(device).unwrap().make_current().unwrap();
    let (least_bare, least) = least(&bare, &mut rigs);
    (least_bare, least[0], format!(", by {}", launches(&plan).join(", ")))
}

/// Units that are counted, worked out by each block, listed, and cut without a list and with one.
const PLANS: [(&str, usize); 5] =
    [("dense", 0), ("packed_lengths", 0), ("packed_lengths", 1), ("cut_dense", 0), ("cut", 0)];

#[test]
fn a_call_costs_its_launches_and_at_most_a_microsecond_and_allocates_nothing() {
    let device = or_skip!(here::gpu());
    let artifacts = Arc::new(Artifacts::new(or_skip!(here::nvrtc()), None));
    let mut costs = vec![("setup".to_owned(), of_setup(&device, &artifacts))];
    costs.extend(PLANS.map(|plan| {
        let name = format!("sdpa_fwd_sm80, {}, plan {}", plan.0, plan.1);
        (name, of_sm80(plan, &device, &artifacts))
    }));
    let mut dear = Vec::new();
    for (name, (bare, whole, more)) in costs {
        let line = format!(
            "host cost of a call of {name}: launches alone {bare:?}, execute {whole:?}{more}\n"
        );
        // Not by a macro: libtest keeps to itself what those print in a test that ends well.
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
        if whole > bare + MOST {
            dear.push(line);
        }
    }
    assert!(dear.is_empty(), "more than {MOST:?} beside the launches:\n{}", dear.concat());
}
