//! What the kernel takes and writes: the structs of `kernels/common/work_list.cuh`, field by field.
//!
//! The kernel compares the size of the whole with [`Params::BYTES`] when it is compiled.

use bytemuck::{NoUninit, Pod, Zeroable};

use crate::{Divisor, seqlens};

pub use crate::band::Band;

/// The one parameter of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Params {
    /// Lengths and first rows, with no element offsets; of two dense sides the batch alone.
    pub seqlens: seqlens::Params,
    /// Which keys are seen.
    pub band: Band,
    /// Queries of a band.
    pub band_tokens: Divisor,
    /// Keys of a tile.
    pub block_n: Divisor,
    /// Queries of every sequence, where dense; else 0.
    pub q_rows: i32,
    /// Keys of every sequence, where dense; else 0.
    pub kv_rows: i32,
    /// Heads of K and V.
    pub num_kv_heads: u32,
    /// Head units of one of them.
    pub num_runs: u32,
    /// Keys of one head of K and V that units which run together may read.
    pub keys_per_section: u32,
    /// Records that there is room for.
    pub max_bands: i32,
    /// Order of the records.
    pub order: Order,
    /// Padding, written out.
    pub unused: u32,
    /// Address of int32 `[B + 1]`, written where the batch is greater than
    /// [`SHARED_SEQUENCES`](super::SHARED_SEQUENCES).
    pub first_bands: u64,
    /// Address of a [`Header`], written.
    pub header: u64,
    /// Address of a [`Record`] for each band, written.
    pub records: u64,
    /// Address of int64 `[max_bands + 1]`, written in [`Order::Natural`].
    pub places: u64,
}

/// In which order bands are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Order {
    /// By cost, for blocks that claim units one after another.
    DearestFirst = 0,
    /// By sequence and query, for units that are cut into pieces of equal cost.
    Natural = 1,
}

/// A band: everything that a unit needs of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub struct Record {
    /// Its sequence.
    pub batch_idx: i32,
    /// First query, in its sequence.
    pub q_begin: i32,
    /// First row of the sequence, packed; else 0.
    pub q_start: i32,
    /// Queries of the sequence.
    pub q_len: i32,
    /// First row of its keys, packed; else 0.
    pub kv_start: i32,
    /// Its keys.
    pub kv_len: i32,
    /// First tile of keys that some query of the band sees.
    pub tile_begin: i32,
    /// End of these tiles; as `tile_begin` where there is none.
    pub tile_end: i32,
}

/// What stands before the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    /// Records.
    pub num_bands: u32,
    /// Head units of a section, at least 1; units of one section are claimed before those of the
    /// next.
    pub heads_per_section: u32,
    /// Units claimed beyond the first of each block; 0 at first.
    pub num_claimed: u32,
    /// 1: no band has more than two tiles of keys, and none is before another.
    pub costs_alike: u32,
}

impl Params {
    /// Size, in bytes.
    pub const BYTES: usize = size_of::<Self>();
}

// SAFETY: `repr(C)` structs of plain numbers, without padding (below).
unsafe impl NoUninit for Params {}

// The sums of the fields: there is no padding, here or in the kernel.
const _: () = assert!(size_of::<Record>() == 32 && size_of::<Header>() == 16);
const _: () = assert!(size_of::<Band>() == 24 && size_of::<Divisor>() == 16);
const _: () = assert!(Params::BYTES == seqlens::Params::BYTES + 24 + 2 * 16 + 8 * 4 + 4 * 8);
