#pragma once
// Online softmax over tiles of scores that lie in the fragments of mma.m16n8k16 (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023).
//
// Lane 4g + q holds of each block of 16 rows the rows g and g + 8 (`half` 0 and 1), and of each
// block of 8 columns the columns 2q and 2q + 1. A row lies in the four lanes of a quad.

#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/types.cuh"

namespace frazil {

template <int kRowBlocks, int kColumns>
using Fragments = float[kRowBlocks][kColumns / 8][4];

// -inf: what is hidden, and the maximum of nothing.
__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }

// Of the keys seen so far. `max_log2`, the greatest score times log2(e), is the same in all lanes
// of a quad, `sum` each lane's own share.
template <int kRowBlocks>
struct RowStats {
    float max_log2[kRowBlocks][2];
    float sum[kRowBlocks][2];
};

template <int kRowBlocks>
__device__ __forceinline__ void reset(RowStats<kRowBlocks>& stats) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            stats.max_log2[block][half] = negative_infinity();
            stats.sum[block][half] = 0.0f;
        }
    }
}

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, 1));
    return fmaxf(x, __shfl_xor_sync(kFullWarp, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(kFullWarp, x, 1);
    return x + __shfl_xor_sync(kFullWarp, x, 2);
}

// Turns a tile of scores into weights relative to the greatest score so far, 2^((score - max) *
// scale_log2), and multiplies what was summed before by what that maximum has changed: `out` and
// the sums. scale_log2 > 0.
//
// kMayHideAll: a row may have seen no key yet. The maximum is then -inf, and 0 stands for it, for
// -inf - -inf would be NaN.
template <bool kMayHideAll, int kRowBlocks, int kColumns, int kOutColumns>
__device__ __forceinline__ void softmax_step(float scale_log2,
                                             Fragments<kRowBlocks, kColumns>& scores,
                                             RowStats<kRowBlocks>& stats,
                                             Fragments<kRowBlocks, kOutColumns>& out) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int at = 2 * half;
            float max = scores[block][0][at];
#pragma unroll
            for (int column = 0; column < kColumns / 8; ++column) {
                max = fmaxf(max, fmaxf(scores[block][column][at], scores[block][column][at + 1]));
            }
            // Rounded as a product, not fused with differences: the factor of a maximum that stays
            // must be 1, or a thousand tiles would multiply what it is off by.
            const float max_log2 =
                fmaxf(stats.max_log2[block][half], __fmul_rn(quad_max(max), scale_log2));
            const float shift = kMayHideAll && max_log2 == negative_infinity() ? 0.0f : max_log2;
            const float factor = exp2_approx(stats.max_log2[block][half] - shift);
            // Of this tile alone: added one by one to a sum of thousands of tiles, small weights
            // would lose their last bits.
            float sum = 0.0f;
#pragma unroll
            for (int column = 0; column < kColumns / 8; ++column) {
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    float& score = scores[block][column][at + odd];
                    score = exp2_approx(score * scale_log2 - shift);
                    sum += score;
                }
            }
            stats.max_log2[block][half] = max_log2;
            stats.sum[block][half] = stats.sum[block][half] * factor + sum;
#pragma unroll
            for (int column = 0; column < kOutColumns / 8; ++column) {
                out[block][column][at] *= factor;
                out[block][column][at + 1] *= factor;
            }
        }
    }
}

// A row when all keys are seen.
struct RowResult {
    float max_log2;  // greatest score times log2(e), the sink counted; -inf: no key and no sink
    float sum;       // of 2^(score - max) over the same
    float factor;    // of `out`; 0 where no key is seen
    bool is_empty;   // no key is seen: `out` may hold anything
};

// `max_log2` of the keys, `sum` over all of the row's lanes, `sink_log2` -inf where there is none.
__device__ __forceinline__ RowResult finish_row(float max_log2, float sum, float sink_log2) {
    const float max = fmaxf(max_log2, sink_log2);
    const float shift = max == negative_infinity() ? 0.0f : max;
    const float weight = exp2_approx(max_log2 - shift);
    const float total = sum * weight + exp2_approx(sink_log2 - shift);
    // Not by the maximum, which passes over NaN: such a row is NaN, not empty.
    const bool is_empty = sum == 0.0f;
    return {max, total, is_empty ? 0.0f : weight * rcp_approx(total), is_empty};
}

}  // namespace frazil
