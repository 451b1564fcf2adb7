//! Execute allocates nothing on the heap, whatever thread works.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use frazil_conformance::alloc::{CountingAllocator, count_allocations};
use frazil_core::{
    Bindings, Buffer, DType, GraphBuilder, HostBuffer, LengthBounds, SdpaFwd, Storage, Stream,
    TensorSpec, Workspace,
};
use half::f16;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const HEADS: i64 = 4;
const COLUMNS: i64 = 64;

/// Allocations of each of three executes of a batch with so many rows of Q and of K.
fn allocations(batch: i64, rows_q: i64, rows_kv: i64) -> [usize; 3] {
    let mut graph = GraphBuilder::new();
    let [q, k, v, o] =
        [("q", rows_q), ("k", rows_kv), ("v", rows_kv), ("o", rows_q)].map(|(name, rows)| {
            let extents = [batch, HEADS, rows, COLUMNS];
            graph.tensor(TensorSpec::contiguous(name, DType::F16, extents).align(2)).unwrap()
        });
    let lengths = graph.tensor(TensorSpec::contiguous("lengths", DType::I32, [batch])).unwrap();
    let most = i32::try_from(rows_kv).unwrap();
    let padded = Storage::Padded { lengths, bounds: LengthBounds::up_to(most.unsigned_abs()) };
    graph.sdpa_fwd(SdpaFwd::new(q, k, v, o).storage(Storage::Dense, padded)).unwrap();
    let executable = common::built(&graph.finish().unwrap(), 8);
    let numbers =
        |rows: i64| vec![f16::ONE; usize::try_from(batch * HEADS * rows * COLUMNS).unwrap()];
    let (on_q, on_kv, mut found) = (numbers(rows_q), numbers(rows_kv), numbers(rows_q));
    // All different, so that there is something to sort.
    let lens: Vec<i32> = (0..i32::try_from(batch).unwrap()).map(|b| most - b * 7 % most).collect();
    let mut memory = HostBuffer::workspace_of(executable.plan());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    // A thread of the pool registers with rayon's queues, on the heap, the first time it looks for
    // work.
    pool.broadcast(|_| ());
    let bytes = memory.as_bytes_mut();
    pool.install(|| {
        let mut bindings = Bindings::new();
        bindings.bind(q, Buffer::from_slice(&on_q)).unwrap();
        bindings.bind(k, Buffer::from_slice(&on_kv)).unwrap();
        bindings.bind(v, Buffer::from_slice(&on_kv)).unwrap();
        bindings.bind(lengths, Buffer::from_slice(&lens)).unwrap();
        bindings.bind(o, Buffer::from_slice_mut(&mut found)).unwrap();
        [(); 3].map(|()| {
            let workspace = Workspace::new(Buffer::from_slice_mut(&mut *bytes));
            let execute = || executable.execute(&bindings, workspace, Stream::HOST).unwrap();
            count_allocations(execute).1
        })
    })
}

#[test]
fn execute_allocates_nothing() {
    let shapes = [
        ("tiles of many rows", (2, 300, 300)),
        ("few rows, keys in pieces", (1, 1, 5000)),
        ("more sequences than a sort by insertion takes", (200, 2, 70)),
    ];
    for (what, (batch, rows_q, rows_kv)) in shapes {
        assert_eq!(allocations(batch, rows_q, rows_kv), [0; 3], "{what}");
    }
}
