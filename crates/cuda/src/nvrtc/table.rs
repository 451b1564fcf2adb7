//! Functions of NVRTC, each by its exact name.
//!
//! NVRTC documentation, <https://docs.nvidia.com/cuda/nvrtc/>; signatures of `nvrtc.h`, which are
//! the same from 11.2 on.

use std::ffi::{c_char, c_int};
use std::path::Path;

use libloading::Library;

use crate::loader::words_of;

/// An `nvrtcProgram`.
pub(super) type RawProgram = *mut std::ffi::c_void;

/// An `nvrtcResult`; 0 is success.
pub(super) type Code = c_int;

macro_rules! table {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $answer:ty;)*) => {
        /// The functions, valid as long as the process: the library is never unloaded.
        pub(super) struct Table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $answer,)*
        }

        impl Table {
            /// Reads the functions of a library; else the name of the first that it lacks.
            fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {$(
                    // SAFETY: `nvrtc.h` declares the function of this name with this type.
                    $field: *unsafe { library.get($symbol) }.map_err(|_| $symbol)?,
                )*})
            }

            /// One whose functions end the process, for tests to replace those they expect.
            #[cfg(test)]
            pub(super) fn of_none() -> Self {
                Self {$(
                    $field: {
                        unsafe extern "C" fn unexpected($(_: $argument),*) -> $answer {
                            std::process::abort()
                        }
                        unexpected
                    },
                )*}
            }
        }
    };
}

table! {
    version = "nvrtcVersion": fn(*mut c_int, *mut c_int) -> Code;
    num_supported_archs = "nvrtcGetNumSupportedArchs": fn(*mut c_int) -> Code;
    supported_archs = "nvrtcGetSupportedArchs": fn(*mut c_int) -> Code;
    error_string = "nvrtcGetErrorString": fn(Code) -> *const c_char;
    create_program = "nvrtcCreateProgram": fn(
        *mut RawProgram, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char
    ) -> Code;
    destroy_program = "nvrtcDestroyProgram": fn(*mut RawProgram) -> Code;
    compile_program = "nvrtcCompileProgram": fn(RawProgram, c_int, *const *const c_char) -> Code;
    log_size = "nvrtcGetProgramLogSize": fn(RawProgram, *mut usize) -> Code;
    log = "nvrtcGetProgramLog": fn(RawProgram, *mut c_char) -> Code;
    ptx_size = "nvrtcGetPTXSize": fn(RawProgram, *mut usize) -> Code;
    ptx = "nvrtcGetPTX": fn(RawProgram, *mut c_char) -> Code;
    cubin_size = "nvrtcGetCUBINSize": fn(RawProgram, *mut usize) -> Code;
    cubin = "nvrtcGetCUBIN": fn(RawProgram, *mut c_char) -> Code;
}

/// Why a library is not opened.
pub(super) enum NotOpened {
    /// The loader's own words.
    Unloadable(String),
    /// The first function that it lacks.
    Lacks(&'static str),
}

/// Opens a library for the rest of the process.
pub(super) fn open(path: &Path) -> Result<Table, NotOpened> {
    let library = open_forever(path).map_err(NotOpened::Unloadable)?;
    Table::of(library).map_err(NotOpened::Lacks)
}

/// Opens a library and never closes it: NVRTC starts threads and registers what runs at exit.
pub(super) fn open_forever(path: &Path) -> Result<&'static Library, String> {
    // SAFETY: what runs on loading is NVIDIA's, which asks nothing of the process that loads it;
    // the caller has found the file where such libraries are installed, or was told of it by name.
    let library = unsafe { Library::new(path) }.map_err(|error| words_of(&error))?;
    Ok(Box::leak(Box::new(library)))
}
