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

/// How the kernel in front cuts units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Blocks of its grid, which the places are divided among.
    pub num_blocks: NonZero<u16>,
    /// Rows of its tile.
    pub block_m: u32,
}

/// The cut units of one plan: where their pieces lie, and what the merge is launched with.
#[derive(Clone, Copy, Debug)]
pub struct Combine {
    places: Region,
    out: Region,
    stats: Region,
    cut: Cut,
    band_tokens: u32,
    blocks_per_unit: u32,
}

impl Combine {
    /// Adds its regions to a plan's workspace. `places` are those of its work list, int64
    /// `[bands + 1]`: places of the bands before, for one head unit.
    ///
    /// | region | holds |
    /// |---|---|
    /// | `partial_out` | f32 `[2 num_blocks, block_m, Dv]`: rows of O, each divided by its sum |
    /// | `partial_stats` | f32 `[2 num_blocks, block_m, 2]`: the score, in units of log2, that weights are relative to, and their sum |
    ///
    /// # Panics
    ///
    /// If the head dim of V is greater than [`MAX_HEAD_DIM_V`], or no multiple of 4.
    pub fn of(
        facts: &SdpaFwdFacts,
        packing: Packing,
        cut: Cut,
        places: Region,
        layout: &mut Layout,
    ) -> Self {
        let shape = facts.shape();
        let columns = shape.head_dim_v;
        assert!(columns <= MAX_HEAD_DIM_V && columns.is_multiple_of(4), "head_dim_v {columns}");
        let rows = 2 * u64::from(cut.num_blocks.get()) * u64::from(cut.block_m);
        let out = layout.region("partial_out", rows * columns * 4);
        let stats = layout.region("partial_stats", rows * 8);
        let tokens = shape.q.max_len.min(packing.band_tokens.into());
        let live_rows = u32::try_from(tokens * u64::from(packing.pack)).unwrap_or(cut.block_m);
        let blocks_per_unit = live_rows.div_ceil(NUM_THREADS / 32).max(1);
        Self { places, out, stats, cut, band_tokens: packing.band_tokens, blocks_per_unit }
    }

    /// Where the kernel in front finds its places and leaves its pieces.
    pub fn partials(&self, call: &Call<'_>) -> Partials {
        Partials {
            prefix: call.region(self.places),
            out: call.region(self.out),
            stats: call.region(self.stats),
        }
    }

    /// How units are cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// Blocks of the merge that share the rows of one unit: its grid is this many times
    /// `num_blocks`.
    pub fn blocks_per_unit(&self) -> u32 {
        self.blocks_per_unit
    }

    /// The kernel's parameter for one call, from those of the kernel in front.
    pub fn params(&self, op: &SdpaFwdParams, schedule: &Schedule) -> Params {
        // Rows and queries of a tile are hundreds.
        let small = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        Params {
            op: *op,
            schedule: *schedule,
            num_blocks: self.cut.num_blocks.get().into(),
            block_m: small(self.cut.block_m),
            band_tokens: small(self.band_tokens),
        }
    }

    /// A block for each of the kernel in front, times those that share the rows of a unit.
    fn shape(&self) -> LaunchShape {
        LaunchShape {
            grid: [self.cut.num_blocks.get().into(), self.blocks_per_unit, 1],
            block: [NUM_THREADS, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic: false,
        }
    }
}
