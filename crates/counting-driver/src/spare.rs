//! Counted functions for the pointers that `cuGetProcAddress` hands out.

use std::arch::naked_asm;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::trampoline::Cell;

/// How many there are: the driver has some 700 names, each with at most a handful of answers,
/// since it gives one of several versions by the CUDA version and the kind of stream asked for.
const NUM_SPARES: usize = 4096;

static CELLS: [Cell; NUM_SPARES] = [const { Cell::unused() }; NUM_SPARES];

/// Bytes of one function in [`code`].
const STRIDE: usize = 16;

/// All spare functions, one after another: each adds one to its cell and jumps to its target.
///
/// They are code of this library like any other, so that no memory is ever made executable.
#[unsafe(naked)]
extern "C" fn code() {
    naked_asm!(
        ".set frazil_spare, 0",
        ".rept {num}",
        // 8 bytes.
        "lock incq {cells} + 16 * frazil_spare (%rip)",
        // 6 bytes.
        "jmpq *{cells} + 16 * frazil_spare + 8 (%rip)",
        // 2 bytes that are never reached.
        "xchg %ax, %ax",
        ".set frazil_spare, frazil_spare + 1",
        ".endr",
        cells = sym CELLS,
        num = const NUM_SPARES,
        options(att_syntax),
    )
}

/// The names of the spare functions in use, and which one stands for what.
#[derive(Default)]
struct InUse {
    names: Vec<CString>,
    by_answer: HashMap<(CString, usize), usize>,
}

static IN_USE: Mutex<Option<InUse>> = Mutex::new(None);

fn in_use() -> MutexGuard<'static, Option<InUse>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function that counts calls of `name` and passes them to `target`; the same one whenever both
/// are the same.
///
/// # Panics
///
/// When none is left: a call that goes by uncounted would make every count worthless.
pub(crate) fn counted(name: &CStr, target: *mut c_void) -> *mut c_void {
    let mut guard = in_use();
    let in_use = guard.get_or_insert_default();
    let next = in_use.names.len();
    let at = *in_use.by_answer.entry((name.to_owned(), target.addr())).or_insert(next);
    if at == next {
        assert!(next < NUM_SPARES, "more than {NUM_SPARES} functions asked for by name");
        in_use.names.push(name.to_owned());
        CELLS[at].set_target(target);
    }
    (code as *mut c_void).wrapping_byte_add(STRIDE * at)
}

/// Name and calls of every function handed out.
pub(crate) fn calls() -> Vec<(CString, u64)> {
    let guard = in_use();
    let names = guard.iter().flat_map(|in_use| &in_use.names);
    names.zip(&CELLS).map(|(name, cell)| (name.clone(), cell.calls())).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;

    extern "C" fn answer() -> c_int {
        7
    }

    extern "C" fn other() -> c_int {
        8
    }

    fn call(pointer: *mut c_void) -> c_int {
        // SAFETY: both targets of these tests take no argument and give an int.
        let function =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(pointer) };
        function()
    }

    /// One test, since the functions in use are the process's.
    #[test]
    fn every_spare_function_has_its_own_cell_and_none_is_lost() {
        let first = counted(c"a", answer as *mut c_void);
        assert_eq!(counted(c"a", answer as *mut c_void), first, "made once");
        assert_ne!(counted(c"a", other as *mut c_void), first, "another version");
        assert_ne!(counted(c"b", answer as *mut c_void), first, "another name");
        let names: Vec<CString> =
            (3..NUM_SPARES).map(|at| CString::new(at.to_string()).unwrap()).collect();
        let rest: Vec<*mut c_void> =
            names.iter().map(|name| counted(name, other as *mut c_void)).collect();
        assert_eq!(call(first), 7);
        for (at, pointer) in rest.iter().enumerate() {
            assert_eq!(call(*pointer), 8, "{at}");
        }
        let calls = calls();
        assert_eq!(calls.len(), NUM_SPARES);
        let expected = [1, 0, 0].into_iter().chain(rest.iter().map(|_| 1));
        assert!(calls.iter().map(|(_, calls)| *calls).eq(expected));
        assert_eq!(calls.last().unwrap().0, *names.last().unwrap());
        let full = std::panic::catch_unwind(|| counted(c"one more", other as *mut c_void));
        assert!(full.is_err());
    }
}
