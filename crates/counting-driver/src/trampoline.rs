//! The functions that this library exports in the driver's place.

use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::names::with_driver_functions;

/// What a counted function adds to and where it jumps; its code knows the layout.
#[repr(C)]
pub(crate) struct Cell {
    calls: AtomicU64,
    target: AtomicPtr<c_void>,
}

impl Cell {
    /// A cell whose function may be called from the start.
    const fn to(target: extern "C" fn() -> c_int) -> Self {
        Self { calls: AtomicU64::new(0), target: AtomicPtr::new(target as *mut c_void) }
    }

    /// A cell whose function must not be called before [`Self::set_target`].
    pub(crate) const fn unused() -> Self {
        Self { calls: AtomicU64::new(0), target: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn set_target(&self, target: *mut c_void) {
        self.target.store(target, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Where calls go until a driver is found: `CUDA_ERROR_STUB_LIBRARY`.
pub(crate) extern "C" fn no_driver() -> c_int {
    34
}

/// Where calls go of a function that the driver lacks: `CUDA_ERROR_NOT_FOUND`.
pub(crate) extern "C" fn not_found() -> c_int {
    500
}

/// Defines the functions, and tables of them in the same order.
macro_rules! export {
    ($($name:ident)*) => {
        #[expect(non_camel_case_types, clippy::enum_variant_names, reason = "the driver's own names")]
        #[derive(Clone, Copy)]
        enum Function {
            $($name,)*
        }

        /// Names as the driver exports them, sorted.
        pub(crate) const NAMES: [&CStr; NUM_FUNCTIONS] = [
            $(
                // The concatenation ends in the one NUL.
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
            )*
        ];

        const NUM_FUNCTIONS: usize = [$(Function::$name,)*].len();

        /// The cell of each function.
        pub(crate) static CELLS: [Cell; NUM_FUNCTIONS] =
            [const { Cell::to(no_driver) }; NUM_FUNCTIONS];

        /// The functions themselves.
        pub(crate) const TRAMPOLINES: [extern "C" fn(); NUM_FUNCTIONS] = [$($name,)*];

        $(
            // Called with the driver's signature, whatever it is: it touches neither registers
            // nor stack.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the driver's own names")]
            extern "C" fn $name() {
                naked_asm!(
                    "lock inc qword ptr [rip + {cells} + {at}]",
                    "jmp qword ptr [rip + {cells} + {at} + 8]",
                    cells = sym CELLS,
                    at = const size_of::<Cell>() * Function::$name as usize,
                )
            }
        )*
    };
}

with_driver_functions!(export);

const _: () = assert!(size_of::<Cell>() == 16 && std::mem::offset_of!(Cell, target) == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_once() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        assert!(NAMES.iter().all(|name| name.to_bytes().starts_with(b"cu")));
    }

    #[test]
    fn a_function_adds_to_its_own_cell_and_jumps_to_its_own_target() {
        extern "C" fn answer() -> c_int {
            7
        }
        for (at, trampoline) in TRAMPOLINES.into_iter().enumerate() {
            // SAFETY: the target takes no argument and gives an int.
            let call = unsafe {
                std::mem::transmute::<extern "C" fn(), extern "C" fn() -> c_int>(trampoline)
            };
            assert_eq!(call(), 34, "{:?}: no driver yet", NAMES[at]);
            CELLS[at].set_target(answer as *mut c_void);
            assert_eq!(call(), 7, "{:?}", NAMES[at]);
            assert_eq!(CELLS[at].calls(), 2, "{:?}", NAMES[at]);
        }
    }
}
