#pragma once
// What attention forward takes: tensors by address and strides, and numbers. Mirrored in
// crates/cuda/src/sdpa_fwd/params.rs.
//
// Strides count elements and are 64 bits. What the graph lacks is null, or 0.

#include "common/band.cuh"
#include "common/divide.cuh"
#include "common/math.cuh"
#include "common/seqlens.cuh"
#include "common/types.cuh"

namespace frazil {

// Q, K, V or O. A row lies at
// batch_idx * batch_stride + (start + row) * row_stride + head * head_stride, where `start` is the
// first row of a packed sequence and 0 otherwise, and packed tensors have no batch_stride. In pages
// it is page * batch_stride + row_in_page * row_stride + head * head_stride.
struct RowTensor {
    u64 data;
    i64 batch_stride;
    i64 row_stride;
    i64 head_stride;
};

// LSE, max or sum-exp, f32: as a RowTensor of one column. Of packed queries it may be stored by
// sequence all the same, [B, H, S]; `start_stride` is then 0, else it is row_stride.
struct RowOutput {
    float* data;
    i64 batch_stride;
    i64 start_stride;
    i64 row_stride;
    i64 head_stride;
    i64 num_rows;  // of a sequence, where it is stored by sequence: those past its length are
                   // filled
};

// Rows of the sequences of a side.
struct SideRows {
    const i32* lengths;  // [B], bounded; null: `num_rows` each
    const i32* starts;   // [B]; null: 0
    i64 num_rows;        // of the extents; not of packed sides
};

// Pages of K or of V, int32 [B, P].
struct PageTable {
    const i32* pages;
    i64 batch_stride;
    i64 column_stride;
    i64 num_pages;  // of the pool; 0: no id is right
    u32 error_bit;  // of the error word
    u32 unused;
};

// Added to the scores: [B or 1, Hq or 1, Sq, Skv].
struct Bias {
    u64 data;
    i64 batch_stride;
    i64 head_stride;
    i64 row_stride;
    i64 column_stride;
    u64 is_f32;  // 1: f32; 0: of the type of Q
};

// One f32 for each head of Q, or for each of each sequence.
struct HeadValues {
    const float* data;
    i64 batch_stride;
    i64 head_stride;
};

struct ScoreParams {
    float scale;         // of q . k
    float scale_log2;    // the same times log2(e)
    float soft_cap;      // 0: none
    float inv_soft_cap;  // 0: none
    Band band;
    float lag_log2;             // how far a maximum may stay behind the greatest score: softmax.cuh
    u32 alibi_is_bottom_right;  // the corner that distances are measured from
    HeadValues alibi;
    Bias bias;
};

// Work of one block: one band of queries, the heads of one run of one group.
//
// A group of `group` query heads shares a KV head. `pack` of them are rows of one tile:
// row = token * pack + head. `num_runs` runs make a group; in the last one heads may be lacking.
struct Heads {
    i32 num_q_heads;
    i32 num_kv_heads;
    i32 group;
    i32 num_runs;
    Divisor pack;
    Divisor runs;
};

enum class OutputType : u32 { kF16 = 0, kBf16 = 1, kF32 = 2 };

struct SdpaFwdParams {
    RowTensor q;
    RowTensor k;
    RowTensor v;
    RowTensor o;
    RowOutput lse;
    RowOutput max;
    RowOutput sum_exp;
    HeadValues sink;
    PageTable table_k;
    PageTable table_v;
    SideRows q_rows;
    SideRows kv_rows;
    ScoreParams score;
    Heads heads;
    Divisor page_size;
    u32* error_word;
    u64 fills_o;  // 1: rows of O past the length of their sequence are filled
    i64 batch;
    i32 head_dim_qk;
    i32 head_dim_v;
    OutputType o_type;
    u32 lse_is_base2;
};

// The rows of one sequence.
struct SequenceSide {
    i32 start;
    i32 len;
};

// Bounded rows fit: the capacity of a packed side is an int32, and so is what bounds any other.
__device__ __forceinline__ SequenceSide narrow(SequenceRows rows) {
    return {static_cast<i32>(rows.start), static_cast<i32>(rows.len)};
}

__device__ __forceinline__ SequenceSide sequence_side(const SideRows& side, i64 batch_idx) {
    return {side.starts != nullptr ? side.starts[batch_idx] : 0,
            side.lengths != nullptr ? side.lengths[batch_idx] : static_cast<i32>(side.num_rows)};
}

}  // namespace frazil
