//! The roofline of this computer's processor: the rates that no attention on it exceeds.
//!
//! Two numbers, each the best of a few runs on a given number of threads: the f32 matrix product of
//! the `gemm` crate, which is what frazil's host engine is held against, and the rate at which
//! memory is read. Reported beside every measurement, so that a share can be told from a fast
//! computer (Williams, Waterman and Patterson, "Roofline", 2009).

#![deny(unsafe_code)]

mod product;
mod sweep;

pub use product::Product;
pub use sweep::Sweep;
