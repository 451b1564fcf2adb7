//! GPU attention for Rust: engines for several architectures behind one router and one contract.
//!
//! Declare a [`Graph`], read its [`Facts`], ask a [`Router`] for [`Plan`]s, build the best one on a
//! [`Device`], and [`execute`](Executable::execute) it as often as you like: it launches exactly
//! what the plan promised, and allocates, converts and waits for nothing. With the default feature
//! `cpu` all of this runs on the host; with `sm80` on NVIDIA GPUs, whose driver is opened at run time.
//!
//! Each engine is a cargo feature; an enabled one is linked and registers itself:
//!
//! | feature | default | engine |
//! |---|---|---|
//! | `cpu` | yes | `sdpa_fwd_cpu`, the host processor |
//! | `sm80` | yes | `sdpa_fwd_sm80`, NVIDIA GPUs of compute capability 8.0 and later; enables `cuda` |
//!
//! Others add a kind of device, or the means to meet other libraries on it:
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `cuda` | yes | `cuda`: NVIDIA GPUs as devices, opened at run time |
//! | `cudarc` | no | `cuda::interop`: slices and streams of cudarc and candle, lent |
//!
//! The README has a first program, `examples/` has four more.

#![forbid(unsafe_code)]

pub use frazil_core::*;
pub use frazil_router::{Answer, Built, Explanation, RegistrationError, Router};

/// The engine for the host processor.
#[cfg(feature = "cpu")]
pub use frazil_engine_cpu as cpu;

/// The engine for GPUs of compute capability 8.0 and later.
#[cfg(feature = "sm80")]
pub use frazil_engine_sm80 as sm80;

/// NVIDIA GPUs: devices, and what engines for them stand on.
#[cfg(feature = "cuda")]
pub use frazil_cuda as cuda;

/// The README's example, run as a test.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../README.md")]
struct Readme;
