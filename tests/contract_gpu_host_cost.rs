//! What a call costs on the host, beside the driver's launch that it is made of.
//!
//! One test, since allocations are counted for the whole process, and time is the computer's.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/setup.rs"]
mod setup;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frazil_conformance::alloc::{CountingAllocator, count_allocations};
use frazil_conformance::cuda::SetupEngine;
use frazil_core::{
    Bindings, BuildError, Call, Compiled, Device, Engine, EngineId, Error, Executable, Facts,
    Feature, FeatureSet, Launch, Maturity, Plan, RegisteredEngine, Support, Target, TensorId,
    Unsupported, Workspace,
};
use frazil_cuda::compile::Arch;
use frazil_cuda::seqlens::{self, Params};
use frazil_cuda::tools::{DeviceMemory, OwnedStream};
use frazil_cuda::{Artifacts, CudaDevice, DriverCalls, FunctionHandle, LaunchShape};
use here::or_skip;
use setup::problems;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Calls between two waits: fewer than a stream queues without waiting.
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

/// Memory for calls, on one stream.
struct Rig {
    device: Device,
    stream: OwnedStream,
    tensors: Vec<(TensorId, DeviceMemory)>,
    workspace: DeviceMemory,
}

impl Rig {
    fn new(device: &Device, plan: &Plan) -> Self {
        let cuda = CudaDevice::of(device).unwrap();
        let of = |(id, bytes): (_, Vec<u8>)| (id, DeviceMemory::of(cuda, &bytes).unwrap());
        Self {
            device: device.clone(),
            stream: OwnedStream::new(cuda).unwrap(),
            tensors: problems()[0].contents().unwrap().into_iter().map(of).collect(),
            workspace: DeviceMemory::new(cuda, plan.workspace_bytes()).unwrap(),
        }
    }

    /// Time of each of [`CALLS`] calls, and allocations of all.
    fn execute(&mut self, executable: &Executable) -> (Duration, usize) {
        let tensors = self.tensors.iter_mut().map(|(id, memory)| (*id, memory.buffer_mut()));
        let bindings = Bindings::of(tensors).unwrap();
        let (stream, workspace) = (self.stream.stream(), &mut self.workspace);
        timed(&self.stream, || {
            executable.execute(&bindings, Workspace::new(workspace.buffer_mut()), stream).unwrap();
        })
    }

    /// As [`Rig::execute`], for the launch alone.
    fn launch(&self, function: FunctionHandle) -> (Duration, usize) {
        let cuda = CudaDevice::of(&self.device).unwrap();
        let shape = LaunchShape {
            grid: [1; 3],
            block: [seqlens::NUM_THREADS, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic: false,
        };
        // No sequences: the kernel writes the error word alone.
        let params = Params { error_word: self.workspace.addr(), ..Params::default() };
        timed(&self.stream, || {
            let (raw, params) = (self.stream.raw(), bytemuck::bytes_of(&params));
            // SAFETY: the function takes `Params`, whose one address is that of the workspace.
            unsafe { cuda.driver().launch_kernel_ex(&shape, raw, function, params) }.unwrap();
        })
    }
}

fn timed(stream: &OwnedStream, mut call: impl FnMut()) -> (Duration, usize) {
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

/// A function of a module of its own, which is never unloaded.
fn loaded(device: &CudaDevice, artifacts: &Artifacts, target: &Target) -> FunctionHandle {
    let driver = device.driver();
    let request = seqlens::request(Arch::of(target).unwrap(), driver.image_kind());
    let artifact = artifacts.get(&request).unwrap().artifact;
    // SAFETY: the image is what the compiler gave.
    let module = unsafe { driver.module_load_data(&artifact.image) }.unwrap();
    // SAFETY: the module is loaded.
    unsafe { driver.module_get_function(module, seqlens::KERNEL) }.unwrap()
}

#[test]
fn a_call_costs_its_launch_and_at_most_a_microsecond_and_allocates_nothing() {
    let device = or_skip!(here::gpu());
    let artifacts = Arc::new(Artifacts::new(or_skip!(here::nvrtc()), None));
    let facts = Arc::new(Facts::read(&problems()[0].graph().unwrap()).unwrap());
    let target = Arc::new(device.target().clone());
    let setup = || SetupEngine::new(Arc::clone(&artifacts));
    let engines = [
        registered(setup()),
        registered(Part { setup: setup(), looks: false }),
        registered(Part { setup: setup(), looks: true }),
    ];
    let executables = engines.map(|engine| {
        let plan = engine.ask(&facts, &target).unwrap().remove(0);
        plan.build(&device).unwrap()
    });
    let mut rig = Rig::new(&device, executables[0].plan());
    let cuda = CudaDevice::of(&device).unwrap();
    // Callers have the device's context current; where not, a call makes it so and back.
    let current = cuda.make_current().unwrap();
    let function = loaded(cuda, &artifacts, &target);
    let mut best = [Duration::MAX; 4];
    for _ in 0..BATCHES {
        let [whole, checked, looked] = executables.each_ref().map(|it| rig.execute(it));
        for (best, (took, allocations)) in
            best.iter_mut().zip([rig.launch(function), whole, checked, looked])
        {
            *best = took.min(*best);
            assert_eq!(allocations, 0, "in {CALLS} calls");
        }
    }
    drop(current);
    let pushed = (0..BATCHES).map(|_| rig.execute(&executables[0]).0).min().unwrap();
    let [bare, whole, checked, looked] = best;
    let line = format!(
        "host cost of a call: launch alone {bare:?}, execute {whole:?}, of which core's checks \
         {checked:?}, context and stream {:?}; without a current context {pushed:?}\n",
        looked.saturating_sub(checked)
    );
    // Not by a macro: libtest keeps to itself what those print in a test that ends well.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    assert!(whole <= bare + MOST, "{line}");
}
