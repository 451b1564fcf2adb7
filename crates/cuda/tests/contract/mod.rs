//! What driver calls answer: one table for the driver of a GPU and for the simulated one.
//!
//! Each body takes a driver whose context is current on the calling thread, and compares every
//! answer before it fails, so that one run against a GPU shows all that differs. Where the CUDA
//! documentation is silent, rows are what an H200 answered (driver 580.159.04, 2026-12-01); what that
//! GPU cannot answer, being of compute capability 9.0, is marked `assumed`.

pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod fault;
pub(crate) mod graph;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod stream;
pub(crate) mod tensor_map;

use std::fmt::Debug;
use std::sync::Arc;

use frazil_cuda::{Driver, DriverCalls, DriverError, FunctionHandle, LaunchShape, ModuleHandle};

/// A call that is unsafe.
macro_rules! call {
    ($driver:expr, $call:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: handles are those that the test was given by this driver and, where a row wants
        // one of another kind, say so; memory is allocated and the test's own, and every call that
        // reads or writes it has ended before the test frees it.
        unsafe { $driver.$call($($argument),*) }
    }};
}
pub(crate) use call;

/// Every test of the contract, for a function that calls its argument with a driver.
macro_rules! contract_tests {
    ($with_driver:path) => {
        contract_tests! { $with_driver:
            every_call_answers_a_capture_as_the_table_says = contract::capture::calls;
            a_capture_on_a_blocking_stream_takes_the_legacy_stream = contract::capture::legacy;
            a_capture_begins_ends_and_breaks_as_documented = contract::stream::captures;
            events_know_whether_a_capture_recorded_them = contract::stream::events;
            calls_that_need_a_context_say_so = contract::context::absent;
            contexts_stack_by_thread = contract::context::stacked;
            a_graph_is_what_was_captured_and_outlives_it = contract::graph::replays;
            parameters_are_those_of_the_time_of_the_capture = contract::graph::parameters;
            launches_are_checked_before_they_are_queued = contract::launch::shapes;
            attributes_of_functions_are_read_and_set = contract::launch::attributes;
            modules_are_loaded_or_refused_with_a_reason = contract::launch::modules;
            memory_is_allocated_copied_and_freed = contract::memory::memory;
            pointers_are_found_in_their_allocation = contract::memory::pointers;
            tensor_maps_are_checked_rule_by_rule = contract::tensor_map::rules;
        }
    };
    ($with_driver:path: $($name:ident = $body:path;)*) => {$(
        #[test]
        fn $name() {
            $with_driver(&$body);
        }
    )*};
}
pub(crate) use contract_tests;

/// Code of an answer; 0 for success.
pub(crate) fn code<T>(answer: Result<T, DriverError>) -> i32 {
    answer.err().map_or(0, |error| error.code)
}

/// Answers that differ from a table.
#[derive(Default)]
pub(crate) struct Differences(Vec<String>);

impl Differences {
    pub(crate) fn compare<T: PartialEq + Debug>(&mut self, what: &str, found: T, expected: T) {
        if found != expected {
            self.0.push(format!("{what}: found {found:?}, expected {expected:?}"));
        }
    }

    pub(crate) fn assert_none(self) {
        assert!(self.0.is_empty(), "{} differ:\n  {}", self.0.len(), self.0.join("\n  "));
    }
}

/// The driver's first GPU with its primary context current on this thread, until dropped.
pub(crate) struct Current(pub(crate) Arc<Driver>);

impl Current {
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        let context = driver.primary_ctx_retain(0).unwrap();
        call!(driver, ctx_push_current(context)).unwrap();
        Self(driver)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let popped = self.0.ctx_pop_current();
        assert!(popped.is_ok() || std::thread::panicking(), "{popped:?}");
    }
}

/// A thread of its own, with the context current.
pub(crate) fn elsewhere<T: Send>(driver: &Arc<Driver>, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _current = Current::new(Arc::clone(driver));
            body()
        });
        thread.join().unwrap()
    })
}

/// Kernels for every GPU from compute capability 8.0 on:
///
/// - `frazil_probe_add(u32 *at, u32 add)` adds to one number, by every thread whose x is 0;
/// - `frazil_probe_static` has 1024 bytes of static shared memory, and `frazil_probe_max64` at most
///   64 threads, `frazil_probe_exactly32` 32;
/// - `frazil_probe_trap` stops, `frazil_probe_store(u64 address)` writes four bytes anywhere.
pub(crate) const PTX: &str = concat!(include_str!("probe.ptx"), "\0");

pub(crate) const ADD: &str = "frazil_probe_add";

/// Loads the kernels and gives one of them.
pub(crate) fn load(driver: &Driver, kernel: &str) -> (ModuleHandle, FunctionHandle) {
    let module = call!(driver, module_load_data(PTX.as_bytes())).unwrap();
    (module, call!(driver, module_get_function(module, kernel)).unwrap())
}

/// One block of 32 threads.
pub(crate) const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [32, 1, 1],
    cluster: [1; 3],
    dynamic_smem_bytes: 0,
    programmatic: false,
};

/// Parameters of [`ADD`].
pub(crate) fn add_params(at: u64, add: u32) -> [u8; 16] {
    let mut params = [0; 16];
    params[..8].copy_from_slice(&at.to_ne_bytes());
    params[8..12].copy_from_slice(&add.to_ne_bytes());
    params
}

pub(crate) fn store_u32(driver: &Driver, at: u64, value: u32, stream: u64) {
    call!(driver, copy_to_device(at, &value.to_ne_bytes(), stream)).unwrap();
}

pub(crate) fn load_u32(driver: &Driver, at: u64, stream: u64) -> u32 {
    let mut bytes = [0; 4];
    call!(driver, copy_to_host(&mut bytes, at, stream)).unwrap();
    u32::from_ne_bytes(bytes)
}
