//! Storage of one side of a case.

use serde::{Deserialize, Serialize};

/// How one side is stored, with the values of its device tensors.
///
/// `lengths` are what the device tensor says, hostile values included; bounds default to
/// `0..=seqlen`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(tag = "form", rename_all = "snake_case", deny_unknown_fields)]
pub enum SideCase {
    /// `[B, H, S, D]`, every row live.
    #[default]
    Dense,
    /// `[B, H, S, D]` and lengths.
    Padded {
        /// Rows of each sequence.
        lengths: Vec<i32>,
        /// Least length promised.
        #[serde(default)]
        min_len: u32,
    },
    /// `[T, H, D]` found by lengths.
    PackedLengths {
        /// Rows of each sequence.
        lengths: Vec<i32>,
        /// Limit of the sum; absent: the capacity.
        #[serde(default)]
        max_total: Option<u32>,
        /// Rows of the buffers; absent: the sum of the lengths.
        #[serde(default)]
        capacity: Option<u64>,
    },
    /// `[T, H, D]` found by running sums.
    PackedPrefix {
        /// Rows of each sequence; the tensor holds `base`, `base + lengths[0]`, ….
        lengths: Vec<i32>,
        /// First entry of the running sums.
        #[serde(default)]
        base: i32,
        /// The entries themselves, where they are not sums of lengths.
        #[serde(default)]
        prefix: Option<Vec<i32>>,
        /// Limit of the sum; absent: the capacity.
        #[serde(default)]
        max_total: Option<u32>,
        /// Rows of the buffers; absent: the sum of the lengths.
        #[serde(default)]
        capacity: Option<u64>,
    },
    /// `[T, H, D]` with gaps.
    PackedStarts {
        /// First row of each sequence.
        starts: Vec<i32>,
        /// Rows of each sequence.
        lengths: Vec<i32>,
        /// Limit of the rows reached; absent: the capacity.
        #[serde(default)]
        max_total: Option<u32>,
        /// Rows of the buffers; absent: the greatest end of a sequence.
        #[serde(default)]
        capacity: Option<u64>,
    },
    /// K and V in pages.
    Paged {
        /// Rows of each sequence.
        lengths: Vec<i32>,
        /// Rows of a page.
        page_size: u64,
        /// Pages of the pool; absent: `batch * ceil(seqlen / page_size)`.
        #[serde(default)]
        num_pages: Option<u64>,
        /// Whether K and V share one table.
        #[serde(default)]
        one_table: bool,
        /// Strides of the tables.
        #[serde(default)]
        table: TableOrder,
        /// Strides of the pools.
        #[serde(default)]
        pool: PoolOrder,
        /// Which page holds which rows.
        #[serde(default)]
        pages: PageOrder,
    },
}

/// Strides of a page table `[B, P]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableOrder {
    /// `(P, 1)`.
    #[default]
    RowMajor,
    /// `(1, B)`, as the peer's tests have it.
    ColumnMajor,
}

/// Strides of a pool `[N, H, page_size, D]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolOrder {
    /// Heads outside the rows of a page: contiguous.
    #[default]
    Hnd,
    /// Rows of a page outside the heads.
    Nhd,
}

/// Which page of the pool holds page `t` of sequence `b`. Entries past the last live page hold ids
/// outside the pool, which nobody may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PageOrder {
    /// A seeded shuffle, K and V apart where they have tables of their own.
    #[default]
    Shuffled,
    /// `t * B + b`, as the peer's tests have it.
    Interleaved,
    /// Backwards from the last page of the pool, sequence after sequence: the greatest ids.
    FromTheEnd,
    /// As `Shuffled`, but the first live entry of every sequence names a page outside the pool,
    /// which is clamped to the nearest one and flagged.
    OutsideFirst,
}

impl SideCase {
    /// Whether every row of the extents is live.
    pub fn is_dense(&self) -> bool {
        matches!(self, Self::Dense)
    }

    /// Whether rows are `[T, H, D]`.
    pub fn is_packed(&self) -> bool {
        matches!(
            self,
            Self::PackedLengths { .. } | Self::PackedPrefix { .. } | Self::PackedStarts { .. }
        )
    }
}
