//! What the kernel takes: the structs of `kernels/common/seqlens.cuh`, field by field.
//!
//! The kernel compares the size of the whole with [`Params::BYTES`] when it is compiled.

use bytemuck::NoUninit;

/// Tensors of one side that may have rows of their own: Q, O, LSE, max and sum-exp.
pub const MAX_ELEMENT_OFFSETS: usize = 5;

/// The one parameter of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Params {
    /// Sequences.
    pub batch: i64,
    /// Address of the error word, which is written.
    pub error_word: u64,
    /// Q and O.
    pub q: SideParams,
    /// K and V.
    pub kv: SideParams,
}

/// One side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SideParams {
    /// What its tensors say, and what bounds it.
    pub lengths: SideLengths,
    /// How many of `offsets` are there; 0 unless packed.
    pub num_offsets: u64,
    /// Address of int32 `[B]`, written; 0 where dense.
    pub out_lengths: u64,
    /// Address of int32 `[B]`, written: first rows; 0 unless packed.
    pub out_starts: u64,
    /// Element offsets to write.
    pub offsets: [ElementOffsets; MAX_ELEMENT_OFFSETS],
}

/// What the tensors of a side say, and what bounds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SideLengths {
    /// Which tensors.
    pub form: Form,
    /// Padding, written out.
    pub unused: u32,
    /// Lengths, or running sums.
    pub entries: IntVector,
    /// First rows, of [`Form::PackedStarts`].
    pub starts: IntVector,
    /// A length below it is an error, and kept.
    pub min_len: i64,
    /// A length above it is an error, and cut.
    pub max_len: i64,
    /// Rows that sequences may reach: each, or packed, all together. Packed, an int32 holds it.
    pub capacity: i64,
}

/// What the tensors of a side say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// Nothing: the host knows all, and nothing is written.
    #[default]
    Dense = 0,
    /// Lengths, `[B]`; every sequence starts at its row 0.
    Lengths = 1,
    /// Lengths, `[B]`; a sequence starts at the sum of the lengths before it.
    PackedLengths = 2,
    /// Running sums, `[B + 1]`, from any base.
    PackedPrefix = 3,
    /// Lengths and first rows, `[B]` each.
    PackedStarts = 4,
}

/// An int32 vector that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct IntVector {
    /// Address of its first element; 0 where there is none.
    pub address: u64,
    /// Elements from one to the next.
    pub stride: i64,
}

/// Where one packed tensor has its rows, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ElementOffsets {
    /// Address of int64 `[B + 1]`, written: `row_stride` times the first row of each sequence, then
    /// that of the row past the last sequence.
    pub out: u64,
    /// Elements from row to row.
    pub row_stride: i64,
}

impl Params {
    /// Size, in bytes.
    pub const BYTES: usize = size_of::<Self>();
}

// SAFETY: `repr(C)` structs and a `repr(u32)` enum of plain numbers, without padding (below).
unsafe impl NoUninit for Params {}

// The sums of the fields: there is no padding, here or in the kernel.
const _: () = assert!(size_of::<IntVector>() == 16 && size_of::<ElementOffsets>() == 16);
const _: () = assert!(size_of::<SideLengths>() == 2 * 4 + 2 * 16 + 3 * 8);
const _: () =
    assert!(size_of::<SideParams>() == size_of::<SideLengths>() + 3 * 8 + MAX_ELEMENT_OFFSETS * 16);
const _: () = assert!(Params::BYTES == 2 * 8 + 2 * size_of::<SideParams>());
