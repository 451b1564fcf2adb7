#pragma once
// From sums to what is stored: the end of a unit.

#include "common/math.cuh"
#include "common/outputs.cuh"
#include "common/ptx.cuh"
#include "common/scores.cuh"
#include "common/smem_tile.cuh"
#include "common/softmax.cuh"
#include "common/units.cuh"
#include "sm80/traits.cuh"

namespace frazil {

// Multiplies a row of O; by 0, it is +0 whatever it was.
template <class T>
__device__ __forceinline__ void scale_row(int block, int half, float factor,
                                          typename T::Output& out) {
#pragma unroll
    for (int column = 0; column < T::kHeadDimV / 8; ++column) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            float& value = out[block][column][2 * half + odd];
            value = factor == 0.0f ? 0.0f : value * factor;
        }
    }
}

// Divides by the sums, stores what is asked for of each row, and leaves in `out` what O gets.
template <class T>
__device__ __forceinline__ void finish_rows(const SdpaFwdParams& params, const Unit& unit,
                                            const OutputRows& outputs,
                                            const typename T::Stats& stats,
                                            typename T::Output& out) {
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 first_row = thread / kWarpSize * T::kWarpRows + thread % kWarpSize / 4;
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const RowPlace place = row_place(params, unit, first_row + block * 16 + half * 8);
            const float sink = params.sink.data != nullptr && place.is_live
                                   ? params.sink.data[place.head * params.sink.head_stride] * kLog2E
                                   : negative_infinity();
            const RowResult row =
                finish_row(stats.max_log2[block][half], quad_sum(stats.sum[block][half]), sink);
            if (place.is_live && lane_idx() % 4 == 0) {
                store_row_outputs(params, outputs, place, row);
            }
            scale_row<T>(block, half, row.factor, out);
        }
    }
}

// Address of a row of O.
template <class T, class OutElement>
__device__ __forceinline__ u64 o_row(const SdpaFwdParams& params, const SharedStorage<T>& shared,
                                     const RowPlace& place) {
    const i64 at = row_offset(place, params.o.row_stride, params.o.head_stride);
    return shared.outputs.o + static_cast<u64>(at) * sizeof(OutElement);
}

// Stores O as f32, from where it lies.
template <class T>
__device__ __forceinline__ void store_o_f32(const SdpaFwdParams& params,
                                            const SharedStorage<T>& shared,
                                            const typename T::Output& out) {
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 first_row = thread / kWarpSize * T::kWarpRows + thread % kWarpSize / 4;
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const RowPlace place =
                row_place(params, shared.unit, first_row + block * 16 + half * 8);
            if (!place.is_live) continue;
            const u64 row = o_row<T, float>(params, shared, place);
#pragma unroll
            for (int column = 0; column < T::kHeadDimV / 8; ++column) {
                const i32 at = column * 8 + lane_idx() % 4 * 2;
                if (at >= params.head_dim_v) continue;
                *reinterpret_cast<float2*>(row + at * sizeof(float)) =
                    float2{out[block][column][2 * half], out[block][column][2 * half + 1]};
            }
        }
    }
}

// Stores O in 16 bits by way of shared memory, where Q was: the rows of a warp are read by that
// warp alone, so no other one waits.
template <class T, class OutElement>
__device__ __forceinline__ void store_o_16(const SdpaFwdParams& params, SharedStorage<T>& shared,
                                           const typename T::Output& out) {
    constexpr int kRowChunks = T::kHeadDimV / kChunkColumns;
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 warp_row = thread / kWarpSize * T::kWarpRows;
    const i32 lane = thread % kWarpSize;
    __syncwarp();
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 row = warp_row + block * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int column = 0; column < T::kHeadDimV / 8; ++column) {
                const u32 at = chunk_offset<T::kBlockM>(row, column) + lane % 4 * 4;
                *reinterpret_cast<u32*>(shared.q + at) = pack_rn(
                    out[block][column][2 * half], out[block][column][2 * half + 1], OutElement{});
            }
        }
    }
    __syncwarp();
    // Heads that are not packed have rows at one distance, and most kernels are launched for such.
    const Unit& unit = shared.unit;
    const bool is_packed = params.heads.pack.divisor != 1;
    const i32 num_live = unit.q_end - unit.q_begin;
#pragma unroll 4
    for (int idx = lane; idx < T::kWarpRows * kRowChunks; idx += kWarpSize) {
        const i32 row = warp_row + idx / kRowChunks;
        const i32 chunk = idx % kRowChunks;
        RowPlace place{row, 0, 0, 0, row < num_live};
        if (is_packed) place = row_place(params, unit, row);
        if (!place.is_live || chunk * kChunkColumns >= params.head_dim_v) continue;
        const u64 address = o_row<T, OutElement>(params, shared, place);
        *reinterpret_cast<uint4*>(address + chunk * 16) =
            *reinterpret_cast<const uint4*>(shared.q + chunk_offset<T::kBlockM>(row, chunk));
    }
}

// Leaves what a piece of a unit has seen, for frazil_sdpa_combine: rows of O divided by their own
// sums, and the greatest score and the sum of each row. The sink is left to it.
template <class T>
__device__ __forceinline__ void store_partial(const SdpaFwdParams& params, const Partials& partials,
                                              const SharedStorage<T>& shared,
                                              const typename T::Stats& stats,
                                              typename T::Output& out) {
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 first_row = thread / kWarpSize * T::kWarpRows + thread % kWarpSize / 4;
    const i32 lane_column = thread % 4 * 2;
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const i32 row_in_tile = first_row + block * 16 + half * 8;
            const float sum = quad_sum(stats.sum[block][half]);
            const RowResult row = finish_row(stats.max_log2[block][half], sum, negative_infinity());
            if (!row_place(params, shared.unit, row_in_tile).is_live) continue;
            const i64 at = shared.slot * T::kBlockM + row_in_tile;
            if (lane_column == 0) partials.stats[at] = float2{row.max_log2, row.sum};
            float* const o = partials.out + at * params.head_dim_v;
#pragma unroll
            for (int column = 0; column < T::kHeadDimV / 8; ++column) {
                if (column * 8 + lane_column >= params.head_dim_v) continue;
                const float (&pair)[4] = out[block][column];
                *reinterpret_cast<float2*>(o + column * 8 + lane_column) =
                    row.is_empty
                        ? float2{0.0f, 0.0f}
                        : float2{pair[2 * half] * row.factor, pair[2 * half + 1] * row.factor};
            }
        }
    }
}

}  // namespace frazil
