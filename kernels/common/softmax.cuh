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

// Of the keys seen so far. `max_log2`, the greatest score times log2(e) or one that is not far
// below it, is the same in all lanes of a quad, `sum` each lane's own share.
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

// How scores become weights.
struct Weighing {
    float scale_log2;  // above 0
    float lag_log2;    // from 0: how far the maximum may stay behind the greatest score
};

// The maximum and the weights of one row of a tile, relative to it: 2^((score - max) * scale_log2).
// Returns the factor of what was summed before, 1 where the maximum stays.
//
// A maximum that follows every score multiplies all of `out` in nearly every tile. One that stays
// until it would be left behind by more than lag_log2 multiplies it in the first tiles alone, and
// weights are at most 2^lag_log2. (The idea: FlashAttention-4.)
//
// kMayHideAll: a row may have seen no key yet. The maximum is then -inf, and 0 stands for it, for
// -inf - -inf would be NaN.
template <bool kMayHideAll, int kRowBlocks, int kColumns>
__device__ __forceinline__ float weigh_row(const Weighing& weighing, int block, int half,
                                           Fragments<kRowBlocks, kColumns>& scores,
                                           RowStats<kRowBlocks>& stats) {
    const int at = 2 * half;
    float max = scores[block][0][at];
#pragma unroll
    for (int column = 0; column < kColumns / 8; ++column) {
        max = fmaxf(max, fmaxf(scores[block][column][at], scores[block][column][at + 1]));
    }
    // Rounded as a product, not fused with differences: the factor of a maximum that stays must be
    // 1, or a thousand tiles would multiply what it is off by.
    const float tile_max_log2 = __fmul_rn(quad_max(max), weighing.scale_log2);
    const float old_log2 = stats.max_log2[block][half];
    const float max_log2 = tile_max_log2 > old_log2 + weighing.lag_log2 ? tile_max_log2 : old_log2;
    const float shift = kMayHideAll && max_log2 == negative_infinity() ? 0.0f : max_log2;
    const float factor = exp2_approx(old_log2 - shift);
    // Of this tile alone: added one by one to a sum of thousands of tiles, small weights would lose
    // their last bits.
    float sum = 0.0f;
#pragma unroll
    for (int column = 0; column < kColumns / 8; ++column) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            float& score = scores[block][column][at + odd];
            score = exp2_approx(score * weighing.scale_log2 - shift);
            sum += score;
        }
    }
    stats.max_log2[block][half] = max_log2;
    stats.sum[block][half] = stats.sum[block][half] * factor + sum;
    return factor;
}

// Turns a tile of scores into weights, and multiplies `out` by what the maxima have changed. All
// lanes of the warp call it.
template <bool kMayHideAll, int kRowBlocks, int kColumns, int kOutColumns>
__device__ __forceinline__ void softmax_step(const Weighing& weighing,
                                             Fragments<kRowBlocks, kColumns>& scores,
                                             RowStats<kRowBlocks>& stats,
                                             Fragments<kRowBlocks, kOutColumns>& out) {
    float factor[kRowBlocks][2];
    bool any_changes = false;
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            factor[block][half] =
                weigh_row<kMayHideAll, kRowBlocks, kColumns>(weighing, block, half, scores, stats);
            any_changes |= factor[block][half] != 1.0f;
        }
    }
    if (!__any_sync(kFullWarp, any_changes)) return;
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
        for (int column = 0; column < kOutColumns / 8; ++column) {
#pragma unroll
            for (int at = 0; at < 4; ++at) out[block][column][at] *= factor[block][at / 2];
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
