//! The functions of this library's own that it exports.
//!
//! `CountingDriver` of `frazil-conformance` calls them; a change here is one there.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use crate::load::driver;
use crate::trampoline::{CELLS, NAMES};
use crate::{spare, symbols};

/// Receives one name and its count, with the `data` that it was registered with.
pub type VisitCalls = unsafe extern "C" fn(name: *const c_char, calls: u64, data: *mut c_void);

/// Receives one name, with the `data` that it was registered with.
pub type VisitName = unsafe extern "C" fn(name: *const c_char, data: *mut c_void);

/// Visits the name and the count of every function that was called since the library was loaded.
///
/// A name may come more than once, for the roads and versions by which it was called: the calls of a
/// name are the sum. Names are valid during the visit.
///
/// # Safety
///
/// `visit` may be called with `data` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_driver_calls_snapshot(visit: VisitCalls, data: *mut c_void) {
    let exported =
        NAMES.into_iter().zip(&CELLS).map(|(name, cell)| (name.to_owned(), cell.calls()));
    let called: Vec<(CString, u64)> = exported.chain(spare::calls()).collect();
    for (name, calls) in called.into_iter().filter(|(_, calls)| *calls > 0) {
        // SAFETY: of the caller; the name is a string while this runs.
        unsafe { visit(name.as_ptr(), calls, data) };
    }
}

/// Path of the driver that calls are passed on to, valid for good; null where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_driver_path() -> *const c_char {
    driver().map_or(ptr::null(), |driver| driver.path().as_ptr())
}

/// Visits the names of functions that the driver's file exports and this library does not: a
/// newer driver has them, and callers do not find them by `dlsym`.
///
/// Returns 0, or -1 where the file cannot be read, with no name visited.
///
/// # Safety
///
/// `visit` may be called with `data` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_driver_unlisted(visit: VisitName, data: *mut c_void) -> i32 {
    let file = driver().and_then(|driver| std::fs::read(driver.file()).ok());
    let Some(functions) = file.as_deref().and_then(symbols::exported_functions) else { return -1 };
    let is_unlisted = |name: &CString| {
        let is_for_programs = name.as_bytes().strip_prefix(b"cu");
        is_for_programs.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_uppercase))
            && NAMES.binary_search(&name.as_c_str()).is_err()
    };
    for name in functions.into_iter().filter(is_unlisted) {
        // SAFETY: of the caller; the name is a string while this runs.
        unsafe { visit(name.as_ptr(), data) };
    }
    0
}
