// Attention forward by mma.sync and cp.async: compute capability 8.0 and later.
//
// A block takes units one after another: a band of queries of one sequence and the heads of one run
// (scores.cuh). It walks the keys from the last tile that the band sees to the first, so that the
// tiles which hide something come at the ends. Every warp owns rows of the tile: their scores,
// weights and outputs stay in its registers, and no warp waits for another's softmax. The design is
// that of FlashAttention-2 (Dao, 2023).
//
// Shared memory holds the queries and kNumStages tiles each of keys and values. With two, a tile is
// copied while the one before it is worked on, and one barrier a tile is enough. With one, values are
// copied during the first product and keys during the second.

#include "common/outputs.cuh"
#include "common/ptx_mma.cuh"
#include "common/scores.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/smem_tile.cuh"
#include "common/softmax.cuh"
#include "common/work_list.cuh"
#include "config.cuh"

namespace frazil {

template <int kDtype>
struct ElementOf {
    using Type = F16;
};
template <>
struct ElementOf<1> {
    using Type = Bf16;
};

struct Params {
    SdpaFwdParams op;
    Schedule schedule;
};

// What a kernel is made of: the host's integers, and what follows from them.
template <class C>
struct Traits : C {
    using Element = typename ElementOf<C::kDtype>::Type;
    static constexpr int kNumThreads = C::kNumWarps * kWarpSize;
    static constexpr int kWarpRows = C::kBlockM / C::kNumWarps;
    static constexpr int kRowBlocks = kWarpRows / 16;
    using Scores = Fragments<kRowBlocks, C::kBlockN>;
    using Output = Fragments<kRowBlocks, C::kHeadDimV>;
    using Stats = RowStats<kRowBlocks>;
};

template <class T>
struct SharedStorage {
    // Then O, which has no more columns.
    alignas(16) u8 q[kTileBytes<T::kBlockM, T::kHeadDimQk>];
    alignas(16) u8 k[T::kNumStages][kTileBytes<T::kBlockN, T::kHeadDimQk>];
    alignas(16) u8 v[T::kNumStages][kTileBytes<T::kBlockN, T::kHeadDimV>];
    // What all threads know alike, for loops that have no registers to spare.
    Unit unit;
    TileRange tiles;
    u64 first_k;  // address of the sequence's first row; in pages, of row 0 of page 0
    u64 first_v;
    OutputRows outputs;
    WorkListHeader list;
    u32 num_units;
    u32 claimed_unit;
    u32 unused[2];
};

using Kernel = Traits<Config>;

static_assert(Kernel::kWarpRows % 16 == 0, "kBlockM: whole blocks of 16 rows for every warp");
static_assert(Kernel::kBlockN % 16 == 0, "kBlockN: whole steps of the second product");
static_assert(Kernel::kHeadDimQk % 16 == 0 && Kernel::kHeadDimV % 16 == 0, "whole steps");
static_assert(Kernel::kHeadDimV <= Kernel::kHeadDimQk, "O takes the place of Q");
static_assert(Kernel::kNumStages == 1 || Kernel::kNumStages == 2, "kNumStages: 1 or 2");
static_assert(sizeof(SharedStorage<Kernel>) == Kernel::kSmemBytes,
              "kSmemBytes: host and kernel disagree on shared memory");
static_assert(sizeof(Params) == Kernel::kParamsBytes,
              "kParamsBytes: host and kernel disagree on the parameters");

// ---------------------------------------------------------------------------------------------
// Units

__device__ __forceinline__ bool is_listed(const Params& params) {
    return params.schedule.records != nullptr;
}

// Where a unit lies. `band_tokens` queries are a band.
__device__ __forceinline__ Unit unit_of(const SdpaFwdParams& params, i32 batch_idx, i32 head_unit,
                                        i32 q_begin, i32 band_tokens, SequenceSide q,
                                        SequenceSide kv) {
    const Quotient run = divide(head_unit, params.heads.runs);
    const i32 pack = static_cast<i32>(params.heads.pack.divisor);
    const i32 in_group = run.remainder * pack;
    return {batch_idx,
            run.quotient,
            run.quotient * params.heads.group + in_group,
            min_of(pack, params.heads.group - in_group),
            q_begin,
            min_of(q_begin + band_tokens, q.len),
            q,
            kv};
}

// Of a list.
__device__ __forceinline__ Unit listed_unit(const Params& params, const WorkListHeader& list,
                                            u32 unit_idx, i32 band_tokens) {
    const BandAndHead at =
        listed_band_and_head(list, params.schedule.head_units.divisor, unit_idx);
    const WorkRecord record = params.schedule.records[at.band_idx];
    return unit_of(params.op, record.batch_idx, at.head_idx, record.q_begin, band_tokens,
                   {record.q_start, record.q_len}, {record.kv_start, record.kv_len});
}

// Of the index alone: the last band of a sequence first, which under a causal mask is the dearest.
__device__ __forceinline__ Unit counted_unit(const Params& params, u32 unit_idx, i32 band_tokens) {
    const Sections& sections = params.schedule.sections;
    const BandAndHead at = band_and_head(sections, unit_idx);
    const Quotient pair = divide(at.head_idx, params.schedule.head_units);
    const i32 q_begin = (static_cast<i32>(sections.num_bands) - 1 - at.band_idx) * band_tokens;
    return unit_of(params.op, pair.quotient, pair.remainder, q_begin, band_tokens,
                   sequence_side(params.op.q_rows, pair.quotient),
                   sequence_side(params.op.kv_rows, pair.quotient));
}

__device__ __forceinline__ Unit unit_at(const Params& params, const WorkListHeader& list,
                                        u32 unit_idx, i32 band_tokens) {
    return is_listed(params)
               ? listed_unit(params, list, unit_idx, band_tokens)
               : counted_unit(params, unit_idx, band_tokens);
}

// ---------------------------------------------------------------------------------------------
// Copies to shared memory

// Rows that lie at one distance from one another.
struct EvenSource {
    u64 first;  // address of the tile's first row
    i64 row_bytes;
    i32 num_live;  // rows of the tile; those that follow are none

    __device__ __forceinline__ RowSource operator()(int row) const {
        const bool is_live = row < num_live;
        return {first + static_cast<u64>(is_live ? row * row_bytes : 0), is_live};
    }
};

// Rows of Q where several heads are packed: those of one token next to one another.
template <class T>
struct PackedQuerySource {
    const SdpaFwdParams& params;
    const Unit& unit;
    u64 first;  // address of the first row and head of the unit

    __device__ __forceinline__ RowSource operator()(int row) const {
        const RowPlace place = row_place(params, unit, row);
        const i64 at = row_offset(place, params.q.row_stride, params.q.head_stride);
        return {first + static_cast<u64>(at) * sizeof(typename T::Element), place.is_live};
    }
};

// Rows of K or V in pages. An id outside the pool is clamped and flagged.
template <class T>
struct PagedKeySource {
    const SdpaFwdParams& params;
    const RowTensor& tensor;
    const PageTable& table;
    const i32* pages;  // of the sequence
    u64 head;          // address of row 0 of page 0
    i32 first_row;
    i32 kv_len;

    __device__ __forceinline__ RowSource operator()(int row) const {
        const i32 key = first_row + row;
        if (key >= kv_len || table.num_pages == 0) return {tensor.data, false};
        const Quotient at = divide(key, params.page_size);
        const i64 id = pages[at.quotient * table.column_stride];
        const i64 page = clamp<i64>(id, 0, table.num_pages - 1);
        if (page != id) global_or(params.error_word, table.error_bit);
        const i64 offset = page * tensor.batch_stride + at.remainder * tensor.row_stride;
        return {head + static_cast<u64>(offset) * sizeof(typename T::Element), true};
    }
};

// Address of the first row of the keys or values of a unit; in pages, of row 0 of page 0.
template <class T>
__device__ __forceinline__ u64 first_key(const RowTensor& tensor, const Unit& unit) {
    return row_address(tensor, T::kPaged != 0 ? 0 : unit.batch_idx, unit.kv.start, unit.kv_head,
                       sizeof(typename T::Element));
}

// Copies a tile of keys or values. `first` as of first_key.
template <class T, int kColumns>
__device__ __forceinline__ void copy_keys(const SdpaFwdParams& params, const RowTensor& tensor,
                                          const PageTable& table, const Unit& unit, u64 first,
                                          i32 tile_idx, u32 to) {
    constexpr i64 kElementBytes = sizeof(typename T::Element);
    const i32 num_columns = kColumns == T::kHeadDimQk && &tensor == &params.k ? params.head_dim_qk
                                                                             : params.head_dim_v;
    const i32 first_row = tile_idx * T::kBlockN;
    if constexpr (T::kPaged != 0) {
        const i32* pages = table.pages + unit.batch_idx * table.batch_stride;
        const PagedKeySource<T> source{params, tensor, table, pages, first, first_row, unit.kv.len};
        copy_tile_async<T::kBlockN, kColumns, T::kNumThreads>(to, num_columns, source);
    } else {
        const i64 row_bytes = tensor.row_stride * kElementBytes;
        const EvenSource source{first + static_cast<u64>(first_row * row_bytes), row_bytes,
                                unit.kv.len - first_row};
        copy_tile_async<T::kBlockN, kColumns, T::kNumThreads>(to, num_columns, source);
    }
}

// ---------------------------------------------------------------------------------------------
// Products

// scores = Q K^T, of the warp's rows. Lanes address for ldmatrix: of Q row l % 16, chunk l / 16 of a
// step of 16 columns; of K, two blocks of 8 keys at once, row l % 8 + l / 16 * 8, chunk l / 8 % 2.
template <class T>
__device__ __forceinline__ void multiply_qk(u32 q_tile, u32 k_tile,
                                            typename T::Scores& scores) {
    const u32 lane = lane_idx();
    const u32 q_lane =
        lane_address<T::kBlockM>(q_tile, warp_idx() * T::kWarpRows + lane % 16, lane / 16);
    const u32 k_lane =
        lane_address<T::kBlockN>(k_tile, lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int block = 0; block < T::kRowBlocks; ++block) {
#pragma unroll
        for (int column = 0; column < T::kBlockN / 8; ++column) {
#pragma unroll
            for (int at = 0; at < 4; ++at) scores[block][column][at] = 0.0f;
        }
    }
#pragma unroll
    for (int step = 0; step < T::kHeadDimQk / 16; ++step) {
        u32 q[T::kRowBlocks][4];
#pragma unroll
        for (int block = 0; block < T::kRowBlocks; ++block) {
            ldmatrix_x4(q[block], advance<T::kBlockM>(q_lane, block * 16, step * 2));
        }
#pragma unroll
        for (int pair = 0; pair < T::kBlockN / 16; ++pair) {
            u32 k[4];
            ldmatrix_x4(k, advance<T::kBlockN>(k_lane, pair * 16, step * 2));
#pragma unroll
            for (int block = 0; block < T::kRowBlocks; ++block) {
                mma_m16n8k16(scores[block][2 * pair], q[block], k[0], k[1],
                             typename T::Element{});
                mma_m16n8k16(scores[block][2 * pair + 1], q[block], k[2], k[3],
                             typename T::Element{});
            }
        }
    }
}

// out += P V. The fragments of the scores are those of the first operand, two blocks of 8 columns to
// a step. Lanes address V for ldmatrix: key l % 16, chunk l / 16 of two blocks of 8 columns.
template <class T>
__device__ __forceinline__ void multiply_pv(const typename T::Scores& weights, u32 v_tile,
                                            typename T::Output& out) {
    const u32 lane = lane_idx();
    const u32 v_lane = lane_address<T::kBlockN>(v_tile, lane % 16, lane / 16);
    const typename T::Element element{};
#pragma unroll
    for (int step = 0; step < T::kBlockN / 16; ++step) {
        u32 p[T::kRowBlocks][4];
#pragma unroll
        for (int block = 0; block < T::kRowBlocks; ++block) {
            const float(&left)[4] = weights[block][2 * step];
            const float(&right)[4] = weights[block][2 * step + 1];
            p[block][0] = pack_rn(left[0], left[1], element);
            p[block][1] = pack_rn(left[2], left[3], element);
            p[block][2] = pack_rn(right[0], right[1], element);
            p[block][3] = pack_rn(right[2], right[3], element);
        }
#pragma unroll
        for (int pair = 0; pair < T::kHeadDimV / 16; ++pair) {
            u32 v[4];
            ldmatrix_x4_trans(v, advance<T::kBlockN>(v_lane, step * 16, pair * 2));
#pragma unroll
            for (int block = 0; block < T::kRowBlocks; ++block) {
                mma_m16n8k16(out[block][2 * pair], p[block], v[0], v[1], element);
                mma_m16n8k16(out[block][2 * pair + 1], p[block], v[2], v[3], element);
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------
// One unit

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
    copy_keys<T, T::kHeadDimQk>(params, params.k, params.table_k, unit, first, tile_idx,
                                smem_address(shared.k[stage]));
}

template <class T>
__device__ __forceinline__ void copy_v(const SdpaFwdParams& params, const Unit& unit, u64 first,
                                       i32 tile_idx, SharedStorage<T>& shared, int stage) {
    copy_keys<T, T::kHeadDimV>(params, params.v, params.table_v, unit, first, tile_idx,
                               smem_address(shared.v[stage]));
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
        for (; tile_idx >= tiles.begin &&
               (tile_idx >= tiles.full_end || tile_idx < tiles.full_begin);
             --tile_idx) {
            step<T, true>(params, tile_idx, stage, shared, stats, out);
            stage ^= T::kNumStages - 1;
        }
    } while (tile_idx >= tiles.begin);
}

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
    const float to_log2 = T::kModifiesScores != 0 ? 1.0f : params.score.scale_log2;
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
            const RowResult row = finish_row(stats.max[block][half] * to_log2,
                                             quad_sum(stats.sum[block][half]), sink);
            if (place.is_live && lane_idx() % 4 == 0) {
                store_row_outputs(params, outputs, place, row);
            }
            // A branch, since it is rare: O of such a row may be NaN, from values that are hidden.
            if (row.is_empty) scale_row<T>(block, half, 0.0f, out);
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
            const RowPlace place = row_place(params, shared.unit, first_row + block * 16 + half * 8);
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

// Stores O in 16 bits by way of shared memory, where Q was: the rows of a warp are read by that warp
// alone, so no other one waits.
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
                *reinterpret_cast<u32*>(shared.q + at) =
                    pack_rn(out[block][column][2 * half], out[block][column][2 * half + 1],
                            OutElement{});
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
    const TileRange tiles = tile_range<T::kBlockN>(params.score.band, unit.q_begin, unit.q_end - 1,
                                                   unit.q.len, unit.kv.len);
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
        case OutputType::kF16: store_o_16<T, F16>(params, shared, out); break;
        case OutputType::kBf16: store_o_16<T, Bf16>(params, shared, out); break;
        case OutputType::kF32: store_o_f32<T>(params, shared, out); break;
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
    return is_listed(params) ? shared.num_units : params.schedule.sections.num_units;
}

// The unit to take after the block's last one: of a list, the next that nobody has claimed; else
// there is none, and every unit has its block. Every thread of the block calls it, when the block is
// done with what it has of that unit.
template <class T>
__device__ __forceinline__ u32 next_unit(const Params& params, SharedStorage<T>& shared) {
    if (!is_listed(params)) return params.schedule.sections.num_units;
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
    if (is_listed(params)) read_list<Kernel>(params, shared);
    const i32 band_tokens = Kernel::kBlockM / static_cast<i32>(params.op.heads.pack.divisor);
#pragma unroll 1
    for (u32 unit_idx = blockIdx.x; unit_idx < num_units<Kernel>(params, shared);
         unit_idx = next_unit<Kernel>(params, shared)) {
        attend<Kernel>(params.op, unit_at(params, shared.list, unit_idx, band_tokens), shared);
    }
    const i64 warp = i64{blockIdx.x} * Kernel::kNumWarps + warp_idx();
    fill_rows_past_lengths(params.op, warp, i64{gridDim.x} * Kernel::kNumWarps);
}
