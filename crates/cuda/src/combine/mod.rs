//! Units cut into pieces of equal cost, and the merge of what the pieces leave: the last kernel of an
//! execute of attention forward that cuts units.
//!
//! A GPU that few queries leave empty is filled by their keys: the tiles of all units, in the order of
//! a work list in natural order or of their index, are one line that is divided among the blocks of the
//! kernel (`kernels/common/ranges.cuh`). A block leaves at most two pieces that are no whole units, each in a
//! slot of its own, and `kernels/common/sdpa_combine.cu` merges them. Sizes are values, so one artifact
//! for each target serves every plan.

mod launch;
mod params;

use std::num::NonZero;

use frazil_core::{Call, Config, Layout, Region, SdpaFwdFacts};

pub use launch::{CombineKernel, OLDEST_NVRTC, request};
pub use params::Params;

use crate::sdpa_fwd::{Packing, Partials, Schedule, SdpaFwdParams};
use crate::{Divisor, LaunchShape};

/// Symbol of the kernel, as [`Launches`](frazil_core::Launches) names it.
pub const KERNEL: &str = "frazil_sdpa_combine";

/// Threads of a block: a warp takes a row.
pub const NUM_THREADS: u32 = 256;

/// Pieces whose rows of O a warp has on their way at once; of more, several warps take a row.
const PIECES_IN_FLIGHT: u32 = 4;

/// Largest head dim of V: eight columns for each lane of the warp that has a row.
pub const MAX_HEAD_DIM_V: u64 = 256;

/// The integers that are compiled in.
pub fn config() -> Config {
    Config::new([
        ("num_threads", NUM_THREADS.into()),
        ("pieces_in_flight", PIECES_IN_FLIGHT.into()),
        ("params_bytes", Params::BYTES as i64),
    ])
}

/// Most blocks of the kernel in front.
pub const MAX_BLOCKS: u16 = 1 << 15;

/// Most places of a line, that kernels count them in 31 bits.
pub const MAX_PLACES: u64 = 0x7fff_ffff;

/// The units of one call in a line, as the kernel in front cuts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Those of a work list in natural order: the address of its places, int64 `[bands + 1]`, which are
    /// those of the bands before for one head unit.
    Listed(u64),
    /// Those told by their index, of which each takes as many places: its tiles, or more, and 1.
    Even(u32),
}

/// The cut units of one plan: where their pieces lie, and what the merge is launched with.
#[derive(Clone, Copy, Debug)]
pub struct Combine {
    out: Region,
    stats: Region,
    num_blocks: NonZero<u16>,
    band_tokens: u32,
    slot_rows: u32,
    units: Units,
}

/// The units of a plan that are cut, as its declaration has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// So many, told by their index.
    Counted(NonZero<u32>),
    /// At least so many, where every sequence has a query, told by a list.
    Listed(NonZero<u32>),
}

impl Combine {
    /// Adds its regions to a plan's workspace. Places are divided among `num_blocks` blocks of the
    /// kernel in front.
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
    /// If the head dim of V is greater than [`MAX_HEAD_DIM_V`], or no multiple of 4, or if there are more
    /// blocks than [`MAX_BLOCKS`].
    pub fn of(
        facts: &SdpaFwdFacts,
        packing: Packing,
        (num_blocks, units): (NonZero<u16>, Units),
        layout: &mut Layout,
    ) -> Self {
        let shape = facts.shape();
        let columns = shape.head_dim_v;
        assert!(columns <= MAX_HEAD_DIM_V && columns.is_multiple_of(4), "head_dim_v {columns}");
        assert!(num_blocks.get() <= MAX_BLOCKS, "{num_blocks} blocks");
        let tokens = shape.q.max_len.min(packing.band_tokens.into());
        // Rows of a tile are hundreds.
        let slot_rows = u32::try_from(tokens * u64::from(packing.pack)).unwrap_or(u32::MAX);
        let rows = 2 * u64::from(num_blocks.get()) * u64::from(slot_rows);
        let out = layout.region("partial_out", rows * columns * 4);
        let stats = layout.region("partial_stats", rows * 8);
        Self { out, stats, num_blocks, band_tokens: packing.band_tokens, slot_rows, units }
    }

    /// Where the kernel in front finds its places, of which there are at most [`MAX_PLACES`], and leaves
    /// its pieces.
    pub fn partials(&self, call: &Call<'_>, line: Line) -> Partials {
        let (prefix, unit_places) = match line {
            Line::Listed(prefix) => (prefix, 0),
            Line::Even(unit_places) => (0, unit_places),
        };
        // Rows of a tile are hundreds, and places below 2^31.
        let int = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Partials {
            prefix,
            out: call.region(self.out),
            stats: call.region(self.stats),
            slot_rows: int(self.slot_rows),
            unit_places: int(unit_places),
            blocks: Divisor::new(self.num_blocks.get().into()),
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
            // Queries of a tile are hundreds.
            band_tokens: i32::try_from(self.band_tokens).unwrap_or(i32::MAX),
            unused: 0,
        }
    }

    /// A block for each unit told by its index, or for each block of the kernel in front, times those
    /// that share the rows of a unit: a row of many pieces takes several warps.
    fn shape(&self, programmatic: bool) -> LaunchShape {
        let num_blocks = u32::from(self.num_blocks.get());
        let (num_units, along_x) = match self.units {
            Units::Counted(units) => (units.get(), units.get()),
            Units::Listed(units) => (units.get(), num_blocks),
        };
        let likely_pieces = num_blocks.div_ceil(num_units) + 1;
        let warps_per_row = likely_pieces.div_ceil(PIECES_IN_FLIGHT).next_power_of_two();
        let rows_per_block = (NUM_THREADS / 32 / warps_per_row).max(1);
        let blocks_per_unit = self.slot_rows.div_ceil(rows_per_block).max(1);
        LaunchShape {
            grid: [along_x, blocks_per_unit, 1],
            block: [NUM_THREADS, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic,
        }
    }
}
