//! The driver's functions, each by the exact name that its library exports.
//!
//! Names with `_v2` are what `cuda.h` silently means by the name without it: looking up the plain
//! name would find a function of CUDA 3 with other types. The lists, with the version of CUDA that
//! brought each function, follow `cuda.h` and `cudaTypedefs.h`.

#![expect(non_snake_case, reason = "fields are the names that the library exports")]

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

use frazil_core::Version;

use super::TensorMap;
use super::layout::{GraphEdgeData, KernelNodeParams, LaunchConfig};

/// Where functions are looked up by name: a library, or a test's list.
pub(super) trait Symbols {
    /// Address of a function, where there is one of that name.
    fn address(&self, name: &'static str) -> Option<NonNull<c_void>>;
}

/// A function that every driver of the oldest version taken has, and this one has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) symbol: &'static str,
    /// Version of CUDA that brought it.
    pub(super) since: Version,
}

macro_rules! functions {
    (
        required { $($name:ident($($arg:ty),*), $major:literal, $minor:literal;)* }
        optional { $($late:ident($($late_arg:ty),*), $late_major:literal, $late_minor:literal;)* }
    ) => {
        /// Every function that frazil calls; those that younger drivers brought may be absent.
        pub(super) struct Table {
            $(pub(super) $name: unsafe extern "system" fn($($arg),*) -> i32,)*
            $(pub(super) $late: Option<unsafe extern "system" fn($($late_arg),*) -> i32>,)*
        }

        impl Table {
            /// Looks every function up before any is called.
            ///
            /// # Safety
            ///
            /// A function that is found under a name of `cuda.h` is the driver's function of that
            /// name, with its signature, for as long as the table is used.
            pub(super) unsafe fn resolve(symbols: &impl Symbols) -> Result<Self, Missing> {
                $(
                    let since = Version::new($major, $minor, 0);
                    let missing = Missing { symbol: stringify!($name), since };
                    let address = symbols.address(stringify!($name)).ok_or(missing)?;
                    // SAFETY: the signature is that of `cuda.h`, and the caller promises that the
                    // function has it; pointers to functions are as large as those to data.
                    let $name = unsafe {
                        std::mem::transmute::<
                            NonNull<c_void>,
                            unsafe extern "system" fn($($arg),*) -> i32,
                        >(address)
                    };
                )*
                $(
                    // SAFETY: as above; an absent one is the null that stands for `None`.
                    let $late = unsafe {
                        std::mem::transmute::<
                            Option<NonNull<c_void>>,
                            Option<unsafe extern "system" fn($($late_arg),*) -> i32>,
                        >(symbols.address(stringify!($late)))
                    };
                )*
                Ok(Self { $($name,)* $($late,)* })
            }
        }

        /// Name of each function that must be there.
        #[cfg(test)]
        pub(super) const REQUIRED: &[&str] = &[$(stringify!($name)),*];
        /// Name of each function that may be absent.
        #[cfg(test)]
        pub(super) const OPTIONAL: &[&str] = &[$(stringify!($late)),*];

        /// A stand-in for each function, with its signature, that fails.
        #[cfg(test)]
        pub(super) mod failing {
            use super::*;

            /// `CUDA_ERROR_ILLEGAL_ADDRESS`.
            pub(in super::super) const CODE: i32 = 700;

            $(unsafe extern "system" fn $name($(_: $arg),*) -> i32 { CODE })*
            $(unsafe extern "system" fn $late($(_: $late_arg),*) -> i32 { CODE })*

            pub(in super::super) fn table() -> Table {
                Table { $($name,)* $($late: Some($late),)* }
            }

            pub(in super::super) fn address(name: &str) -> Option<NonNull<c_void>> {
                let function = match name {
                    $(stringify!($name) => $name as *mut c_void,)*
                    $(stringify!($late) => $late as *mut c_void,)*
                    _ => return None,
                };
                NonNull::new(function)
            }
        }
    };
}

functions! {
    required {
        cuInit(u32), 2, 0;
        cuDriverGetVersion(*mut i32), 2, 2;
        cuDeviceGetCount(*mut i32), 2, 0;
        cuDeviceGet(*mut i32, i32), 2, 0;
        cuDeviceGetName(*mut c_char, i32, i32), 2, 0;
        cuDeviceGetAttribute(*mut i32, i32, i32), 2, 0;

        cuDevicePrimaryCtxRetain(*mut u64, i32), 7, 0;
        cuCtxGetCurrent(*mut u64), 4, 0;
        cuCtxPushCurrent_v2(u64), 4, 0;
        cuCtxPopCurrent_v2(*mut u64), 4, 0;
        cuCtxSynchronize(), 2, 0;

        cuStreamCreate(*mut u64, u32), 2, 0;
        cuStreamDestroy_v2(u64), 4, 0;
        cuStreamSynchronize(u64), 2, 0;
        cuStreamGetCtx(u64, *mut u64), 9, 2;
        cuStreamIsCapturing(u64, *mut i32), 10, 0;
        cuStreamBeginCapture_v2(u64, i32), 10, 1;
        cuStreamEndCapture(u64, *mut u64), 10, 0;
        cuThreadExchangeStreamCaptureMode(*mut i32), 10, 1;

        cuModuleLoadData(*mut u64, *const c_void), 2, 0;
        cuModuleUnload(u64), 2, 0;
        cuModuleGetFunction(*mut u64, u64, *const c_char), 2, 0;
        cuFuncGetAttribute(*mut i32, i32, u64), 2, 2;
        cuFuncSetAttribute(u64, i32, i32), 9, 0;
        cuLaunchKernelEx(*const LaunchConfig, u64, *const *const c_void, *const c_void), 11, 6;

        cuTensorMapEncodeTiled(
            *mut TensorMap, u32, u32, u64, *const u64, *const u64, *const u32, *const u32,
            u32, u32, u32, u32
        ), 12, 0;
        cuTensorMapReplaceAddress(*mut TensorMap, u64), 12, 0;

        cuMemAlloc_v2(*mut u64, usize), 3, 2;
        cuMemFree_v2(u64), 3, 2;
        cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, u64), 3, 2;
        cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, u64), 3, 2;
        cuMemsetD8Async(u64, u8, usize, u64), 3, 2;
        cuPointerGetAttributes(u32, *const i32, *const *mut c_void, u64), 7, 0;

        cuEventCreate(*mut u64, u32), 2, 0;
        cuEventDestroy_v2(u64), 4, 0;
        cuEventRecord(u64, u64), 2, 0;
        cuEventSynchronize(u64), 2, 0;
        cuEventElapsedTime(*mut f32, u64, u64), 2, 0;

        cuGraphGetNodes(u64, *mut u64, *mut usize), 10, 0;
        cuGraphNodeGetType(u64, *mut i32), 10, 0;
        cuGraphKernelNodeGetParams_v2(u64, *mut KernelNodeParams), 12, 0;
        cuGraphInstantiateWithFlags(*mut u64, u64, u64), 11, 4;
        cuGraphLaunch(u64, u64), 10, 0;
        cuGraphExecDestroy(u64), 10, 0;
        cuGraphDestroy(u64), 10, 0;
    }
    optional {
        cuFuncLoad(u64), 12, 4;
        cuFuncGetName(*mut *const c_char, u64), 12, 3;
        cuFuncGetParamInfo(u64, usize, *mut usize, *mut usize), 12, 4;
        cuKernelGetName(*mut *const c_char, u64), 12, 3;
        cuGraphGetEdges_v2(u64, *mut u64, *mut u64, *mut GraphEdgeData, *mut usize), 12, 3;
    }
}
