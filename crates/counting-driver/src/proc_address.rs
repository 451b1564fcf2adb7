//! `cuGetProcAddress` and `cuGetProcAddress_v2`: the driver's answers, counted.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::load::driver;
use crate::{spare, trampoline};

/// `CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)`.
type ProcAddress = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;

/// As [`ProcAddress`], with `CUdriverProcAddressQueryResult *symbolStatus` after the others.
type ProcAddressV2 =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

/// The function of this module that stands for one of the driver's, if it is one of the two.
pub(crate) fn replacement(name: &CStr) -> Option<*mut c_void> {
    if name == c"cuGetProcAddress" {
        Some(proc_address as *mut c_void)
    } else if name == c"cuGetProcAddress_v2" {
        Some(proc_address_v2 as *mut c_void)
    } else {
        None
    }
}

unsafe extern "C" fn proc_address(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
    flags: u64,
) -> c_int {
    let Some(real) = driver().and_then(|driver| driver.symbol(c"cuGetProcAddress")) else {
        return trampoline::not_found();
    };
    // SAFETY: NVIDIA's driver exports a function of this type by that name.
    let real = unsafe { std::mem::transmute::<*mut c_void, ProcAddress>(real) };
    // SAFETY: the arguments are the caller's, who keeps the contract of this very function.
    let code = unsafe { real(symbol, pfn, cuda_version, flags) };
    // SAFETY: the driver has just taken both pointers.
    unsafe { count_answer(code, symbol, pfn, cuda_version) };
    code
}

unsafe extern "C" fn proc_address_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
    flags: u64,
    status: *mut c_int,
) -> c_int {
    let Some(real) = driver().and_then(|driver| driver.symbol(c"cuGetProcAddress_v2")) else {
        return trampoline::not_found();
    };
    // SAFETY: NVIDIA's driver exports a function of this type by that name.
    let real = unsafe { std::mem::transmute::<*mut c_void, ProcAddressV2>(real) };
    // SAFETY: the arguments are the caller's, who keeps the contract of this very function.
    let code = unsafe { real(symbol, pfn, cuda_version, flags, status) };
    // SAFETY: the driver has just taken both pointers.
    unsafe { count_answer(code, symbol, pfn, cuda_version) };
    code
}

/// Puts a counted function in the place of the one that the driver answered.
///
/// # Safety
///
/// Where `code` is success, `symbol` is a string and `pfn` may be read and written, or null.
unsafe fn count_answer(
    code: c_int,
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
) {
    if code != 0 || symbol.is_null() || pfn.is_null() {
        return;
    }
    // SAFETY: of the caller.
    let answer = unsafe { pfn.read() };
    if answer.is_null() {
        return;
    }
    // SAFETY: of the caller.
    let name = unsafe { CStr::from_ptr(symbol) };
    let counted =
        own_proc_address(name, cuda_version).unwrap_or_else(|| spare::counted(name, answer));
    // SAFETY: of the caller.
    unsafe { pfn.write(counted) };
}

/// The function to hand out where one asks for `cuGetProcAddress` itself: what that one hands out
/// must be counted too. From CUDA 12.0 on the name stands for the second version.
fn own_proc_address(name: &CStr, cuda_version: c_int) -> Option<*mut c_void> {
    if name != c"cuGetProcAddress" {
        return None;
    }
    let name = if cuda_version < 12000 { c"cuGetProcAddress" } else { c"cuGetProcAddress_v2" };
    let at = trampoline::NAMES.binary_search(&name).ok()?;
    Some(trampoline::TRAMPOLINES[at] as *mut c_void)
}
