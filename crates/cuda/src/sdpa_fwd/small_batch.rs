//! Batches so small that every block works out the bands of all of their sequences by itself:
//! `SmallBatch` of `kernels/common/small_batch.cuh`.

use bytemuck::NoUninit;
use frazil_core::{Call, Layout, Region, Role, SdpaFwdFacts, SideFacts};

use crate::seqlens::{LengthTensors, SideLengths};
use crate::work_list::{Bands, keys_per_section, max_bands};

/// Sequences of a small batch: one for each lane of a warp.
pub const MAX_SMALL_BATCH: u64 = 32;

/// A plan for a small batch: no kernel goes before that of attention forward.
#[derive(Clone, Copy, Debug)]
pub struct SmallBatch {
    q: Option<LengthTensors>,
    kv: Option<LengthTensors>,
    error_word: Region,
    keys_per_section: u32,
    max_bands: u64,
}

/// What the kernel takes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SmallBatchParams {
    /// Sequences, up to [`MAX_SMALL_BATCH`].
    pub batch: i64,
    /// Q and O. Both sides are dense where there is no small batch.
    pub q: SideLengths,
    /// K and V.
    pub kv: SideLengths,
    /// Queries of every sequence, where dense; else 0.
    pub q_rows: i32,
    /// Keys of every sequence, where dense; else 0.
    pub kv_rows: i32,
    /// Keys of one head of K and V that units which run together may read.
    pub keys_per_section: u32,
    /// Bands that are taken, of sequences that lie over one another.
    pub max_bands: i32,
}

impl SmallBatch {
    /// Adds the error word to a plan's workspace; `None`, and nothing is added, where no side has
    /// device lengths, where a list must be made of more sequences, and with pages: every block may
    /// find a wrong id, and none is the last to write the error word.
    ///
    /// As with a list, an engine declines facts whose [`max_bands`](Self::max_bands) times the head
    /// units is more than an int32 counts.
    pub fn of(facts: &SdpaFwdFacts, bands: &Bands, layout: &mut Layout) -> Option<Self> {
        let is_paged = matches!(facts.kv_side(), SideFacts::Paged { .. });
        let is_small = facts.shape().batch <= MAX_SMALL_BATCH;
        if !facts.has_device_lengths() || !is_small || is_paged {
            return None;
        }
        Some(Self {
            q: LengthTensors::q(facts),
            kv: LengthTensors::kv(facts),
            error_word: layout.region("error_word", 4),
            keys_per_section: keys_per_section(facts, bands),
            max_bands: max_bands(facts, bands.band_tokens.into()),
        })
    }

    /// A `u32` of [`ErrorWord`](frazil_core::ErrorWord) bits, which one block writes.
    pub fn error_word(&self) -> Region {
        self.error_word
    }

    /// The most bands that disjoint sequences within their bounds can have, under any override.
    pub fn max_bands(&self) -> u64 {
        self.max_bands
    }

    /// What the kernel takes for one call, overrides of extents and strides included.
    pub fn params(&self, call: &Call<'_>) -> SmallBatchParams {
        let sides = [self.q, self.kv].into_iter().flatten();
        let batch = sides.map(|side| side.batch(call)).next().unwrap_or(0);
        let lengths = |side: Option<LengthTensors>| {
            side.map_or_else(SideLengths::default, |side| side.lengths(call))
        };
        let dense_rows = |side: Option<LengthTensors>, role| {
            let rows = call.view(role).filter(|_| side.is_none());
            int32(rows.map_or(0, |view| view.geometry.extent(2)))
        };
        SmallBatchParams {
            batch: int32(batch).into(),
            q: lengths(self.q),
            kv: lengths(self.kv),
            q_rows: dense_rows(self.q, Role::Q),
            kv_rows: dense_rows(self.kv, Role::K),
            keys_per_section: self.keys_per_section,
            max_bands: int32(self.max_bands),
        }
    }
}

impl SmallBatchParams {
    /// Size, in bytes.
    pub const BYTES: usize = size_of::<Self>();
}

// SAFETY: a `repr(C)` struct of plain numbers, without padding (below).
unsafe impl NoUninit for SmallBatchParams {}

// The sum of the fields: there is no padding, here or in the kernels.
const _: () = assert!(SmallBatchParams::BYTES == 8 + 2 * size_of::<SideLengths>() + 4 * 4);

/// Extents of facts that an engine of ours takes fit 31 bits.
fn int32(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
