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
    const float scale_log2 = kModifies ? 1.0f : params.score.scale_log2;
    softmax_step<kHides || kModifies, T::kRowBlocks, T::kBlockN, T::kHeadDimV>(scale_log2, scores,
                                                                               stats, out);
}

template <class T>
__device__ __forceinline__ void copy_k(const SdpaFwdParams& params, const Unit& unit, u64 first,
                                       i32 tile_idx, SharedStorage<T>& shared, int stage) {
    copy_keys<T, T::kHeadDimQk>(params, k_side(params), unit, first, tile_idx, shared.k[stage]);
}

template <class T>
__device__ __forceinline__ void copy_v(const SdpaFwdParams& params, const Unit& unit, u64 first,
                                       i32 tile_idx, SharedStorage<T>& shared, int stage) {
    copy_keys<T, T::kHeadDimV>(params, v_side(params), unit, first, tile_idx, shared.v[stage]);
}

// What the first step waits for.
template <class T>
__device__ __forceinline__ void start_walk(const SdpaFwdParams& params, const Unit& unit,
                                           i32 tile_idx, SharedStorage<T>& shared) {
    const u64 first_q = row_address(params.q, unit.batch_idx, i64{unit.q.start} + unit.q_begin,
                                    unit.first_head, sizeof(typename T::Element));
    const auto copy_q = [&](const auto& source) {
        copy_tile_async<T::kBlockM, T::kHeadDimQk, T::kNumThreads>(smem_address(shared.q),
                                                                   params.head_dim_qk, source);
    };
    if (params.heads.pack.divisor == 1) {
        const i64 row_bytes = params.q.row_stride * static_cast<i64>(sizeof(typename T::Element));
        copy_q(EvenSource{first_q, row_bytes, unit.q_end - unit.q_begin});
    } else {
        copy_q(PackedQuerySource<T>{params, unit, first_q});
    }
    const u64 first_k = first_key<T>(params.k, unit);
    const u64 first_v = first_key<T>(params.v, unit);
    copy_k<T>(params, unit, first_k, tile_idx, shared, 0);
    if constexpr (T::kNumStages == 2) copy_v<T>(params, unit, first_v, tile_idx, shared, 0);
    cp_async_commit();
    if (threadIdx.x == 0) {
        shared.first_k = first_k;
        shared.first_v = first_v;
    }
}

// One tile of keys. kHides: some query of the band does not see some key of it.
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
        copy_v<T>(params, unit, shared.first_v, tile_idx, shared, 0);
        cp_async_commit();
    } else if (has_next) {
        copy_k<T>(params, unit, shared.first_k, tile_idx - 1, shared, stage ^ 1);
        copy_v<T>(params, unit, shared.first_v, tile_idx - 1, shared, stage ^ 1);
        cp_async_commit();
    }
    typename T::Scores scores;
    multiply_qk<T>(smem_address(shared.q), smem_address(shared.k[stage]), scores);
    weigh<T, kHides>(params, unit, tile_idx, scores, stats, out);
    if constexpr (T::kNumStages == 1) {
        cp_async_wait<0>();
        __syncthreads();
        if (has_next) {
            copy_k<T>(params, unit, shared.first_k, tile_idx - 1, shared, 0);
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

template <class T>
__device__ __forceinline__ void attend(const SdpaFwdParams& params, const Unit& unit,
                                       SharedStorage<T>& shared) {
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
    const TileRange tiles = tile_range(params.score.band, FixedDivisor<T::kBlockN>{}, unit.q_begin,
                                       unit.q_end - 1, unit.q.len, unit.kv.len);
    if (threadIdx.x == 0) {
        shared.unit = unit;
        shared.tiles = tiles;
    }
    const bool has_keys = tiles.begin < tiles.end;
    if (has_keys) start_walk<T>(params, unit, tiles.end - 1, shared);
    // By another warp than above, while the copies are under way.
    if (threadIdx.x == T::kNumThreads - 1) shared.outputs = output_rows(params, unit);
    __syncthreads();
    if (has_keys) walk_tiles<T>(params, tiles.end - 1, shared, stats, out);
    finish_rows<T>(params, shared.unit, shared.outputs, stats, out);
    switch (params.o_type) {
        case OutputType::kF16:
            store_o_16<T, F16>(params, shared, out);
            break;
        case OutputType::kBf16:
            store_o_16<T, Bf16>(params, shared, out);
            break;
        case OutputType::kF32:
            store_o_f32<T>(params, shared, out);
            break;
    }
}

// Leaves the header of a list in shared memory. Every thread of the block calls it.
template <class T>
__device__ __forceinline__ void read_list(const Params& params, SharedStorage<T>& shared) {
    if (threadIdx.x == 0) {
        const WorkListHeader list = *params.schedule.header;
        shared.list = list;
        shared.num_units = list.num_bands * params.schedule.head_units.divisor;
    }
    __syncthreads();
}

template <class T>
__device__ __forceinline__ u32 num_units(const Params& params, const SharedStorage<T>& shared) {
    return is_listed(params.schedule) ? shared.num_units : params.schedule.sections.num_units;
}

// The unit to take after the block's last one: of a list, the next that nobody has claimed; else
// there is none, and every unit has its block. Every thread of the block calls it, when the block
// is done with what it has of that unit.
template <class T>
__device__ __forceinline__ u32 next_unit(const Params& params, SharedStorage<T>& shared) {
    if (!is_listed(params.schedule)) return params.schedule.sections.num_units;
    if (threadIdx.x == 0) {
        shared.claimed_unit = gridDim.x + atomicAdd(&params.schedule.header->num_claimed, 1u);
    }
    __syncthreads();
    return shared.claimed_unit;
}

}  // namespace frazil

extern "C" __global__ void __launch_bounds__(frazil::Kernel::kNumThreads,
                                             frazil::Kernel::kBlocksPerSm)
    frazil_sdpa_fwd_sm80(const __grid_constant__ frazil::Params params) {
    using namespace frazil;
    extern __shared__ __align__(128) u8 dynamic_smem[];
    auto& shared = *reinterpret_cast<SharedStorage<Kernel>*>(dynamic_smem);
    if (is_listed(params.schedule)) read_list<Kernel>(params, shared);
    const i32 band_tokens = Kernel::kBlockM / static_cast<i32>(params.op.heads.pack.divisor);
#pragma unroll 1
    for (u32 unit_idx = blockIdx.x; unit_idx < num_units<Kernel>(params, shared);
         unit_idx = next_unit<Kernel>(params, shared)) {
        const Unit unit = unit_at(params.op, params.schedule, shared.list, unit_idx, band_tokens);
        attend<Kernel>(params.op, unit, shared);
    }
    const i64 warp = i64{blockIdx.x} * Kernel::kNumWarps + warp_idx();
    fill_rows_past_lengths(params.op, warp, i64{gridDim.x} * Kernel::kNumWarps);
}
