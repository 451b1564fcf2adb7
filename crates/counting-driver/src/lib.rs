//! A `libcuda.so.1` that counts every call by name and passes it on to NVIDIA's driver.
//!
//! A library that promises to launch kernels and nothing else can be held to it only where all its
//! calls go by, those of the libraries that it opens included. This one stands there: its file,
//! installed as `libcuda.so.1` and `libcuda.so` (some callers try that name first) in a folder that
//! is first on `LD_LIBRARY_PATH`, is what every part of a process gets that opens the driver by name
//! or was linked with it. (`LD_PRELOAD` does not do: callers take their functions from the handle
//! that they opened, past whatever was loaded before.)
//!
//! # How a call goes by
//!
//! | road | what the caller holds | counted under |
//! |---|---|---|
//! | `dlsym` on a handle, or linked with the driver | an exported function of this library | the symbol's name: `cuMemAlloc_v2` |
//! | `cuGetProcAddress`, `cuGetProcAddress_v2` | a spare function, one for each name and pointer that the driver answered | the name asked for: `cuMemAlloc` |
//!
//! Each function of either kind is two instructions, one that adds one to a counter and one that
//! jumps to the driver's function: registers and stack reach the driver as the caller left them,
//! so no function needs to be known by its parameters, and results return straight to the caller.
//!
//! Where the driver lacks one of the names, `dlsym` says so, as with the driver itself. Only a program
//! that was linked with such a name, and whose names are all bound before it starts, gets further
//! than with the driver: calls of that name answer `CUDA_ERROR_NOT_FOUND` (500).
//!
//! # What it does not see
//!
//! - Calls through the tables of `cuGetExportTable`, which have no names. That a table was asked
//!   for is counted.
//! - Calls by whoever opened the driver by another path or name.
//! - What the driver calls within itself, and the functions of its debugger interface (`cudbg*`),
//!   which are not exported here.
//!
//! # Which driver is behind it
//!
//! The file that the environment variable `FRAZIL_REAL_DRIVER` names; without it the first
//! `libcuda.so.1` that is no counting driver in the folders of `LD_LIBRARY_PATH` and then in the
//! usual ones. Where there is none, standard error says where was looked and every function
//! answers `CUDA_ERROR_STUB_LIBRARY` (34), as the library does that NVIDIA's toolkit has for
//! linking.
//!
//! # Reading the counts
//!
//! `CountingDriver` of the crate `frazil-conformance` finds them. For others, the functions of
//! `read_out` are exported by their names.
//!
//! Elsewhere than on Linux with an x86-64 processor this package is empty.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod hide;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod load;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod names;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod proc_address;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod read_out;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod real;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod spare;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod symbols;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trampoline;
