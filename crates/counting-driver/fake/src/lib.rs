//! A `libcuda.so.1` with a few of the driver's names, for tests of what stands before a driver.
//!
//! Each function takes arguments of its own kind, not the driver's, and gives them back in a form
//! that shows every one of them. Calls of `cuGetProcAddress` are answered as the driver does, by
//! name and version.
//!
//! Elsewhere than on Linux with an x86-64 processor this package is empty.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod functions;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod proc_address;
