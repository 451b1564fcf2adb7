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

// Multiplies rows of O; by 0, they are +0 whatever they were.
template <class T>
__device__ __forceinline__ void scale_rows(const float (&factor)[T::kRowBlocks][2],
                                           typename T::Output& out) {
    bool any_is_zero = false;
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
        any_is_zero |= factor[block][0] == 0.0f || factor[block][1] == 0.0f;
#pragma unroll
        for (int column = 0; column < T::kHeadDimV / 8; ++column) {
#pragma unroll
            for (int at = 0; at < 4; ++at) out[block][column][at] *= factor[block][at / 2];
        }
    }
    // Few warps have such a row, and the others have no select for every value.
    if (!__any_sync(kFullWarp, any_is_zero)) return;
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int column = 0; column < T::kHeadDimV / 8; ++column) {
#pragma unroll
            for (int at = 0; at < 4; ++at) {
                if (factor[block][at / 2] == 0.0f) out[block][column][at] = 0.0f;
            }
        }
    }
}

// Stores what is asked for of each row, and leaves by what `out` is to be multiplied where there is
// a sink. `sums` are over all lanes of a row.
template <class T>
__device__ __forceinline__ void finish_values(const SdpaFwdParams& params, const Unit& unit,
                                              const OutputRows& outputs,
                                              const typename T::Stats& stats,
                                              const float (&sums)[T::kRowBlocks][2],
                                              float (&factor)[T::kRowBlocks][2]) {
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
            const RowResult row = finish_row(stats.max_log2[block][half], sums[block][half], sink);
            if (place.is_live && lane_idx() % 4 == 0) {
                store_row_outputs(params, outputs, place, row);
            }
            factor[block][half] = row.factor;
        }
    }
}

// Divides by the sums, stores what is asked for of each row, and leaves in `out` what O gets.
template <class T>
__device__ __forceinline__ void finish_rows(const SdpaFwdParams& params, const Unit& unit,
                                            const OutputRows& outputs,
                                            const typename T::Stats& stats,
                                            typename T::Output& out) {
    float sums[T::kRowBlocks][2];
    float factor[T::kRowBlocks][2];
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float sum = quad_sum(stats.sum[block][half]);
            sums[block][half] = sum;
            factor[block][half] = sum == 0.0f ? 0.0f : rcp_approx(sum);
        }
    }
    // Most graphs have neither a sink nor values of rows.
    if (params.sink.data != nullptr || has_row_outputs(outputs)) {
        finish_values<T>(params, unit, outputs, stats, sums, factor);
    }
    scale_rows<T>(factor, out);
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

// Leaves O in 16 bits where Q was: the rows of a warp are read by that warp alone.
template <class T, class OutElement>
__device__ __forceinline__ void stage_o_16(SharedStorage<T>& shared,
                                           const typename T::Output& out) {
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 first_row = thread / kWarpSize * T::kWarpRows + thread % kWarpSize / 4;
    const u32 first = chunk_offset<T::kBlockM>(first_row, 0) + thread % 4 * 4;
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int column = 0; column < T::kHeadDimV / 8; ++column) {
                const u32 at = advance<T::kBlockM>(first, block * 16 + half * 8, column);
                *reinterpret_cast<u32*>(shared.q + at) = pack_rn(
                    out[block][column][2 * half], out[block][column][2 * half + 1], OutElement{});
            }
        }
    }
}

// Stores O in 16 bits by way of shared memory: eight lanes store 128 bytes of a row, and no warp
// waits for another.
template <class T, class OutElement>
__device__ __forceinline__ void store_o_16(const SdpaFwdParams& params, SharedStorage<T>& shared,
                                           const typename T::Output& out) {
    constexpr i32 kRowStep = kWarpSize / 8;
    __syncwarp();
    stage_o_16<T, OutElement>(shared, out);
    __syncwarp();
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 first_row = thread / kWarpSize * T::kWarpRows + thread % kWarpSize / 8;
    const i32 lane_chunk = thread % 8;
    const u32 first = chunk_offset<T::kBlockM>(first_row, lane_chunk);
    // The lane's chunks of the row first_row + step, whose first one goes to `to`.
    const auto store_row = [&](i32 step, u64 to) {
        // Every other step is four rows off in the pattern of eight.
        const u32 from = advance<T::kBlockM>(first, step, step % 8);
#pragma unroll
        for (int slab = 0; slab * kSlabColumns < T::kHeadDimV; ++slab) {
            if ((slab * 8 + lane_chunk) * kChunkColumns >= params.head_dim_v) break;
            *reinterpret_cast<uint4*>(to + slab * kSlabRowBytes) = *reinterpret_cast<const uint4*>(
                shared.q + from + slab * (T::kBlockM * kSlabRowBytes));
        }
    };
    const Unit& unit = shared.unit;
    if (params.heads.pack.divisor == 1) {
        // Heads that are not packed have rows at one distance, and most kernels are launched for
        // such.
        const u64 row_bytes = static_cast<u64>(params.o.row_stride) * sizeof(OutElement);
        const i32 num_live = unit.q_end - unit.q_begin;
        u64 to = shared.outputs.o + row_bytes * static_cast<u32>(first_row) + lane_chunk * 16;
#pragma unroll
        for (i32 step = 0; step < T::kWarpRows; step += kRowStep) {
            if (first_row + step < num_live) store_row(step, to);
            to += row_bytes * kRowStep;
        }
        return;
    }
#pragma unroll 2
    for (i32 step = 0; step < T::kWarpRows; step += kRowStep) {
        const RowPlace place = row_place(params, unit, first_row + step);
        if (place.is_live) {
            store_row(step, o_row<T, OutElement>(params, shared, place) + lane_chunk * 16);
        }
    }
}

// Leaves what a piece of a unit has seen, for frazil_sdpa_combine: rows of O divided by their own
// sums, and the maximum and the sum of each row. The sink is left to it.
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
            const i64 at = shared.slot * partials.slot_rows + row_in_tile;
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
