//! Asks every engine, ranks what they offer, and keeps every reason.
//!
//! Engines register themselves ([`EngineRegistration`](frazil_core::EngineRegistration)); a router
//! holds those that are linked into the program, or exactly those it is handed.

#![forbid(unsafe_code)]

mod explain;
mod rank;
mod router;

pub use explain::{Answer, Explanation};
pub use rank::RankRow;
pub use router::{Built, RegistrationError, Router};
