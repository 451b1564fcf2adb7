//! `cuGetProcAddress`: functions by name and CUDA version.

#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::functions as f;

const SUCCESS: c_int = 0;
const NOT_FOUND: c_int = 500;
/// What the second version writes to its last argument: found, or no such name.
const STATUS: [c_int; 2] = [0, 1];

/// # Safety
///
/// `symbol` is a string, `pfn` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
    _flags: u64,
) -> c_int {
    // SAFETY: of the caller.
    let function = function(unsafe { CStr::from_ptr(symbol) }, cuda_version);
    // SAFETY: of the caller.
    unsafe { pfn.write(function.unwrap_or(std::ptr::null_mut())) };
    if function.is_some() { SUCCESS } else { NOT_FOUND }
}

/// # Safety
///
/// `symbol` is a string, `pfn` may be written, and so may `status` unless it is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
    flags: u64,
    status: *mut c_int,
) -> c_int {
    // SAFETY: of the caller.
    let code = unsafe { cuGetProcAddress(symbol, pfn, cuda_version, flags) };
    if !status.is_null() {
        // SAFETY: of the caller.
        unsafe { status.write(STATUS[usize::from(code != SUCCESS)]) };
    }
    code
}

fn function(name: &CStr, cuda_version: c_int) -> Option<*mut c_void> {
    let function = match (name.to_str().ok()?, cuda_version) {
        ("cuInit", _) => f::cuInit as *mut c_void,
        ("cuLaunchKernel", _) => f::cuLaunchKernel as *mut c_void,
        ("cuTexRefSetMipmapLevelClamp", _) => f::cuTexRefSetMipmapLevelClamp as *mut c_void,
        ("cuMemGetInfo", ..3020) => f::cuMemGetInfo as *mut c_void,
        ("cuMemGetInfo", _) => f::cuMemGetInfo_v2 as *mut c_void,
        ("cuMemAlloc", ..3020) => f::cuMemAlloc as *mut c_void,
        ("cuMemAlloc", _) => f::cuMemAlloc_v2 as *mut c_void,
        ("cuProfilerStart", _) => f::cuProfilerStart as *mut c_void,
        ("cuNotInventedYet", _) => f::cuNotInventedYet as *mut c_void,
        ("cuGetProcAddress", ..12000) => cuGetProcAddress as *mut c_void,
        ("cuGetProcAddress", _) => cuGetProcAddress_v2 as *mut c_void,
        _ => return None,
    };
    Some(function)
}
