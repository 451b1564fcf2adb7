//! What attention forward takes: the structs of `kernels/common/sdpa_fwd.cuh`, field by field.
//!
//! Each kernel compares the size of the whole with the host's when it is compiled. Strides count
//! elements; those of extents of 1 are 0. What the graph lacks is 0.

use bytemuck::NoUninit;

use crate::Divisor;
use crate::band::Band;

/// Q, K, V or O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RowTensor {
    /// Address of the first element.
    pub data: u64,
    /// From sequence to sequence, or from page to page; 0 where packed.
    pub batch_stride: i64,
    /// From row to row.
    pub row_stride: i64,
    /// From head to head.
    pub head_stride: i64,
}

/// LSE, max or sum-exp, f32: one value for each row and head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RowOutput {
    /// Address of the first element.
    pub data: u64,
    /// From sequence to sequence; 0 where it is packed.
    pub batch_stride: i64,
    /// As `row_stride` where it is packed, else 0.
    pub start_stride: i64,
    /// From row to row.
    pub row_stride: i64,
    /// From head to head.
    pub head_stride: i64,
    /// Rows of a sequence that it has, those past its length included; 0 where it is packed.
    pub num_rows: i64,
}

/// Rows of the sequences of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SideRows {
    /// Address of int32 `[B]`, bounded; 0: `num_rows` each.
    pub lengths: u64,
    /// Address of int32 `[B]`; 0: every sequence starts at its row 0.
    pub starts: u64,
    /// Rows of the extents; 0 where packed or paged.
    pub num_rows: i64,
}

/// Pages of K or of V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageTable {
    /// Address of int32 `[B, P]`.
    pub pages: u64,
    /// From sequence to sequence.
    pub batch_stride: i64,
    /// From page to page of a sequence.
    pub column_stride: i64,
    /// Pages of the pool.
    pub num_pages: i64,
    /// What an id outside of it sets in the error word.
    pub error_bit: u32,
    /// Padding, written out.
    pub unused: u32,
}

/// A tensor added to the scores: `[B or 1, Hq or 1, Sq, Skv]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Bias {
    /// Address of the first element.
    pub data: u64,
    /// From sequence to sequence.
    pub batch_stride: i64,
    /// From head to head.
    pub head_stride: i64,
    /// From query to query.
    pub row_stride: i64,
    /// From key to key.
    pub column_stride: i64,
    /// 1: f32; 0: of the type of Q.
    pub is_f32: u64,
}

/// One f32 for each head of Q, or for each of each sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HeadValues {
    /// Address of the first element.
    pub data: u64,
    /// From sequence to sequence.
    pub batch_stride: i64,
    /// From head to head.
    pub head_stride: i64,
}

/// From a product of Q and K to a score.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct ScoreParams {
    /// Factor of the product.
    pub scale: f32,
    /// The same times log2(e).
    pub scale_log2: f32,
    /// 0: none.
    pub soft_cap: f32,
    /// 1 over it; 0: none.
    pub inv_soft_cap: f32,
    /// Which keys are seen.
    pub band: Band,
    /// How far the maximum that weights are relative to may stay behind the greatest score of its row,
    /// times log2(e).
    pub lag_log2: f32,
    /// Corner that the distances of ALiBi are measured from.
    pub alibi_is_bottom_right: u32,
    /// Slopes of ALiBi.
    pub alibi: HeadValues,
    /// The bias.
    pub bias: Bias,
}

/// How heads are shared out to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Heads {
    /// Heads of Q and O.
    pub num_q_heads: i32,
    /// Heads of K and V.
    pub num_kv_heads: i32,
    /// Heads of Q that share one of K and V.
    pub group: i32,
    /// Runs of heads that make up a group.
    pub num_runs: i32,
    /// Heads of a run: rows of one tile.
    pub pack: Divisor,
    /// `num_runs`.
    pub runs: Divisor,
}

/// Type of O, as the kernels number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OutputType {
    /// f16.
    F16 = 0,
    /// bf16.
    Bf16 = 1,
    /// f32.
    F32 = 2,
}

/// All that attention forward takes, whatever the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct SdpaFwdParams {
    /// Queries.
    pub q: RowTensor,
    /// Keys.
    pub k: RowTensor,
    /// Values.
    pub v: RowTensor,
    /// The output.
    pub o: RowTensor,
    /// Log-sum-exp.
    pub lse: RowOutput,
    /// Greatest score.
    pub max: RowOutput,
    /// Sum of exponentials.
    pub sum_exp: RowOutput,
    /// Logits of the denominator.
    pub sink: HeadValues,
    /// Pages of K.
    pub table_k: PageTable,
    /// Pages of V.
    pub table_v: PageTable,
    /// Rows of Q and O.
    pub q_rows: SideRows,
    /// Rows of K and V.
    pub kv_rows: SideRows,
    /// From products to scores.
    pub score: ScoreParams,
    /// How heads are shared out.
    pub heads: Heads,
    /// Rows of a page; all zeros without pages.
    pub page_size: Divisor,
    /// Address of the error word; 0 where no device tensor steers the work.
    pub error_word: u64,
    /// 1: rows of O past the length of their sequence are filled.
    pub fills_o: u64,
    /// Sequences.
    pub batch: i64,
    /// Columns of Q and K.
    pub head_dim_qk: i32,
    /// Columns of V and O.
    pub head_dim_v: i32,
    /// Type of O.
    pub o_type: OutputType,
    /// 1: the LSE is of base 2.
    pub lse_is_base2: u32,
}

impl SdpaFwdParams {
    /// Size, in bytes.
    pub const BYTES: usize = size_of::<Self>();
}

// SAFETY: `repr(C)` structs and a `repr(u32)` enum of plain numbers, without padding (below).
unsafe impl NoUninit for SdpaFwdParams {}

// The sums of the fields: there is no padding, here or in the kernels.
const _: () = assert!(size_of::<RowTensor>() == 32 && size_of::<RowOutput>() == 48);
const _: () = assert!(size_of::<SideRows>() == 24 && size_of::<PageTable>() == 40);
const _: () = assert!(size_of::<Bias>() == 48 && size_of::<HeadValues>() == 24);
const _: () = assert!(size_of::<ScoreParams>() == 16 + 24 + 8 + 24 + 48);
const _: () = assert!(size_of::<Divisor>() == 16 && size_of::<Heads>() == 4 * 4 + 2 * 16);
const _: () = assert!(
    SdpaFwdParams::BYTES
        == 4 * 32
            + 3 * 48
            + 24
            + 2 * 40
            + 2 * 24
            + size_of::<ScoreParams>()
            + 48
            + 16
            + 3 * 8
            + 4 * 4
);
