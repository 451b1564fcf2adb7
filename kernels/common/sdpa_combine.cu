// Merges what the pieces of cut units have left: the last kernel of a plan that cuts units.
//
// Block x of the grid has the unit x, or where a list tells of units, the unit in which block x of
// the attention kernel begins, if no block before it begins there. Without a list it works that out
// before it waits for what is in front. Warps share the rows of a unit, and the pieces of a row
// where those are many: each takes a run of them, in the order of their blocks, and the sums of the
// runs are merged in their order. Lanes first read what one piece each has seen, so that all
// weights are known at once; then they take the columns, and rows of O are added without a branch
// that waits for another. What is added to what is the same for the same lengths, and so are the
// bits. Blocks along y share the rows.

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
    i32 band_tokens;  // queries of a band
    u32 unused;
};

static_assert(sizeof(CombineParams) == Config::kParamsBytes,
              "kParamsBytes: host and kernel disagree on the parameters");

// Columns that a lane has of a row: two times four, 128 apart. The host sees to it that a row has
// no more.
inline constexpr int kLaneParts = 2;
inline constexpr int kPartColumns = 4;
inline constexpr int kPartStride = kWarpSize * kPartColumns;

struct RowSums {
    float max_log2;
    float sum;
    float out[kLaneParts][kPartColumns];
};

// Pieces whose rows of O are on their way at once.
inline constexpr int kNumInFlight = Config::kPiecesInFlight;

inline constexpr i32 kNumWarps = Config::kNumThreads / kWarpSize;

// Sums of the runs of pieces, one for each warp.
struct SharedSums {
    float max_log2[kNumWarps];
    float sum[kNumWarps];
    float4 out[kNumWarps][kLaneParts][kWarpSize];
};

__device__ __forceinline__ float4 load_part(const float* row, i32 part, i32 num_columns) {
    const i32 column = part * kPartStride + lane_idx() * kPartColumns;
    return column < num_columns ? *reinterpret_cast<const float4*>(row + column)
                                : float4{0.0f, 0.0f, 0.0f, 0.0f};
}

// What the lanes of a warp hold of up to 32 pieces of one row, one each.
struct LanePiece {
    i32 row_idx;     // of the partial results
    float max_log2;  // -inf where the lane has no piece
    float sum;
};

__device__ __forceinline__ LanePiece lane_piece(const CombineParams& params,
                                                const Division& division, const UnitPlaces& unit,
                                                const PieceBlocks& blocks, u32 block, i32 row) {
    const LeftPiece left = left_piece(division, unit, block);
    if (block > blocks.last || !left.is_left) return {0, negative_infinity(), 0.0f};
    const i32 row_idx = left.slot * static_cast<i32>(params.schedule.partials.slot_rows) + row;
    const float2 stats = params.schedule.partials.stats[row_idx];
    return {row_idx, stats.x, stats.y};
}

// Adds up to 32 pieces to the sums of a row, of which the first `num_pieces` lanes know one each.
// Who weighs nothing is not read: where there is no key, or no piece.
__device__ __forceinline__ void add_pieces(const CombineParams& params, const LanePiece& piece,
                                           i32 num_pieces, RowSums& sums) {
    const float max = fmaxf(sums.max_log2, warp_max(piece.max_log2));
    // No key in any: 0 stands for the maximum, for -inf - -inf would be NaN.
    const float shift = max == negative_infinity() ? 0.0f : max;
    const float old_weight = exp2_approx(sums.max_log2 - shift);
    const float lane_weight = exp2_approx(piece.max_log2 - shift) * piece.sum;
    sums.max_log2 = max;
    sums.sum = sums.sum * old_weight + warp_sum(lane_weight);
#pragma unroll
    for (int part = 0; part < kLaneParts; ++part) {
#pragma unroll
        for (int at = 0; at < kPartColumns; ++at) sums.out[part][at] *= old_weight;
    }
#pragma unroll 1
    for (i32 first = 0; first < num_pieces; first += kNumInFlight) {
        float weights[kNumInFlight];
        float4 values[kNumInFlight][kLaneParts];
#pragma unroll
        for (int idx = 0; idx < kNumInFlight; ++idx) {
            weights[idx] = __shfl_sync(kFullWarp, lane_weight, first + idx);
            const i64 row_idx = __shfl_sync(kFullWarp, piece.row_idx, first + idx);
            const float* const row = params.schedule.partials.out + row_idx * params.op.head_dim_v;
            const i32 num_columns = weights[idx] != 0.0f ? params.op.head_dim_v : 0;
#pragma unroll
            for (int part = 0; part < kLaneParts; ++part) {
                values[idx][part] = load_part(row, part, num_columns);
            }
        }
#pragma unroll
        for (int idx = 0; idx < kNumInFlight; ++idx) {
#pragma unroll
            for (int part = 0; part < kLaneParts; ++part) {
                float (&own)[kPartColumns] = sums.out[part];
                own[0] += values[idx][part].x * weights[idx];
                own[1] += values[idx][part].y * weights[idx];
                own[2] += values[idx][part].z * weights[idx];
                own[3] += values[idx][part].w * weights[idx];
            }
        }
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

// Warps that have the runs of one row: a power of 2 that divides those of a block.
__device__ __forceinline__ i32 warps_per_row(i32 num_pieces) {
    i32 num = 1;
    while (num < kNumWarps && num * kNumInFlight < num_pieces) num *= 2;
    return num;
}

__device__ __forceinline__ void share_sums(const RowSums& sums, SharedSums& shared) {
    const i32 warp = warp_idx();
    if (lane_idx() == 0) {
        shared.max_log2[warp] = sums.max_log2;
        shared.sum[warp] = sums.sum;
    }
#pragma unroll
    for (int part = 0; part < kLaneParts; ++part) {
        const float (&own)[kPartColumns] = sums.out[part];
        shared.out[warp][part][lane_idx()] = float4{own[0], own[1], own[2], own[3]};
    }
}

// Adds the sums of the `num_runs` warps from this one on, of which the first are its own.
__device__ __forceinline__ RowSums merge_runs(const SharedSums& shared, i32 num_runs) {
    const i32 first = warp_idx();
    float max = negative_infinity();
    for (i32 run = 0; run < num_runs; ++run) max = fmaxf(max, shared.max_log2[first + run]);
    const float shift = max == negative_infinity() ? 0.0f : max;
    RowSums merged{max, 0.0f, {}};
    for (i32 run = 0; run < num_runs; ++run) {
        const float weight = exp2_approx(shared.max_log2[first + run] - shift);
        merged.sum += shared.sum[first + run] * weight;
#pragma unroll
        for (int part = 0; part < kLaneParts; ++part) {
            const float4 values = shared.out[first + run][part][lane_idx()];
            merged.out[part][0] += values.x * weight;
            merged.out[part][1] += values.y * weight;
            merged.out[part][2] += values.z * weight;
            merged.out[part][3] += values.w * weight;
        }
    }
    return merged;
}

// The pieces that this warp has of a row.
__device__ __forceinline__ RowSums sum_run(const CombineParams& params, const Division& division,
                                           const UnitPlaces& unit, PieceBlocks run, i32 row) {
    RowSums sums{negative_infinity(), 0.0f, {}};
#pragma unroll 1
    for (u32 first = run.first; first <= run.last; first += kWarpSize) {
        const u32 block = first + static_cast<u32>(lane_idx());
        const LanePiece piece = lane_piece(params, division, unit, run, block, row);
        const i32 num_left = static_cast<i32>(run.last - first) + 1;
        add_pieces(params, piece, min_of(num_left, kWarpSize), sums);
    }
    return sums;
}

__device__ __forceinline__ void combine(const CombineParams& params, const Division& division,
                                        const UnitPlaces& places, const PieceBlocks& blocks,
                                        SharedSums& shared) {
    const Unit unit = unit_at(params.op, params.schedule, places, params.band_tokens);
    const OutputRows outputs = output_rows(params.op, unit);
    const i32 num_pieces = static_cast<i32>(blocks.last - blocks.first) + 1;
    const i32 num_runs = warps_per_row(num_pieces);
    const i32 run_idx = warp_idx() % num_runs;
    const u32 run_pieces = static_cast<u32>(divide_up(num_pieces, num_runs));
    const u32 run_first = blocks.first + static_cast<u32>(run_idx) * run_pieces;
    // Those past the last piece have none.
    const PieceBlocks run{run_first, min_of(run_first + run_pieces - 1, blocks.last)};
    const i32 rows_at_once = kNumWarps / num_runs;
    // Those past the last query of the band are nobody's.
    const i32 num_rows =
        (unit.q_end - unit.q_begin) * static_cast<i32>(params.op.heads.pack.divisor);
    if (!is_listed(params.schedule)) griddepcontrol_wait();
#pragma unroll 1
    for (i32 first_row = static_cast<i32>(blockIdx.y) * rows_at_once; first_row < num_rows;
         first_row += static_cast<i32>(gridDim.y) * rows_at_once) {
        const i32 row = first_row + warp_idx() / num_runs;
        const RowPlace place = row_place(params.op, unit, row);
        RowSums sums{negative_infinity(), 0.0f, {}};
        if (place.is_live) sums = sum_run(params, division, places, run, row);
        if (num_runs > 1) {
            share_sums(sums, shared);
            __syncthreads();
            if (run_idx == 0) sums = merge_runs(shared, num_runs);
            // They are written again.
            __syncthreads();
        }
        if (run_idx == 0 && place.is_live) store_row(params, outputs, place, sums);
    }
}

// The unit of a block, and whether it has one.
struct BlockUnit {
    UnitPlaces places;
    bool is_one;
};

__device__ __forceinline__ BlockUnit unit_of_block(const Schedule& schedule, const Line& line,
                                                   const Division& division) {
    if (line.prefix == nullptr) {
        const u32 of_unit = static_cast<u32>(line.unit_places);
        return {{static_cast<i32>(blockIdx.x), 0, blockIdx.x * of_unit, (blockIdx.x + 1) * of_unit},
                blockIdx.x < schedule.sections.num_units};
    }
    const u32 place = first_place(division, blockIdx.x);
    if (place >= division.num_places) return {{}, false};
    const UnitPlaces places = unit_of_place(line, schedule.head_units, place);
    // The first cut inside a unit is that of the block after the one where the unit begins.
    return {places,
            place != places.begin && blockIdx.x == block_of_place(division, places.begin) + 1};
}

}  // namespace frazil

// One block an SM is asked for, that ptxas does not spill for more.
extern "C" __global__ void __launch_bounds__(frazil::Config::kNumThreads, 1)
    frazil_sdpa_combine(const __grid_constant__ frazil::CombineParams params) {
    using namespace frazil;
    __shared__ SharedSums shared;
    // What the kernel in front writes is read in `combine`; before, at most the list is.
    if (is_listed(params.schedule)) griddepcontrol_wait();
    const Line line = line_of(params.schedule);
    const Division whole = division(line.num_places, params.schedule.partials.blocks);
    const BlockUnit unit = unit_of_block(params.schedule, line, whole);
    // A unit of one place has no tile, and the block that has the place has stored its rows.
    if (unit.is_one && unit.places.end - unit.places.begin > 1) {
        const PieceBlocks blocks = piece_blocks(whole, unit.places);
        if (blocks.first != blocks.last) {
            combine(params, whole, unit.places, blocks, shared);
            return;
        }
    }
    if (!is_listed(params.schedule)) griddepcontrol_wait();
}
