//! Units cut into pieces of equal cost, and the merge of what the pieces leave: the last kernel of an
//! execute of attention forward that cuts units.
//!
//! A GPU that few queries leave empty is filled by their keys: the tiles of all units, in the order of
//! a work list in natural order, are one line that is divided among the blocks of the kernel
//! (`kernels/common/ranges.cuh`). A block leaves at most two pieces that are no whole units, each in a
//! slot of its own, and `kernels/common/sdpa_combine.cu` merges them. Sizes are values, so one artifact
//! for each target serves every plan.

mod launch;
mod params;

use std::num::NonZero;

use frazil_core::{Call, Config, Layout, Region, SdpaFwdFacts};

pub use launch::{CombineKernel, OLDEST_NVRTC, request};
pub use params::Params;

use crate::LaunchShape;
use crate::sdpa_fwd::{Packing, Partials, Schedule, SdpaFwdParams};

/// Symbol of the kernel, as [`Launches`](frazil_core::Launches) names it.
pub const KERNEL: &str = "frazil_sdpa_combine";

/// Threads of a block: a warp takes a row.
pub const NUM_THREADS: u32 = 256;

/// Largest head dim of V: eight columns for each lane of the warp that has a row.
pub const MAX_HEAD_DIM_V: u64 = 256;

/// The integers that are compiled in.
pub fn config() -> Config {
    Config::new([("num_threads", NUM_THREADS.into()), ("params_bytes", Params::BYTES as i64)])
}

/// The cut units of one plan: where their pieces lie, and what the merge is launched with.
#[derive(Clone, Copy, Debug)]
pub struct Combine {
    places: Region,
    out: Region,
    stats: Region,
    num_blocks: NonZero<u16>,
    band_tokens: u32,
    slot_rows: u32,
}

impl Combine {
    /// Adds its regions to a plan's workspace. `places` are those of its work list, int64
    /// `[bands + 1]`: places of the bands before, for one head unit, which are divided among
    /// `num_blocks` blocks of the kernel in front.
    ///
    /// | region | holds |
    /// |---|---|
    /// | `partial_out` | f32 `[2 num_blocks, R, Dv]`: rows of O, each divided by its sum |
    /// | `partial_stats` | f32 `[2 num_blocks, R, 2]`: the score, in units of log2, that weights are relative to, and their sum |
    ///
    /// R is the number of rows that a tile can have of the queries of a band: one query of one head
    /// takes no room for those of a whole tile.
    ///
    /// # Panics
    ///
    /// If the head dim of V is greater than [`MAX_HEAD_DIM_V`], or no multiple of 4.
    pub fn of(
        facts: &SdpaFwdFacts,
        packing: Packing,
        num_blocks: NonZero<u16>,
        places: Region,
        layout: &mut Layout,
    ) -> Self {
        let shape = facts.shape();
        let columns = shape.head_dim_v;
        assert!(columns <= MAX_HEAD_DIM_V && columns.is_multiple_of(4), "head_dim_v {columns}");
        let tokens = shape.q.max_len.min(packing.band_tokens.into());
        // Rows of a tile are hundreds.
        let slot_rows = u32::try_from(tokens * u64::from(packing.pack)).unwrap_or(u32::MAX);
        let rows = 2 * u64::from(num_blocks.get()) * u64::from(slot_rows);
        let out = layout.region("partial_out", rows * columns * 4);
        let stats = layout.region("partial_stats", rows * 8);
        Self { places, out, stats, num_blocks, band_tokens: packing.band_tokens, slot_rows }
    }

    /// Where the kernel in front finds its places and leaves its pieces.
    pub fn partials(&self, call: &Call<'_>) -> Partials {
        Partials {
            prefix: call.region(self.places),
            out: call.region(self.out),
            stats: call.region(self.stats),
            slot_rows: self.slot_rows.into(),
        }
    }

    /// Blocks of the kernel in front.
    pub fn num_blocks(&self) -> NonZero<u16> {
        self.num_blocks
    }

    /// The kernel's parameter for one call, from those of the kernel in front.
    pub fn params(&self, op: &SdpaFwdParams, schedule: &Schedule) -> Params {
        Params {
            op: *op,
            schedule: *schedule,
            num_blocks: self.num_blocks.get().into(),
            // Queries of a tile are hundreds.
            band_tokens: i32::try_from(self.band_tokens).unwrap_or(i32::MAX),
        }
    }

    /// A block for each of the kernel in front, times those that share the rows of a unit.
    fn shape(&self, programmatic: bool) -> LaunchShape {
        let blocks_per_unit = self.slot_rows.div_ceil(NUM_THREADS / 32).max(1);
        LaunchShape {
            grid: [self.num_blocks.get().into(), blocks_per_unit, 1],
            block: [NUM_THREADS, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic,
        }
    }
}
