//! What every frazil engine must show.
//!
//! Cases as data ([`case`]), the f64 [`reference`] and the [`tolerance`] it implies, for tests, the
//! command line and engines that live elsewhere.

#![deny(unsafe_code)]

pub mod case;
pub mod reference;
pub mod tolerance;
