//! What every frazil engine must show.
//!
//! Cases as data ([`case`]), the f64 [`reference`] and the [`tolerance`] it implies, and a runner
//! ([`run`], [`suite`]) over any router and any device's [`memory`], for tests, the command line and
//! engines that live elsewhere.

#![deny(unsafe_code)]

pub mod alloc;
pub mod case;
pub mod declare;
pub mod memory;
pub mod peer;
pub mod reference;
pub mod rules;
pub mod run;
pub mod suite;
pub mod tolerance;
