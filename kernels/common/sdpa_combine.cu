// Merges what the pieces of cut units have left: the last kernel of a plan that cuts units.
//
// Block x of the grid looks at the place where block x of the attention kernel begins. Where that
// is inside a unit, and no block before it has its begin there, it merges that unit: a warp takes a
// row, its lanes the columns, and the pieces come in the order of their blocks, so that results are
// the same bits every time. Blocks along y share the rows.

#include "common/math.cuh"
#include "common/outputs.cuh"
#include "common/ptx.cuh"
#include "common/ranges.cuh"
#include "common/scores.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/softmax.cuh"
#include "common/types.cuh"
#include "common/units.cuh"
#include "common/work_list.cuh"
#include "config.cuh"

namespace frazil {

struct CombineParams {
    SdpaFwdParams op;
    Schedule schedule;
    i64 num_blocks;   // of the attention kernel
    i32 block_m;      // rows of its tile
    i32 band_tokens;  // queries of a band
};

static_assert(sizeof(CombineParams) == Config::kParamsBytes,
              "kParamsBytes: host and kernel disagree on the parameters");

// Columns that a lane has of a row: two times four, 128 apart.
inline constexpr int kLaneParts = 2;
inline constexpr int kPartColumns = 4;
inline constexpr int kPartStride = kWarpSize * kPartColumns;

struct RowSums {
    float max_log2;
    float sum;
    float out[kLaneParts][kPartColumns];
};

__device__ __forceinline__ float4 load_part(const float* row, i32 part, i32 num_columns) {
    const i32 column = part * kPartStride + lane_idx() * kPartColumns;
    return column < num_columns ? *reinterpret_cast<const float4*>(row + column)
                                : float4{0.0f, 0.0f, 0.0f, 0.0f};
}

// Adds a piece to the sums of a row: both are relative to greatest scores of their own.
__device__ __forceinline__ void add_piece(const CombineParams& params, i64 slot, i32 row,
                                          RowSums& sums) {
    const i64 at = slot * params.block_m + row;
    const float2 stats = params.schedule.partials.stats[at];
    const float* const out = params.schedule.partials.out + at * params.op.head_dim_v;
    const float max = fmaxf(sums.max_log2, stats.x);
    // No key in either: 0 stands for the maximum, for -inf - -inf would be NaN.
    const float shift = max == negative_infinity() ? 0.0f : max;
    const float old_weight = exp2_approx(sums.max_log2 - shift);
    const float weight = exp2_approx(stats.x - shift) * stats.y;
    sums.max_log2 = max;
    sums.sum = sums.sum * old_weight + weight;
#pragma unroll
    for (int part = 0; part < kLaneParts; ++part) {
        const float4 values = load_part(out, part, params.op.head_dim_v);
        float (&own)[kPartColumns] = sums.out[part];
        own[0] = own[0] * old_weight + values.x * weight;
        own[1] = own[1] * old_weight + values.y * weight;
        own[2] = own[2] * old_weight + values.z * weight;
        own[3] = own[3] * old_weight + values.w * weight;
    }
}

// Stores four columns of O.
__device__ __forceinline__ void store_part(OutputType type, u64 row, i32 column,
                                           const float (&values)[kPartColumns]) {
    switch (type) {
        case OutputType::kF16:
            *reinterpret_cast<uint2*>(row + column * 2) =
                uint2{pack_rn(values[0], values[1], F16{}), pack_rn(values[2], values[3], F16{})};
            break;
        case OutputType::kBf16:
            *reinterpret_cast<uint2*>(row + column * 2) =
                uint2{pack_rn(values[0], values[1], Bf16{}), pack_rn(values[2], values[3], Bf16{})};
            break;
        case OutputType::kF32:
            *reinterpret_cast<float4*>(row + column * 4) =
                float4{values[0], values[1], values[2], values[3]};
            break;
    }
}

// Finishes one row: the sink, what is asked for of the row, and O.
__device__ __forceinline__ void store_row(const CombineParams& params, const OutputRows& outputs,
                                          const RowPlace& place, const RowSums& sums) {
    const SdpaFwdParams& op = params.op;
    const float sink = op.sink.data != nullptr
                           ? op.sink.data[place.head * op.sink.head_stride] * kLog2E
                           : negative_infinity();
    const RowResult result = finish_row(sums.max_log2, sums.sum, sink);
    if (lane_idx() == 0) store_row_outputs(op, outputs, place, result);
    const i64 at = row_offset(place, op.o.row_stride, op.o.head_stride);
    const u64 row = outputs.o + static_cast<u64>(at) * element_bytes(op.o_type);
#pragma unroll
    for (int part = 0; part < kLaneParts; ++part) {
        const i32 column = part * kPartStride + lane_idx() * kPartColumns;
        if (column >= op.head_dim_v) continue;
        float values[kPartColumns];
#pragma unroll
        for (int idx = 0; idx < kPartColumns; ++idx) {
            values[idx] = result.is_empty ? 0.0f : sums.out[part][idx] * result.factor;
        }
        store_part(op.o_type, row, column, values);
    }
}

__device__ __forceinline__ void combine(const CombineParams& params, const Division& division,
                                        const DividedUnit& divided) {
    const Unit unit = listed_unit(params.op, params.schedule, divided.band_idx, divided.head_unit,
                                  params.band_tokens);
    const OutputRows outputs = output_rows(params.op, unit);
    const i32 num_warps = static_cast<i32>(gridDim.y) * (Config::kNumThreads / kWarpSize);
    i32 row = static_cast<i32>(blockIdx.y) * (Config::kNumThreads / kWarpSize) + warp_idx();
    for (; row < params.block_m; row += num_warps) {
        const RowPlace place = row_place(params.op, unit, row);
        if (!place.is_live) continue;
        RowSums sums{negative_infinity(), 0.0f, {}};
#pragma unroll 4
        for (u32 block = divided.first_block; block <= divided.last_block; ++block) {
            const LeftPiece left = left_piece(division, divided, block);
            if (left.is_left) add_piece(params, left.slot, row, sums);
        }
        store_row(params, outputs, place, sums);
    }
}

}  // namespace frazil

extern "C" __global__ void __launch_bounds__(frazil::Config::kNumThreads)
    frazil_sdpa_combine(const __grid_constant__ frazil::CombineParams params) {
    using namespace frazil;
    const i64* const prefix = params.schedule.partials.prefix;
    const i32 num_bands = static_cast<i32>(params.schedule.header->num_bands);
    const i64 num_head_units = params.schedule.head_units.divisor;
    const Division places =
        division(prefix[num_bands] * num_head_units, static_cast<u32>(params.num_blocks));
    const i64 place = first_place(places, blockIdx.x);
    if (place >= places.num_places) return;
    const DividedUnit unit = unit_of_place(places, prefix, num_bands, num_head_units, place);
    // The first cut inside a unit is that of the block after the one where the unit begins. Behind
    // the unit's first place, and the only one, it leaves the tiles whole: that block has stored
    // the rows.
    if (place == unit.begin || blockIdx.x != unit.first_block + 1) return;
    if (place == unit.begin + 1 && unit.last_block == blockIdx.x) return;
    combine(params, places, unit);
}
