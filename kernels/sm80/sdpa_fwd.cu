// Attention forward by mma.sync and cp.async: compute capability 8.0 and later.
//
// A block takes units one after another: a band of queries of one sequence and the heads of one run
// (scores.cuh). It walks the keys from the last tile that the band sees to the first, so that the
// tiles which hide something come at the ends. Every warp owns rows of the tile: their scores,
// weights and outputs stay in its registers, and no warp waits for another's softmax. The design is
// that of FlashAttention-2 (Dao, 2023).
//
// Shared memory holds the queries and kNumStages tiles each of keys and values. With two, a tile is
// copied while the one before it is worked on, and one barrier a tile is enough. With one, values
// are copied during the first product and keys during the second.

#include "common/mma_products.cuh"
#include "common/outputs.cuh"
#include "common/ptx_mma.cuh"
#include "common/scores.cuh"
#include "common/softmax.cuh"
#include "common/units.cuh"
#include "sm80/copies.cuh"
#include "sm80/finish.cuh"
#include "sm80/traits.cuh"

namespace frazil {

// From scores to weights. kHides: some query of the band does not see some key of the tile.
template <class T, bool kHides>
__device__ __forceinline__ void weigh(const SdpaFwdParams& params, const Unit& unit, i32 tile_idx,
                                      typename T::Scores& scores, typename T::Stats& stats,
                                      typename T::Output& out) {
    constexpr bool kModifies = T::kModifiesScores != 0;
    const i32 first_row = warp_idx() * T::kWarpRows;
    const i32 first_column = tile_idx * T::kBlockN;
    if constexpr (kModifies) {
        modify_scores<typename T::Element, T::kRowBlocks, T::kBlockN>(params, unit, first_row,
                                                                      first_column, scores);
    }
    if constexpr (kHides) {
        hide_scores<T::kRowBlocks, T::kBlockN>(params, unit, first_row, first_column, scores);
    }
    // What modifiers give is in units of log2, and a bias may be -inf for a whole row.
    const Weighing weighing{kModifies ? 1.0f : params.score.scale_log2, params.score.lag_log2};
    softmax_step<kHides || kModifies, T::kRowBlocks, T::kBlockN, T::kHeadDimV>(weighing, scores,
                                                                               stats, out);
}

// kWhole: the sequence has all rows of the tile.
template <class T, bool kWhole>
__device__ __forceinline__ void copy_k(const SdpaFwdParams& params, const Unit& unit, u64 first,
                                       i32 tile_idx, SharedStorage<T>& shared, int stage) {
    copy_keys<T, T::kHeadDimQk, kWhole>(params, k_side(params), unit, first, tile_idx,
                                        shared.k[stage]);
}

template <class T, bool kWhole>
__device__ __forceinline__ void copy_v(const SdpaFwdParams& params, const Unit& unit, u64 first,
                                       i32 tile_idx, SharedStorage<T>& shared, int stage) {
    copy_keys<T, T::kHeadDimV, kWhole>(params, v_side(params), unit, first, tile_idx,
                                       shared.v[stage]);
}

// What the first step waits for.
template <class T>
__device__ __forceinline__ void start_walk(const SdpaFwdParams& params, const Unit& unit,
                                           i32 tile_idx, SharedStorage<T>& shared) {
    copy_queries<T>(params, unit, shared.q);
    const u64 first_k = first_key<T>(params.k, unit);
    const u64 first_v = first_key<T>(params.v, unit);
    copy_k<T, false>(params, unit, first_k, tile_idx, shared, 0);
    if constexpr (T::kNumStages == 2) copy_v<T, false>(params, unit, first_v, tile_idx, shared, 0);
    cp_async_commit();
    if (threadIdx.x == 0) {
        shared.first_k = first_k;
        shared.first_v = first_v;
    }
}

// One tile of keys. kHides: some query of the band does not see some key of it; else the sequence
// has all of its rows, as it has those of the tiles before it.
template <class T, bool kHides>
__device__ __forceinline__ void step(const SdpaFwdParams& params, i32 tile_idx, int stage,
                                     SharedStorage<T>& shared, typename T::Stats& stats,
                                     typename T::Output& out) {
    const Unit& unit = shared.unit;
    cp_async_wait<0>();
    // The copies of all threads are here, and every warp has read the tile before this one.
    __syncthreads();
    const bool has_next = tile_idx > shared.tiles.begin;
    if constexpr (T::kNumStages == 1) {
        copy_v<T, !kHides>(params, unit, shared.first_v, tile_idx, shared, 0);
        cp_async_commit();
    } else if (has_next) {
        copy_k<T, true>(params, unit, shared.first_k, tile_idx - 1, shared, stage ^ 1);
        copy_v<T, true>(params, unit, shared.first_v, tile_idx - 1, shared, stage ^ 1);
        cp_async_commit();
    }
    typename T::Scores scores;
    multiply_qk<T>(smem_address(shared.q), smem_address(shared.k[stage]), scores);
    weigh<T, kHides>(params, unit, tile_idx, scores, stats, out);
    if constexpr (T::kNumStages == 1) {
        cp_async_wait<0>();
        __syncthreads();
        if (has_next) {
            copy_k<T, true>(params, unit, shared.first_k, tile_idx - 1, shared, 0);
            cp_async_commit();
        }
    }
    multiply_pv<T>(scores, smem_address(shared.v[stage]), out);
}

// Walks the tiles of keys, from the last one to the first. Tiles that hide something come first and
// last: two loops, so that those between have no trace of it. On return tiles may still be read by
// other warps.
template <class T>
__device__ __forceinline__ void walk_tiles(const SdpaFwdParams& params, i32 tile_idx,
                                           SharedStorage<T>& shared, typename T::Stats& stats,
                                           typename T::Output& out) {
    const TileRange& tiles = shared.tiles;
    int stage = 0;
#pragma unroll 1
    do {
#pragma unroll 1
        for (; tile_idx >= tiles.full_begin && tile_idx < tiles.full_end; --tile_idx) {
            step<T, false>(params, tile_idx, stage, shared, stats, out);
            stage ^= T::kNumStages - 1;
        }
#pragma unroll 1
        for (;
             tile_idx >= tiles.begin && (tile_idx >= tiles.full_end || tile_idx < tiles.full_begin);
             --tile_idx) {
            step<T, true>(params, tile_idx, stage, shared, stats, out);
            stage ^= T::kNumStages - 1;
        }
    } while (tile_idx >= tiles.begin);
}

// Whether every block has one unit, told by its index.
template <class T>
__device__ __forceinline__ bool is_counted(const Params& params) {
    return T::kSmallBatch == 0 && !is_listed(params.schedule) && !cuts<T>(params.schedule);
}

// Of the tiles that the band of a unit sees, counted from the last one, those begin..end; the
// default is all of them.
struct Cut {
    i32 begin = 0;
    i32 end = 0x7fffffff;
};

template <class T>
__device__ __forceinline__ TileRange tiles_of(const SdpaFwdParams& params, const Unit& unit,
                                              const Cut& cut) {
    TileRange tiles = tile_range(params.score.band, FixedDivisor<T::kBlockN>{}, unit.q_begin,
                                 unit.q_end - 1, unit.q.len, unit.kv.len);
    const i32 num_tiles = tiles.end - tiles.begin;
    tiles.begin = tiles.end - min_of(cut.end, num_tiles);
    tiles.end -= min_of(cut.begin, num_tiles);
    tiles.full_begin = max_of(tiles.full_begin, tiles.begin);
    return tiles;
}

template <class T>
__device__ __forceinline__ void attend(const Params& params, const Unit& unit, const Cut& cut,
                                       SharedStorage<T>& shared) {
    const SdpaFwdParams& op = params.op;
    typename T::Output out;
    typename T::Stats stats;
    reset(stats);
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int column = 0; column < T::kHeadDimV / 8; ++column) {
#pragma unroll
            for (int at = 0; at < 4; ++at) out[block][column][at] = 0.0f;
        }
    }
    const TileRange tiles = tiles_of<T>(op, unit, cut);
    if (threadIdx.x == 0) {
        shared.unit = unit;
        shared.tiles = tiles;
    }
    const bool has_keys = tiles.begin < tiles.end;
    if (has_keys) start_walk<T>(op, unit, tiles.end - 1, shared);
    // By another warp than above, while the copies are under way.
    if (threadIdx.x == T::kNumThreads - 1) shared.outputs = output_rows(op, unit);
    __syncthreads();
    if (has_keys) walk_tiles<T>(op, tiles.end - 1, shared, stats, out);
    if (cuts<T>(params.schedule) && shared.is_piece != 0) {
        store_partial<T>(op, params.schedule.partials, shared, stats, out);
        return;
    }
    finish_rows<T>(op, shared.unit, shared.outputs, stats, out);
    switch (op.o_type) {
        case OutputType::kF16:
            store_o_16<T, F16>(op, shared, out);
            break;
        case OutputType::kBf16:
            store_o_16<T, Bf16>(op, shared, out);
            break;
        case OutputType::kF32:
            store_o_f32<T>(op, shared, out);
            break;
    }
}

// Leaves in shared memory what the block's tasks are told by: what the header of a list says, the
// sequences of a small batch, or the block's places. Every thread of the block calls it.
template <class T>
__device__ __forceinline__ void read_list(const Params& params, i32 band_tokens,
                                          SharedStorage<T>& shared) {
    const Schedule& schedule = params.schedule;
    if constexpr (T::kSmallBatch != 0) {
        if (warp_idx() == 0) {
            const WorkListHeader list =
                rank_batch(params.op, params.small, band_tokens, shared.ranked);
            const i64 num_fill_jobs = count_fill_jobs(params.op, lane_idx() < params.small.batch,
                                                      shared.ranked.sequences[lane_idx()].q.len);
            if (lane_idx() == 0) {
                shared.list = list;
                shared.num_units = list.num_bands * schedule.head_units.divisor;
                shared.num_fill_jobs = num_fill_jobs;
            }
        }
    } else if (threadIdx.x == 0 && cuts<T>(schedule)) {
        shared.line = line_of(schedule);
        const Division whole = division(shared.line.num_places, schedule.partials.blocks);
        shared.places = places_of(whole, blockIdx.x);
    } else if (threadIdx.x == 0) {
        const WorkListHeader list = *schedule.header;
        shared.list = list;
        shared.num_units = list.num_bands * schedule.head_units.divisor;
    }
    __syncthreads();
}

// What a block does next: a unit, or a piece of one.
struct Task {
    Unit unit;
    Cut cut;
};

// The task at a place, of units that are cut. Every thread of the block calls it.
template <class T>
__device__ __forceinline__ Task piece_task(const Params& params, u32 place, i32 band_tokens,
                                           SharedStorage<T>& shared) {
    const Schedule& schedule = params.schedule;
    const Piece piece = piece_at(shared.line, schedule.head_units, place, shared.places.end);
    if (threadIdx.x == 0) {
        shared.is_piece = is_whole(piece) ? 0 : 1;
        shared.slot = slot_of(blockIdx.x, place == shared.places.begin);
        shared.next_place = piece.end;
    }
    return {unit_at(params.op, schedule, piece.unit, band_tokens),
            {piece.tiles_begin, piece.tiles_end}};
}

// Tasks are numbered: pieces by their place, units by their index.
template <class T>
__device__ __forceinline__ i64 first_task(const Params& params, const SharedStorage<T>& shared) {
    return cuts<T>(params.schedule) ? i64{shared.places.begin} : i64{blockIdx.x};
}

template <class T>
__device__ __forceinline__ i64 end_of_tasks(const Params& params, const SharedStorage<T>& shared) {
    if (cuts<T>(params.schedule)) return shared.places.end;
    return is_counted<T>(params) ? params.schedule.sections.num_units : shared.num_units;
}

// The task after the one that the block is done with: of a list, the next unit that nobody has
// claimed, or every so many; of a small batch, the block's own; of units that are told by their
// index, none, for every one has its block. Every thread of the block calls it; on return no warp
// reads the tiles of that task.
template <class T>
__device__ __forceinline__ i64 next_task(const Params& params, i64 at, SharedStorage<T>& shared) {
    if (is_counted<T>(params)) return params.schedule.sections.num_units;
    if constexpr (T::kSmallBatch != 0) {
        __syncthreads();
        return next_of_block(at, gridDim.x);
    } else if (cuts<T>(params.schedule)) {
        __syncthreads();
        const i64 next = shared.next_place;
        // It is written again before the next barrier.
        __syncthreads();
        return next;
    } else {
        // Units that cost alike need no claims, which wait for one another where units are short.
        if (threadIdx.x == 0) {
            shared.claimed_unit =
                shared.list.costs_alike != 0
                    ? static_cast<u32>(at) + gridDim.x
                    : gridDim.x + atomicAdd(&params.schedule.header->num_claimed, 1u);
        }
        __syncthreads();
        return shared.claimed_unit;
    }
}

template <class T>
__device__ __forceinline__ Task task_at(const Params& params, i64 at, i32 band_tokens,
                                        SharedStorage<T>& shared) {
    const Schedule& schedule = params.schedule;
    const u32 unit_idx = static_cast<u32>(at);
    if (cuts<T>(schedule)) return piece_task<T>(params, unit_idx, band_tokens, shared);
    if (is_counted<T>(params))
        return {counted_unit(params.op, schedule, unit_idx, band_tokens), {}};
    const BandAndHead band = listed_band_and_head(shared.list, schedule.head_units, unit_idx);
    if constexpr (T::kSmallBatch != 0) {
        return {ranked_unit(params.op, shared.ranked, band, band_tokens), {}};
    } else {
        return {listed_unit(params.op, schedule, band.band_idx, band.head_idx, band_tokens), {}};
    }
}

template <class T>
__device__ __forceinline__ bool has_query_lengths(const Params& params) {
    if constexpr (T::kSmallBatch != 0) return params.small.q.form != SeqlensForm::kDense;
    return params.op.q_rows.lengths != nullptr;
}

// The rest of what a kernel with device lengths writes.
template <class T>
__device__ __forceinline__ void fill_rows(const Params& params, const SharedStorage<T>& shared) {
    if (!has_query_lengths<T>(params)) return;
    // Of units that a list or a batch tells of; pieces are for all.
    const u32 first_idle = cuts<T>(params.schedule) ? gridDim.x : shared.num_units;
    const FillShare share = fill_share(first_idle, T::kNumWarps);
    // Who has nothing to fill does not fetch the code for it.
    if constexpr (T::kSmallBatch != 0) {
        if (share.first() >= shared.num_fill_jobs) return;
    }
    fill_rows_past_lengths(params.op, share, [&](i64 at) {
        if constexpr (T::kSmallBatch != 0) {
            const RankedSequence& sequence = shared.ranked.sequences[at];
            return QueryLength{sequence.batch_idx, sequence.q.len};
        } else {
            return QueryLength{at, params.op.q_rows.lengths[at]};
        }
    });
}

}  // namespace frazil

extern "C" __global__ void __launch_bounds__(frazil::Kernel::kNumThreads,
                                             frazil::Kernel::kBlocksPerSm)
    frazil_sdpa_fwd_sm80(const __grid_constant__ frazil::Params params) {
    using namespace frazil;
    extern __shared__ __align__(128) u8 dynamic_smem[];
    auto& shared = *reinterpret_cast<SharedStorage<Kernel>*>(dynamic_smem);
    const i32 band_tokens = Kernel::kBlockM / static_cast<i32>(params.op.heads.pack.divisor);
    if (is_listed(params.schedule)) griddepcontrol_wait();
    // The merge may take its place beside blocks of this kernel, which are all resident, and waits.
    if (cuts<Kernel>(params.schedule)) griddepcontrol_launch_dependents();
    if (!is_counted<Kernel>(params)) read_list<Kernel>(params, band_tokens, shared);
#pragma unroll 1
    for (i64 at = first_task<Kernel>(params, shared); at < end_of_tasks<Kernel>(params, shared);
         at = next_task<Kernel>(params, at, shared)) {
        const Task task = task_at<Kernel>(params, at, band_tokens, shared);
        attend<Kernel>(params, task.unit, task.cut, shared);
    }
    fill_rows<Kernel>(params, shared);
}
