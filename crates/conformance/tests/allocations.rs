//! The allocation counter counts what every thread allocates while it is armed, and nothing else.

use std::hint::black_box;

use frazil_conformance::alloc::{CountingAllocator, count_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn allocations_of_all_threads_are_counted() {
    let (_, nothing) = count_allocations(|| black_box(1 + 1));
    assert_eq!(nothing, 0);
    let (_, one) = count_allocations(|| black_box(Box::new(1)));
    assert_eq!(one, 1);
    let (_, grown) = count_allocations(|| {
        let mut grows = Vec::with_capacity(1);
        grows.extend(black_box([1, 2, 3]));
        grows
    });
    assert_eq!(grown, 2);
    let (_, elsewhere) = count_allocations(|| {
        std::thread::scope(|scope| scope.spawn(|| drop(black_box(vec![0; 10]))).join().unwrap());
    });
    assert!(elsewhere >= 1);
    let panicked = std::panic::catch_unwind(|| count_allocations(|| panic!("on purpose")));
    assert!(panicked.is_err());
    drop(black_box(Box::new(1)));
    assert_eq!(count_allocations(|| ()).1, 0, "disarmed after a panic");
}
