//! Plans behind a C ABI, so that one process, one context and one stream hold frazil beside PyTorch
//! and what else its users would pick instead: `docs/BENCHMARKS.md` says how they are compared.
//!
//! Every function that can fail returns a status, 0 for none; [`frazil_bench_message`] then says what
//! was wrong. A panic is caught at the boundary. Built by `cargo xtask bench-so`.

mod failure;
mod launch;
mod plan;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use plan::BenchPlan;

use failure::Failure;

/// Memory of the plan's device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BenchMemory {
    /// Its first byte.
    pub addr: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a plan is made of: texts that end with a zero byte.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BenchQuestion {
    /// A case as one object of JSON, as `frazil repro` takes it.
    pub case: *const c_char,
    /// Name of an engine, whole or its last part (`sm80`); null: all are asked.
    pub engine: *const c_char,
    /// `host` or `cuda:N`.
    pub device: *const c_char,
    /// Position among the plans that were offered, best first.
    pub position: u32,
}

/// One call of [`frazil_bench_execute`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BenchCall {
    /// One entry for each tensor, in the order of the plan's description.
    pub tensors: *const BenchMemory,
    /// Number of entries.
    pub num_tensors: u64,
    /// Scratch, aligned to 256 bytes.
    pub workspace: BenchMemory,
    /// A `CUstream`; not looked at on the host.
    pub stream: u64,
    /// How often the plan is executed.
    pub repeats: u32,
}

/// Launches of one kernel, one block of one warp each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BenchLaunch {
    /// A `CUfunction` that takes one parameter by value.
    pub function: u64,
    /// A `CUstream`.
    pub stream: u64,
    /// Size of the parameter, which is all zeros.
    pub params_bytes: u32,
    /// How often it is launched.
    pub repeats: u32,
}

/// Asks, and builds the plan.
///
/// Status: 0 `*plan` is one, to be given to [`frazil_bench_release`]; 1 the question means nothing;
/// 2 no engine serves it; 3 a fault.
///
/// # Safety
///
/// `question` and `plan` are valid, and the texts of the question end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_bench_plan(
    question: *const BenchQuestion,
    plan: *mut *mut BenchPlan,
) -> i32 {
    // SAFETY: the caller's promise: `question` is valid.
    let question = unsafe { &*question };
    // SAFETY: the caller's promise: the text ends with a zero byte.
    let case = unsafe { text(question.case) };
    // SAFETY: the same.
    let engine = unsafe { text(question.engine) };
    // SAFETY: the same.
    let device = unsafe { text(question.device) };
    guarded(|| {
        let engine = if question.engine.is_null() { None } else { Some(engine?) };
        let built = BenchPlan::new(case?, engine, device?, question.position)?;
        // SAFETY: the caller's promise: `plan` is valid.
        unsafe { plan.write(Box::into_raw(Box::new(built))) };
        Ok(())
    })
}

/// The plan in words, as an object of JSON that lives as long as the plan: `plan`, `engine`,
/// `maturity`, `device`, `versions`, `workspace_bytes`, `error_word`, `launches`, and `tensors` with
/// `role`, `dtype`, `extents`, `strides`, `bytes`, `output`.
///
/// # Safety
///
/// `plan` is one of [`frazil_bench_plan`] that was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_bench_describe(plan: *const BenchPlan) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { &*plan }.description().as_ptr()
}

/// Scratch that a call needs, in bytes.
///
/// # Safety
///
/// As for [`frazil_bench_describe`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_bench_workspace_bytes(plan: *const BenchPlan) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*plan }.workspace_bytes()
}

/// Executes the plan, on a GPU queued on the stream. Allocates nothing unless it fails.
///
/// Status: 0; 1 the call does not fit the plan; 3 a fault.
///
/// # Safety
///
/// `plan` as for [`frazil_bench_describe`]. `call` is valid and has `num_tensors` entries; until the
/// stream has passed the work all memory in it is memory of the plan's device that nobody else
/// writes, nor reads where it is an output or the workspace; memory of the host is initialised. The
/// stream is one of the device's context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_bench_execute(
    plan: *const BenchPlan,
    call: *const BenchCall,
) -> i32 {
    // SAFETY: the caller's promise: the plan was not released.
    let plan = unsafe { &*plan };
    // SAFETY: the caller's promise: the call is valid.
    let call = unsafe { &*call };
    guarded(|| {
        let len = usize::try_from(call.num_tensors).unwrap_or(usize::MAX);
        let tensors = if len == 0 {
            &[]
        } else {
            // SAFETY: the caller's promise: so many entries.
            unsafe { std::slice::from_raw_parts(call.tensors, len) }
        };
        // SAFETY: the caller's promise of memory and stream.
        unsafe { plan.execute(tensors, call) }
    })
}

/// Launches a kernel by `cuLaunchKernelEx` and nothing else: what a plan's call is compared with.
///
/// # Safety
///
/// `launch` is valid, its function is one of the GPU's current context and takes one parameter of
/// `params_bytes` bytes, in which it follows no address; the stream is of the same context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_bench_launch(ordinal: u32, launch: *const BenchLaunch) -> i32 {
    // SAFETY: the caller's promise: `launch` is valid.
    let launch = unsafe { &*launch };
    guarded(|| {
        // SAFETY: the caller's promise of function and stream.
        unsafe { launch::launch(ordinal, launch) }
    })
}

/// Ends a plan; null is none.
///
/// # Safety
///
/// `plan` is null, or as for [`frazil_bench_describe`] and not used after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_bench_release(plan: *mut BenchPlan) {
    if plan.is_null() {
        return;
    }
    // What a destructor that panics leaves behind nobody asks for.
    let _ = guarded(|| {
        // SAFETY: the caller's promise: the box of `frazil_bench_plan`, given back once.
        drop(unsafe { Box::from_raw(plan) });
        Ok(())
    });
}

/// What the last failure of this thread was; lives until its next one.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_bench_message() -> *const c_char {
    failure::message()
}

/// A text of the caller.
///
/// # Safety
///
/// `text` is null or ends with a zero byte and outlives the result.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::Misuse("a text is null".into()));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| Failure::Misuse(format!("a text is not UTF-8: {error}")))
}

/// The status of a step, whose failure is kept for [`frazil_bench_message`].
fn guarded(step: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // Nothing that a step holds is looked at again after a panic.
    let result = catch_unwind(AssertUnwindSafe(step));
    match result.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic))) {
        Ok(()) => 0,
        Err(failure) => failure.keep(),
    }
}
