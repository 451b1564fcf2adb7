//! A process with the counting driver before the fake one, and functions by either road.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use frazil_conformance::counting_driver::{CountedProcess, CountingDriver};
use libloading::Library;

/// The fake driver's file, which cargo puts beside this program.
pub(crate) fn fake_driver() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libfrazil_fake_driver.so")
}

/// Runs the test of that name with the fake driver behind the counting one.
#[track_caller]
pub(crate) fn with_fake_driver(test: &str, body: impl FnOnce(&CountingDriver)) {
    let process = CountedProcess::new().unwrap();
    let process = process.with_variable("FRAZIL_REAL_DRIVER", fake_driver());
    process.run_test(test, |calls| {
        assert_eq!(calls.real_driver(), Some(fake_driver()));
        body(calls);
    });
}

pub(crate) type ProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;
type ProcAddressV2 =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

/// How a caller gets a function of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Road {
    /// By its symbol.
    Exported,
    /// From `cuGetProcAddress`.
    HandedOut,
}

impl Road {
    /// A function that has one name on both roads.
    ///
    /// # Safety
    ///
    /// `F` is the type of the fake driver's function.
    pub(crate) unsafe fn function<F: Copy>(self, name: &str) -> F {
        match self {
            // SAFETY: of the caller.
            Self::Exported => unsafe { exported(name) }.unwrap(),
            // SAFETY: of the caller.
            Self::HandedOut => unsafe { handed_out(name, 12000) }.unwrap(),
        }
    }
}

/// A function by its symbol.
///
/// # Safety
///
/// `F` is the type of the fake driver's function.
pub(crate) unsafe fn exported<F: Copy>(name: &str) -> Result<F, libloading::Error> {
    static DRIVER: OnceLock<Library> = OnceLock::new();
    // SAFETY: the initialisers are those of the counting driver and the fake one.
    let driver = DRIVER.get_or_init(|| unsafe { Library::new("libcuda.so.1") }.unwrap());
    let name = CString::new(name).unwrap();
    // SAFETY: of the caller.
    unsafe { driver.get::<F>(&name) }.map(|function| *function)
}

/// A function as `cuGetProcAddress_v2` hands it out, or its code.
///
/// # Safety
///
/// `F` is the type of the fake driver's function, a pointer.
pub(crate) unsafe fn handed_out<F: Copy>(name: &str, cuda_version: c_int) -> Result<F, c_int> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    let address = asked_for(name, cuda_version)?;
    // SAFETY: of the caller, and both are pointers.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

/// The address that `cuGetProcAddress_v2` hands out, or its code.
pub(crate) fn asked_for(name: &str, cuda_version: c_int) -> Result<*mut c_void, c_int> {
    // SAFETY: the type of the fake function.
    let ask: ProcAddressV2 = unsafe { exported("cuGetProcAddress_v2") }.unwrap();
    let name = CString::new(name).unwrap();
    let (mut address, mut status) = (std::ptr::null_mut(), -1);
    // SAFETY: a string and places for what is answered.
    let code = unsafe { ask(name.as_ptr(), &mut address, cuda_version, 0, &mut status) };
    assert_eq!(status, c_int::from(code != 0), "the last argument arrives");
    if code == 0 { Ok(address) } else { Err(code) }
}
