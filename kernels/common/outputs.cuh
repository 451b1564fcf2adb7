#pragma once
// What attention forward writes: one value for each row and head, and the rows past a length.

#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/scores.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/softmax.cuh"
#include "common/types.cuh"

namespace frazil {

__device__ __forceinline__ float* row_output_at(const RowOutput& output, i64 batch_idx, i32 start,
                                                i32 row, i32 head) {
    return output.data + batch_idx * output.batch_stride + start * output.start_stride +
           row * output.row_stride + head * output.head_stride;
}

__device__ __forceinline__ bool is_by_sequence(const RowOutput& output) {
    return output.start_stride == 0;
}

__device__ __forceinline__ u64 row_address(const RowTensor& tensor, i64 batch_idx, i64 row,
                                           i32 head, u32 element_bytes) {
    const i64 at =
        batch_idx * tensor.batch_stride + row * tensor.row_stride + head * tensor.head_stride;
    return tensor.data + static_cast<u64>(at) * element_bytes;
}

// Where the outputs of a unit begin: the address of the row of its first query and first head.
struct OutputRows {
    u64 o;
    float* lse;  // null where there is none; so of the others
    float* max;
    float* sum_exp;
};

__device__ __forceinline__ bool has_row_outputs(const OutputRows& outputs) {
    return outputs.lse != nullptr || outputs.max != nullptr || outputs.sum_exp != nullptr;
}

__device__ __forceinline__ float* first_of(const RowOutput& output, const Unit& unit) {
    if (output.data == nullptr) return nullptr;
    return row_output_at(output, unit.batch_idx, unit.q.start, unit.q_begin, unit.first_head);
}

__device__ __forceinline__ OutputRows output_rows(const SdpaFwdParams& params, const Unit& unit) {
    const u32 bytes = params.o_type == OutputType::kF32 ? 4 : 2;
    return {row_address(params.o, unit.batch_idx, i64{unit.q.start} + unit.q_begin, unit.first_head,
                        bytes),
            first_of(params.lse, unit), first_of(params.max, unit), first_of(params.sum_exp, unit)};
}

// Elements from the first row and head of a unit to a row of the tile.
__device__ __forceinline__ i64 row_offset(const RowPlace& place, i64 row_stride, i64 head_stride) {
    return static_cast<u32>(place.token) * row_stride +
           static_cast<u32>(place.in_run) * head_stride;
}

// LSE, max and sum-exp of one row, in natural units but for an LSE of base 2.
__device__ __forceinline__ void store_row_outputs(const SdpaFwdParams& params,
                                                  const OutputRows& outputs, const RowPlace& place,
                                                  const RowResult& row) {
    const auto store = [&](const RowOutput& output, float* first, float value) {
        first[row_offset(place, output.row_stride, output.head_stride)] = value;
    };
    if (outputs.lse != nullptr) {
        // Without a key or a sink -inf + -inf.
        const float lse_log2 = row.max_log2 + log2_approx(row.sum);
        store(params.lse, outputs.lse, params.lse_is_base2 != 0 ? lse_log2 : lse_log2 * kLn2);
    }
    if (outputs.max != nullptr) store(params.max, outputs.max, row.max_log2 * kLn2);
    if (outputs.sum_exp != nullptr) store(params.sum_exp, outputs.sum_exp, row.sum);
}

__device__ __forceinline__ u32 element_bytes(OutputType type) {
    return type == OutputType::kF32 ? 4 : 2;
}

// Rows of a sequence and a head that are filled at a time, by one warp.
inline constexpr i32 kFillRows = 32;

// Zeros in rows first..end of O, 16 bytes a lane: rows are multiples of 16 bytes.
__device__ __forceinline__ void fill_o(const SdpaFwdParams& params, i64 batch_idx, i32 head,
                                       i32 first, i32 end) {
    const u32 bytes = element_bytes(params.o_type);
    const i32 row_chunks = params.head_dim_v * static_cast<i32>(bytes) / 16;
    // Short rows are stored several at a time.
    const i32 rows_at_once = max_of(kWarpSize / row_chunks, 1);
    const i32 lane_row = rows_at_once > 1 ? lane_idx() / row_chunks : 0;
    const i32 first_chunk = lane_idx() - lane_row * row_chunks;
    if (lane_row >= rows_at_once) return;
    u64 address =
        row_address(params.o, batch_idx, first + lane_row, head, bytes) + first_chunk * 16;
    const u64 step_bytes = static_cast<u64>(params.o.row_stride) * bytes * rows_at_once;
#pragma unroll 1
    for (i32 row = first + lane_row; row < end; row += rows_at_once) {
        for (i32 chunk = first_chunk; chunk < row_chunks; chunk += kWarpSize) {
            *reinterpret_cast<uint4*>(address + (chunk - first_chunk) * 16) = uint4{0, 0, 0, 0};
        }
        address += step_bytes;
    }
}

__device__ __forceinline__ void fill_row_output(const RowOutput& output, float value, i64 batch_idx,
                                                i32 head, i32 first, i32 end) {
    if (output.data == nullptr || !is_by_sequence(output)) return;
    const i32 row = first + lane_idx();
    if (row < min_of<i64>(end, output.num_rows)) {
        *row_output_at(output, batch_idx, 0, row, head) = value;
    }
}

// Queries of a sequence.
struct QueryLength {
    i64 batch_idx;
    i32 len;
};

// Rows of every sequence in the tensor that has most of those whose rows past a length are filled;
// 0: none has.
__device__ __forceinline__ i64 rows_to_fill(const SdpaFwdParams& params) {
    i64 num_rows = params.fills_o != 0 ? params.q_rows.num_rows : 0;
    for (const RowOutput* output : {&params.lse, &params.max, &params.sum_exp}) {
        if (output->data != nullptr && is_by_sequence(*output)) {
            num_rows = max_of(num_rows, output->num_rows);
        }
    }
    return num_rows;
}

__device__ __forceinline__ i64 num_fill_parts(i64 num_rows, i32 len) {
    return divide_up<i64>(max_of<i64>(num_rows - len, 0), kFillRows);
}

// Jobs of all sequences of a batch of which each lane of a warp has one. All lanes call it.
__device__ __forceinline__ i64 count_fill_jobs(const SdpaFwdParams& params, bool is_live, i32 len) {
    const i64 num_rows = rows_to_fill(params);
    if (num_rows == 0) return 0;
    const i64 own = is_live ? num_fill_parts(num_rows, len) * params.heads.num_q_heads : 0;
    return __shfl_sync(kFullWarp, warp_inclusive_sum(own), kWarpSize - 1);
}

// Jobs of filling that a warp has which had nothing else to do, before all warps share the others.
inline constexpr i64 kHeadStart = 4;

// Which jobs a warp has: those of a head start, where it has one, then every so many.
struct FillShare {
    i64 next;       // in the head start
    i64 idle_step;  // warps that have a head start
    i64 warp;       // of all
    i64 num_warps;

    __device__ __forceinline__ i64 end_of_start() const { return kHeadStart * idle_step; }

    __device__ __forceinline__ i64 first() const {
        return next < idle_step ? next : end_of_start() + warp;
    }

    __device__ __forceinline__ i64 after(i64 job) const {
        if (job >= end_of_start()) return job + num_warps;
        return job + idle_step < end_of_start() ? job + idle_step : end_of_start() + warp;
    }
};

// The share of a warp of a block, of which those from `first_idle` on had no unit.
__device__ __forceinline__ FillShare fill_share(u32 first_idle, i32 num_block_warps) {
    const u32 num_idle = first_idle < gridDim.x ? gridDim.x - first_idle : 0;
    const u32 warp_in_block = forgotten(threadIdx.x) / kWarpSize;
    const i64 warp = i64{blockIdx.x} * num_block_warps + warp_in_block;
    const i64 num_idle_warps = i64{num_idle} * num_block_warps;
    const i64 first = i64{first_idle} * num_block_warps;
    return {warp >= first ? warp - first : num_idle_warps, num_idle_warps, warp,
            i64{gridDim.x} * num_block_warps};
}

// Rows past the length of their sequence, where a tensor has such rows: O = +0, LSE and max -inf,
// sum-exp 0. `length_at(i)` is the i-th sequence, in any order. All warps of the grid share the
// work. Nothing else writes these rows, so it may run at any time.
template <class LengthAt>
__device__ __forceinline__ void fill_rows_past_lengths(const SdpaFwdParams& params,
                                                       const FillShare& share,
                                                       const LengthAt& length_at) {
    const i64 num_rows = rows_to_fill(params);
    // Jobs are numbered through all sequences, so that every warp has as many as any other.
    i64 next = share.first();
    i64 num_before = 0;
    for (i64 first = 0; first < params.batch; first += kWarpSize) {
        const bool is_live = first + lane_idx() < params.batch;
        const QueryLength own = is_live ? length_at(first + lane_idx()) : QueryLength{0, 0};
        const i32 own_len = is_live ? own.len : static_cast<i32>(num_rows);
        u32 with_rows = __ballot_sync(kFullWarp, own_len < num_rows);
        while (with_rows != 0) {
            const i32 lane = __ffs(static_cast<int>(with_rows)) - 1;
            with_rows &= with_rows - 1;
            const i32 len = __shfl_sync(kFullWarp, own_len, lane);
            const i64 batch_idx = __shfl_sync(kFullWarp, own.batch_idx, lane);
            const i64 num_jobs = num_fill_parts(num_rows, len) * params.heads.num_q_heads;
            for (; next < num_before + num_jobs; next = share.after(next)) {
                // Warps that run together fill the same rows of all heads, which mostly lie side by
                // side.
                const i64 job = next - num_before;
                const i64 part = job / params.heads.num_q_heads;
                const i32 head = static_cast<i32>(job - part * params.heads.num_q_heads);
                const i32 first_row = static_cast<i32>(len + part * kFillRows);
                const i32 end = static_cast<i32>(min_of<i64>(first_row + kFillRows, num_rows));
                if (params.fills_o != 0) {
                    fill_o(params, batch_idx, head, first_row,
                           static_cast<i32>(min_of<i64>(end, params.q_rows.num_rows)));
                }
                const float low = negative_infinity();
                fill_row_output(params.lse, low, batch_idx, head, first_row, end);
                fill_row_output(params.max, low, batch_idx, head, first_row, end);
                fill_row_output(params.sum_exp, 0.0f, batch_idx, head, first_row, end);
            }
            num_before += num_jobs;
        }
    }
}

}  // namespace frazil
