//! Faults in kernels: they stop the context, so that each has a driver, or a process, of its own.

use std::sync::Arc;

use frazil_cuda::{Driver, DriverCalls};

use super::{SHAPE, call, code, load};

/// A fault, and the code of `cuda.h` that it ends with.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) kernel: &'static str,
    /// Address that it writes to; those above 0 are counted from memory that is allocated.
    pub(crate) address: u64,
    pub(crate) code: i32,
}

/// The documentation names no code for `trap`.
pub(crate) const FAULTS: [Fault; 3] = [
    Fault { name: "null", kernel: "frazil_probe_store", address: 0, code: 700 },
    Fault { name: "misaligned", kernel: "frazil_probe_store", address: 2, code: 716 },
    Fault { name: "trap", kernel: "frazil_probe_trap", address: 0, code: 719 },
];

/// A fault is told by the next call that waits, and from then on by every call.
pub(crate) fn fault(driver: &Arc<Driver>, fault: &Fault) {
    let stream = driver.stream_create().unwrap();
    let (_, function) = load(driver, fault.kernel);
    let memory = driver.mem_alloc(64).unwrap();
    let address = if fault.address == 0 { 0 } else { memory + fault.address };
    let name = fault.name;
    let params = address.to_ne_bytes();
    let launch = call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params));
    assert_eq!(code(launch), 0, "{name}: a launch does not wait");
    assert_eq!(code(call!(driver, stream_synchronize(stream))), fault.code, "{name}: the wait");
    assert_eq!(code(driver.mem_alloc(64)), fault.code, "{name}: an allocation");
    let launch = call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params));
    assert_eq!(code(launch), fault.code, "{name}: a launch");
    assert_eq!(code(driver.ctx_synchronize()), fault.code, "{name}: a wait for all");
}
