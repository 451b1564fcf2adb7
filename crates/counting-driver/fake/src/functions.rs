//! Functions whose results show what they were called with.

#![allow(non_snake_case, reason = "the driver's own names")]

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

/// One argument in a register.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuInit(flags: u32) -> c_int {
    c_int::from_ne_bytes(flags.wrapping_add(1).to_ne_bytes())
}

/// Six integers in registers and five on the stack, of several widths; writes all of them to `out`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as many as the driver's function has")]
pub(crate) unsafe extern "C" fn cuLaunchKernel(
    out: *mut [u64; 10],
    grid: u32,
    grid_y: u8,
    grid_z: i64,
    block: u16,
    block_y: u32,
    block_z: u64,
    shared: u32,
    stream: *const c_void,
    params: *const c_void,
    extra: u64,
) -> c_int {
    let arguments = [
        u64::from(grid),
        u64::from(grid_y),
        grid_z.cast_unsigned(),
        u64::from(block),
        u64::from(block_y),
        block_z,
        u64::from(shared),
        stream.addr() as u64,
        params.addr() as u64,
        extra,
    ];
    // SAFETY: the test passes a place for ten numbers.
    unsafe { out.write(arguments) };
    0
}

/// Eight floating-point arguments in registers and two on the stack, with integers among them.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "more than there are registers")]
pub(crate) extern "C" fn cuTexRefSetMipmapLevelClamp(
    a: f32,
    b: f64,
    first: u64,
    c: f64,
    d: f32,
    e: f64,
    f: f64,
    second: u32,
    g: f64,
    h: f64,
    i: f64,
    j: f32,
) -> f64 {
    let floats = [f64::from(a), b, c, f64::from(d), e, f, g, h, i, f64::from(j)];
    let digits = floats.iter().fold(0.0, |sum, digit| sum * 10.0 + digit);
    digits + f64::from(second) / 10.0 + first as f64 / 100.0
}

/// A result too large for registers, whose place the caller passes as a hidden argument.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Large([u64; 6]);

/// Returns six numbers by value.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo_v2(first: u64, step: u64) -> Large {
    Large(std::array::from_fn(|at| first + step * at as u64))
}

/// Two numbers, returned in two registers.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Pair(u64, f64);

/// Returns an integer and a floating-point number by value.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo(integer: u64, float: f64) -> Pair {
    Pair(integer, float)
}

/// Returns the `al` that it was called with: how many vector registers hold arguments of a
/// variadic function.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuProfilerStart() -> c_int {
    naked_asm!("movzx eax, al", "ret")
}

/// Opens the driver by its name, as any library of a process may, and calls `cuInit` through it.
///
/// Gives what that call gives, or -1 where there is no such library or function.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn fake_opens_the_driver_by_name(flags: u32) -> c_int {
    // SAFETY: loaded before, so that no initialiser runs.
    let Ok(library) = (unsafe { libloading::Library::new("libcuda.so.1") }) else { return -1 };
    // SAFETY: the type is that of the function above.
    let init = unsafe { library.get::<extern "C" fn(u32) -> c_int>(b"cuInit\0") };
    init.map_or(-1, |init| init(flags))
}

/// A function that no table knows yet.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuNotInventedYet() -> c_int {
    0
}

/// The older of two versions.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc() -> c_int {
    1
}

/// The newer of two versions.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc_v2() -> c_int {
    2
}

/// Answers that there is no such table.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetExportTable(_table: *mut *const c_void, _id: *const c_void) -> c_int {
    1
}
