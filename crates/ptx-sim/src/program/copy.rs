//! Asynchronous copies from global to shared memory.

use super::{Address, Predicate, Source};
use crate::types::Space;

/// `cp.async` of 4, 8 or 16 bytes.
#[derive(Debug)]
pub(crate) struct CopyOp {
    /// In the shared space.
    pub(crate) to: Address,
    /// In the global space.
    pub(crate) from: Address,
    pub(crate) bytes: u8,
    pub(crate) read: CopyRead,
}

/// How much of its source a copy reads; the rest of its destination becomes zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyRead {
    All,
    /// So many bytes.
    Bytes(Source),
    /// Nothing where this holds.
    Unless(Predicate),
}

impl CopyOp {
    pub(crate) const TO: Space = Space::Shared;
    pub(crate) const FROM: Space = Space::Global;
}
