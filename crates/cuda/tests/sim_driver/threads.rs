//! Several threads on one simulated device.

use std::sync::{Arc, Barrier};

use frazil_cuda::{CaptureMode, DriverCalls};

use crate::contract::{
    ADD, Current, SHAPE, add_params, call, code, elsewhere, load, load_u32, store_u32,
};
use crate::h200;

#[test]
fn two_threads_launch_on_two_streams() {
    const LAUNCHES: u32 = 200;
    let current = h200();
    let driver = &current.0;
    let (_, function) = load(driver, ADD);
    let shared = driver.mem_alloc(4).unwrap();
    store_u32(driver, shared, 0, 0);
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        for add in [1, 1000] {
            let begin = &begin;
            scope.spawn(move || {
                let _current = Current::new(Arc::clone(driver));
                let stream = driver.stream_create().unwrap();
                let own = driver.mem_alloc(4).unwrap();
                store_u32(driver, own, 0, stream);
                begin.wait();
                for _ in 0..LAUNCHES {
                    for at in [own, shared] {
                        let params = add_params(at, add);
                        let launch =
                            call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params));
                        launch.unwrap();
                    }
                }
                assert_eq!(load_u32(driver, own, stream), LAUNCHES * add);
            });
        }
    });
    assert_eq!(load_u32(driver, shared, 0), LAUNCHES * 1001);
}

/// The per-thread stream is one for each thread, and so is a capture on it.
#[test]
fn a_per_thread_stream_is_a_threads_own() {
    const PER_THREAD: u64 = 2;
    let current = h200();
    let driver = &current.0;
    call!(driver, stream_begin_capture(PER_THREAD, CaptureMode::ThreadLocal)).unwrap();
    elsewhere(driver, || {
        assert_eq!(code(call!(driver, stream_synchronize(PER_THREAD))), 0);
        assert_eq!(code(call!(driver, stream_end_capture(PER_THREAD))), 401);
    });
    call!(driver, stream_end_capture(PER_THREAD)).unwrap();
}
