//! What every frazil engine must show.
//!
//! Cases as data ([`case`]), the f64 [`mod@reference`] and the [`tolerance`] it implies, and a
//! runner ([`run`], [`suite`]) over any router and any device's [`memory`], for tests, the command
//! line and engines that live elsewhere. [`support`] asks who serves what without running anything.
//! `detectors`, with feature `cuda`, looks at the rules of execute on GPUs.

#![deny(unsafe_code)]

pub mod alloc;
pub mod case;
mod compare;
#[cfg(all(feature = "counting-driver", target_os = "linux"))]
pub mod counting_driver;
#[cfg(feature = "cuda")]
pub mod cuda;
mod data;
pub mod declare;
#[cfg(feature = "cuda")]
pub mod detectors;
mod expected;
#[cfg(feature = "generator")]
pub mod generator;
mod image;
mod instance;
mod ints;
mod json;
mod limits;
mod live;
pub mod memory;
#[doc(hidden)]
pub mod paths;
pub mod peer;
pub mod reference;
pub mod repro;
pub mod rules;
pub mod run;
pub mod seqlens;
mod sizes;
pub mod skip;
pub mod suite;
pub mod support;
pub mod tolerance;
mod trial;
pub mod work_list;
