//! Counts the calls of NVIDIA's driver, by name, that a process makes.
//!
//! The counts come from the counting driver (`crates/counting-driver` of the repository, which says
//! what it sees and what not): a library that stands in the place of `libcuda.so.1`.
//! [`CountedProcess`] runs a test in a process that has it.

#![expect(unsafe_code, reason = "the counting driver is a C library")]

mod counts;
mod process;

use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

use libloading::Library;

pub use counts::CallCounts;
pub use process::{CountedProcess, NotBuilt};

/// The counting driver that this process has in the place of NVIDIA's.
#[derive(Debug)]
pub struct CountingDriver {
    library: Library,
}

type VisitCalls = unsafe extern "C" fn(*const c_char, u64, *mut c_void);
type Snapshot = unsafe extern "C" fn(VisitCalls, *mut c_void);
type VisitName = unsafe extern "C" fn(*const c_char, *mut c_void);
type Unlisted = unsafe extern "C" fn(VisitName, *mut c_void) -> i32;
type DriverPath = unsafe extern "C" fn() -> *const c_char;

impl CountingDriver {
    /// The counting driver, if opening `libcuda.so.1` gives it.
    ///
    /// Opens it at need, and keeps it open.
    pub fn attached() -> Option<Self> {
        // SAFETY: every part of a process that uses the driver opens this library, and runs its
        // initialisers.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        let calls = Self { library };
        calls.function::<Snapshot>(c"frazil_driver_calls_snapshot")?;
        Some(calls)
    }

    /// Calls of the whole process, of all its threads, since the driver was opened.
    pub fn snapshot(&self) -> CallCounts {
        let mut counts = CallCounts::default();
        if let Some(snapshot) = self.function::<Snapshot>(c"frazil_driver_calls_snapshot") {
            // SAFETY: the visitor takes the counts that it is given here.
            unsafe { snapshot(add_calls, (&raw mut counts).cast()) };
        }
        counts
    }

    /// Calls since an earlier snapshot.
    pub fn since(&self, earlier: &CallCounts) -> CallCounts {
        self.snapshot().without(earlier)
    }

    /// Runs `work` and gives its result with the calls that the process, all threads of it, made
    /// meanwhile.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> (R, CallCounts) {
        let before = self.snapshot();
        let result = work();
        (result, self.since(&before))
    }

    /// File of the driver that calls are passed on to; none where none was found.
    pub fn real_driver(&self) -> Option<PathBuf> {
        let path = self.function::<DriverPath>(c"frazil_driver_path")?;
        // SAFETY: takes nothing, gives a string or null.
        let path = unsafe { path() };
        if path.is_null() {
            return None;
        }
        // SAFETY: not null, so a string, and valid for good.
        let path = unsafe { CStr::from_ptr(path) };
        path.to_str().ok().map(PathBuf::from)
    }

    /// Functions that the driver has and the counting driver does not know: callers that look for
    /// them among its symbols do not find them. None where the driver's file cannot be read.
    pub fn unlisted(&self) -> Option<Vec<String>> {
        let unlisted = self.function::<Unlisted>(c"frazil_driver_unlisted")?;
        let mut names: Vec<String> = Vec::new();
        // SAFETY: the visitor takes the names that it is given here.
        let code = unsafe { unlisted(add_name, (&raw mut names).cast()) };
        (code == 0).then_some(names)
    }

    /// A function of the counting driver's own, of a type that only this file and its `read_out`
    /// name.
    fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: no function is called here, and each is asked for with the type it has there.
        unsafe { self.library.get::<F>(name) }.ok().map(|function| *function)
    }
}

unsafe extern "C" fn add_calls(name: *const c_char, calls: u64, counts: *mut c_void) {
    // SAFETY: registered with counts that nobody else holds meanwhile.
    let counts = unsafe { &mut *counts.cast::<CallCounts>() };
    // SAFETY: a visitor gets a string.
    let name = unsafe { CStr::from_ptr(name) };
    counts.add(&name.to_string_lossy(), calls);
}

unsafe extern "C" fn add_name(name: *const c_char, names: *mut c_void) {
    // SAFETY: registered with names that nobody else holds meanwhile.
    let names = unsafe { &mut *names.cast::<Vec<String>>() };
    // SAFETY: a visitor gets a string.
    let name = unsafe { CStr::from_ptr(name) };
    names.push(name.to_string_lossy().into_owned());
}
