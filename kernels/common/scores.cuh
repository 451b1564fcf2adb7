#pragma once
// From q . k to the scores that softmax takes, in the fragments of softmax.cuh: modifiers, and what
// is hidden.

#include "common/band.cuh"
#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/softmax.cuh"
#include "common/types.cuh"
#include "common/units.cuh"

namespace frazil {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// tanh by exponentials, to about 2^-22 of 1: tanh.approx has 2^-11 of the value, which a soft cap
// of 50 would make 2% of a weight.
__device__ __forceinline__ float tanh_exp(float x) {
    return 1.0f - 2.0f * rcp_approx(1.0f + exp2_approx(2.0f * kLog2E * x));
}

__device__ __forceinline__ float bias_at(const Bias& bias, u64 row, i32 column, F16) {
    const u64 at = static_cast<u64>(column * bias.column_stride);
    if (bias.is_f32 != 0) return *reinterpret_cast<const float*>(row + at * 4);
    return to_f32(*reinterpret_cast<const F16*>(row + at * 2));
}

__device__ __forceinline__ float bias_at(const Bias& bias, u64 row, i32 column, Bf16) {
    const u64 at = static_cast<u64>(column * bias.column_stride);
    if (bias.is_f32 != 0) return *reinterpret_cast<const float*>(row + at * 4);
    return to_f32(*reinterpret_cast<const Bf16*>(row + at * 2));
}

// Scores of one row times log2(e): scale, soft cap, bias, ALiBi, in this order.
template <class Element>
struct ScoreModifier {
    const ScoreParams& params;
    KeyRange visible;
    u64 bias_row;      // address; 0: no bias
    float slope;       // 0: no ALiBi
    i32 alibi_origin;  // the key at distance 0

    __device__ __forceinline__ float operator()(float product, i32 column) const {
        float score = product * params.scale;
        if (params.soft_cap != 0.0f) {
            score = params.soft_cap * tanh_exp(score * params.inv_soft_cap);
        }
        // What is hidden is not read: a row of the tensor ends with the sequence.
        if (bias_row != 0 && column >= visible.begin && column < visible.end) {
            score += bias_at(params.bias, bias_row, column, Element{});
        }
        score -= slope * static_cast<float>(abs(column - alibi_origin));
        return score * kLog2E;
    }
};

template <class Element>
__device__ __forceinline__ ScoreModifier<Element> score_modifier(const SdpaFwdParams& params,
                                                                 const Unit& unit,
                                                                 const RowPlace& place) {
    const ScoreParams& score = params.score;
    const i32 from_corner = unit.kv.len - unit.q.len;
    ScoreModifier<Element> modifier{score, {0, 0}, 0, 0.0f, 0};
    if (!place.is_live) return modifier;
    const i32 off = score.band.is_bottom_right != 0 ? from_corner : 0;
    modifier.visible = visible_keys(score.band, place.pos, off, unit.kv.len);
    if (score.bias.data != 0) {
        const i64 row = unit.batch_idx * score.bias.batch_stride +
                        place.head * score.bias.head_stride + place.pos * score.bias.row_stride;
        modifier.bias_row =
            score.bias.data + static_cast<u64>(row) * (score.bias.is_f32 != 0 ? 4 : 2);
    }
    if (score.alibi.data != nullptr) {
        modifier.slope = score.alibi.data[unit.batch_idx * score.alibi.batch_stride +
                                          place.head * score.alibi.head_stride];
        modifier.alibi_origin = place.pos + (score.alibi_is_bottom_right != 0 ? from_corner : 0);
    }
    return modifier;
}

// Modifies a tile whose first key is `first_column`; `first_row` is the warp's first row of the
// band.
template <class Element, int kRowBlocks, int kColumns>
__device__ __forceinline__ void modify_scores(const SdpaFwdParams& params, const Unit& unit,
                                              i32 first_row, i32 first_column,
                                              Fragments<kRowBlocks, kColumns>& scores) {
    const i32 lane = static_cast<i32>(forgotten(threadIdx.x)) % kWarpSize;
    const i32 row_in_block = lane / 4;
    const i32 lane_column = first_column + lane % 4 * 2;
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const i32 row = first_row + block * 16 + half * 8 + row_in_block;
            const auto modifier =
                score_modifier<Element>(params, unit, row_place(params, unit, row));
#pragma unroll
            for (int column = 0; column < kColumns / 8; ++column) {
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    float& score = scores[block][column][2 * half + odd];
                    score = modifier(score, lane_column + column * 8 + odd);
                }
            }
        }
    }
}

// Hides what each row of a tile does not see, by a select: what is hidden may be NaN.
template <int kRowBlocks, int kColumns>
__device__ __forceinline__ void hide_scores(const SdpaFwdParams& params, const Unit& unit,
                                            i32 first_row, i32 first_column,
                                            Fragments<kRowBlocks, kColumns>& scores) {
    const i32 lane = static_cast<i32>(forgotten(threadIdx.x)) % kWarpSize;
    const i32 row_in_block = lane / 4;
    const i32 lane_column = first_column + lane % 4 * 2;
    const i32 off = band_offset(params.score.band, unit.q.len, unit.kv.len);
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const i32 row = first_row + block * 16 + half * 8 + row_in_block;
            const i32 pos = unit.q_begin + divide(row, params.heads.pack).quotient;
            const KeyRange visible = visible_keys(params.score.band, pos, off, unit.kv.len);
            const i32 begin = visible.begin - lane_column;
            const i32 end = visible.end - lane_column;
#pragma unroll
            for (int column = 0; column < kColumns / 8; ++column) {
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    const i32 key = column * 8 + odd;
                    float& score = scores[block][column][2 * half + odd];
                    score = key >= begin && key < end ? score : negative_infinity();
                }
            }
        }
    }
}

}  // namespace frazil
