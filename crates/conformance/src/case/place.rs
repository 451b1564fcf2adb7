//! Where tensors of a case lie, when not in plain buffers of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Places by role (`q`, `k`, `v`, `o`, `lse`, `bias`, …); roles left out lie contiguous in a buffer
/// of their own, dense and padded sides as `[B, H, S, D]`, packed ones as `[T, H, D]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Places(pub BTreeMap<String, Place>);

/// Where one tensor lies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Strides in elements, one per axis of the tensor; absent: contiguous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strides: Option<Vec<i64>>,
    /// Name of a buffer shared with other roles of the case; absent: a buffer of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<String>,
    /// Elements from the start of the buffer (which is aligned to 256 bytes) to the tensor's first.
    #[serde(default)]
    pub offset: u64,
    /// Alignment declared, in bytes; absent: the largest power of two up to 16 that the offset
    /// keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u32>,
}

impl Places {
    /// Whether every tensor lies in a plain buffer of its own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of a role, where it is not the plain one.
    pub fn get(&self, role: &str) -> Option<&Place> {
        self.0.get(role)
    }
}
