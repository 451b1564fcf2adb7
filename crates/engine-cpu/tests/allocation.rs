//! Execute allocates nothing on the heap, whatever thread works.

#![expect(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use frazil_core::{
    Bindings, Buffer, DType, GraphBuilder, HostBuffer, SdpaFwd, Stream, TensorSpec, Workspace,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn execute_allocates_nothing() {
    let mut graph = GraphBuilder::new();
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| {
        graph.tensor(TensorSpec::contiguous(name, DType::F16, [2, 4, 300, 64]).align(2)).unwrap()
    });
    graph.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
    let executable = common::built(&graph.finish().unwrap(), 8);
    let numbers = vec![half::f16::ONE; 2 * 4 * 300 * 64];
    let mut found = numbers.clone();
    let mut memory = HostBuffer::zeroed(executable.plan().workspace_bytes() as usize);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    // A thread of the pool registers with rayon's queues, on the heap, the first time it looks for
    // work.
    pool.broadcast(|_| ());
    let workspace = memory.as_bytes_mut();
    let counted = pool.install(|| {
        let mut bindings = Bindings::new();
        for id in [q, k, v] {
            bindings.bind(id, Buffer::from_slice(&numbers)).unwrap();
        }
        bindings.bind(o, Buffer::from_slice_mut(&mut found)).unwrap();
        let mut counts = [0; 3];
        for count in &mut counts {
            let workspace = Workspace::new(Buffer::from_slice_mut(&mut *workspace));
            let before = ALLOCATIONS.load(Ordering::SeqCst);
            executable.execute(&bindings, workspace, Stream::HOST).unwrap();
            *count = ALLOCATIONS.load(Ordering::SeqCst) - before;
        }
        counts
    });
    assert_eq!(counted, [0; 3]);
}
