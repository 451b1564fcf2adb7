//! A functional simulator of PTX: runs what NVRTC emits with no GPU, and finds the bugs that a GPU hides.
//!
//! A text is parsed and checked as a whole ([`Module::parse`]), placed in the memory of a simulated device
//! ([`Module::load`]) and launched ([`Kernel::run`]). Warps run in lock step, diverge and join again; which warp and
//! which block runs next is chosen by a seed, and a seed repeats a run exactly. What is wrong with the program is a
//! [`Finding`] with the line of the PTX and, through its line information, of the CUDA C++: accesses out of bounds or
//! misaligned, reads of bytes that nobody wrote, races on shared memory, asynchronous copies that nobody has
//! waited for, divergence at barriers, deadlock.
//!
//! ```
//! use frazil_ptx_sim::{Launch, Memory, Module};
//!
//! let ptx = "
//!     .version 9.0 .target sm_80 .address_size 64
//!     .visible .entry double(.param .u64 values) {
//!         .reg .b32 %r<3>; .reg .b64 %rd<3>;
//!         ld.param.u64 %rd1, [values];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.u64 %rd1, %rd1, %rd2;
//!         ld.global.u32 %r2, [%rd1];
//!         shl.b32 %r2, %r2, 1;
//!         st.global.u32 [%rd1], %r2;
//!         ret;
//!     }";
//! let mut memory = Memory::new(1 << 20);
//! let values = memory.alloc(12, 4)?;
//! memory.write(values, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])?;
//!
//! let image = Module::parse(ptx)?.load(&mut memory)?;
//! let kernel = image.kernel("double").ok_or("no such kernel")?;
//! let report = kernel.run(&mut memory, &Launch::new([1; 3], [3, 1, 1], &values.to_le_bytes()))?;
//!
//! let mut bytes = [0; 12];
//! memory.read(values, &mut bytes)?;
//! assert_eq!(bytes, [2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0]);
//! assert!(report.findings.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An instruction that is not modelled is an error of [`Module::parse`] that names it and its line; it is never skipped.
//! Modelled are the integer, logic, shift, comparison, selection, conversion and basic floating-point instructions,
//! loads, stores and atomics in all spaces, barriers of blocks, exchanges inside of warps, calls, `ldmatrix`, `stmatrix`,
//! `mma` of f16, bf16 and tf32, `cp.async`. Not yet: other tensor-core instructions, `mbarrier`, bulk and tensor copies,
//! shared memory of clusters, textures, 128-bit registers. The order of accesses to global memory is that of the run; races there are not
//! looked for.

#![forbid(unsafe_code)]

mod alu;
mod decode;
mod error;
mod execute;
mod finding;
mod launch;
mod memory;
mod module;
mod program;
mod random;
mod syntax;
mod types;

pub use error::{LoadError, Unmodelled};
pub use finding::{Finding, FindingKind, Thread};
pub use launch::{Fault, Launch, LaunchError, Limits, Report};
pub use memory::{Allocation, Memory, MemoryError};
pub use module::{Entry, Image, Kernel, Module, Parameter};
pub use program::{Place, SourceLine};
pub use types::Space;
