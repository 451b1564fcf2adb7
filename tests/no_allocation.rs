//! `execute` makes no heap allocation on the host: a thousand calls under a counting allocator.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::Arc;

use frazil::{
    Align, Band, Bindings, BuildError, Call, Candidate, Compiled, Config, DType, Device, Engine,
    EngineId, Error, Executable, Facts, Feature, FeatureSet, GraphBuilder, HostBuffer, Launch,
    Launches, Layout, LengthBounds, LseForm, Maturity, Plan, RegisteredEngine, Router, SdpaFwd,
    Sequences, Storage, Stream, Support, Target, TensorId, TensorSpec, Unsupported, Workspace,
};
use frazil_conformance::alloc::{CountingAllocator, count_allocations};
use rayon::prelude::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CALLS: usize = 1000;

/// A packed batch of three sequences on paged keys, causal, with LSE, sink and ALiBi: every kind
/// of tensor that steers the work.
struct Job {
    executable: Executable,
    memory: Vec<(TensorId, HostBuffer)>,
    workspace: HostBuffer,
}

impl Job {
    fn new(router: &Router) -> Self {
        let mut builder = GraphBuilder::new();
        let mut tensor = |name: &str, dtype, extents: &[i64]| {
            builder.tensor(TensorSpec::contiguous(name, dtype, extents)).unwrap()
        };
        let q = tensor("q", DType::Bf16, &[40, 4, 32]);
        let k = tensor("k", DType::Bf16, &[12, 2, 16, 32]);
        let v = tensor("v", DType::Bf16, &[12, 2, 16, 32]);
        let o = tensor("o", DType::Bf16, &[40, 4, 32]);
        let lse = tensor("lse", DType::F32, &[40, 4]);
        let sink = tensor("sink", DType::F32, &[4]);
        let slopes = tensor("slopes", DType::F32, &[4]);
        let prefix = tensor("prefix", DType::I32, &[4]);
        let lengths = tensor("lengths", DType::I32, &[3]);
        let table = tensor("table", DType::I32, &[3, 4]);
        let sequences = Sequences::Prefix(prefix);
        let q_side = Storage::Packed { sequences, bounds: LengthBounds::up_to(20), max_total: 40 };
        let kv_side = Storage::Paged {
            table_k: table,
            table_v: table,
            lengths,
            bounds: LengthBounds::up_to(64),
        };
        let op = SdpaFwd::new(q, k, v, o)
            .storage(q_side, kv_side)
            .band(Band::causal(Align::BottomRight))
            .sink(sink)
            .alibi(slopes)
            .lse(lse, LseForm::Natural);
        builder.sdpa_fwd(op).unwrap();
        let graph = builder.finish().unwrap();
        let memory = graph.tensors().iter().map(|tensor| {
            let bytes = usize::try_from(tensor.span_bytes()).unwrap();
            let mut memory = HostBuffer::zeroed(bytes);
            let words: &[i32] = match tensor.name() {
                "prefix" => &[0, 20, 27, 40],
                "lengths" => &[64, 0, 33],
                "table" => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
                _ => &[],
            };
            for (slot, word) in memory.as_bytes_mut().chunks_exact_mut(4).zip(words) {
                slot.copy_from_slice(&word.to_ne_bytes());
            }
            (tensor.id(), memory)
        });
        let memory = memory.collect();
        let device = frazil::cpu::host();
        let facts = Arc::new(Facts::read(&graph).unwrap());
        let plans = router.plans(&facts, &Arc::new(device.target().clone())).unwrap();
        let executable = router.build_first(&plans, &device).unwrap().executable;
        let bytes = usize::try_from(executable.plan().workspace_bytes()).unwrap();
        Self { executable, memory, workspace: HostBuffer::zeroed(bytes) }
    }

    fn execute(&mut self) {
        let mut bindings = Bindings::new();
        for (id, memory) in &mut self.memory {
            bindings.bind(*id, memory.buffer()).unwrap();
        }
        let workspace = Workspace::new(self.workspace.buffer());
        self.executable.execute(&bindings, workspace, Stream::HOST).unwrap();
    }
}

/// Calls are made inside a pool whose threads all run: entering one from outside may allocate in the
/// pool's own queue, and so does each thread when it starts and when it looks for work the first
/// time, which it has done when it answers a broadcast.
fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.broadcast(|_| ());
    pool.install(work)
}

/// The seeded violation: an engine whose launch allocates once, on whichever thread of the pool
/// comes to it.
#[derive(Debug)]
struct Leaky;

impl Engine for Leaky {
    fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
        Ok(Support::one(Candidate {
            config: Config::default(),
            workspace: Layout::new(),
            launches: Launches::Own(Vec::new()),
            error_word: None,
            overrides: None,
        }))
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
        Ok(Box::new(Self))
    }
}

impl Launch for Leaky {
    unsafe fn launch(&self, _: &Call<'_>) -> Result<(), Error> {
        (0..4).into_par_iter().with_max_len(1).for_each(|part| {
            if part == 3 {
                std::hint::black_box(Box::new(part));
            }
        });
        Ok(())
    }
}

fn leaky() -> Router {
    let features = FeatureSet::of(Feature::ALL);
    let id = EngineId::new("test/leaky");
    let engine = RegisteredEngine::new(id, features, Maturity::Simulated, "test", Arc::new(Leaky));
    Router::over([engine]).unwrap()
}

/// Of which the least counts: the pool's queues allocate once in a while, where a thread is held up
/// while another takes its work, and what an engine allocates it allocates in every round.
const ROUNDS: usize = 3;

/// One test, since the counter sees every thread of the process and tests run side by side.
#[test]
fn execute_allocates_nothing_and_a_stray_allocation_is_counted() {
    let routers = [Router::from_registrations().unwrap(), leaky()];
    let counts = routers.map(|router| {
        let mut job = Job::new(&router);
        in_pool(|| {
            job.execute();
            let round = |_| count_allocations(|| (0..CALLS).for_each(|_| job.execute())).1;
            (0..ROUNDS).map(round).min()
        })
    });
    let expected = [0, CALLS].map(Some);
    assert_eq!(counts, expected, "in {CALLS} calls, without and with the violation");
}
