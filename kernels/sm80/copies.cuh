#pragma once
// Queries, keys and values on their way to shared memory.

#include "common/outputs.cuh"
#include "common/ptx.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/smem_tile.cuh"
#include "common/units.cuh"
#include "sm80/traits.cuh"

namespace frazil {

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

// Keys or values in pages.
struct PagedKeys {
    const SdpaFwdParams& params;
    const RowTensor& tensor;
    const PageTable& table;
    const i32* pages;  // of the sequence
    u64 head;          // address of row 0 of page 0
    i64 row_bytes;

    // Address of a row that is there. An id outside the pool is clamped and flagged.
    __device__ __forceinline__ u64 row_at(i32 key) const {
        const Quotient at = divide(key, params.page_size);
        const i64 id = pages[at.quotient * table.column_stride];
        const i64 page = clamp<i64>(id, 0, table.num_pages - 1);
        if (page != id) global_or(params.error_word, table.error_bit);
        const i64 page_rows_bytes = page * tensor.batch_stride * kElementBytes;
        return head + static_cast<u64>(page_rows_bytes + at.remainder * row_bytes);
    }

    // Of a pool without pages no row is there.
    __device__ __forceinline__ i32 num_live(i32 kv_len) const {
        return table.num_pages != 0 ? kv_len : 0;
    }

    static constexpr i64 kElementBytes = 2;
};

// Copies a tile row by row, whatever the size of a page.
template <class T, int kColumns>
__device__ __forceinline__ void copy_paged_rows(const PagedKeys& keys, u32 to, i32 num_columns,
                                                i32 first_row, i32 num_live) {
    copy_tile_async<T::kBlockN, kColumns, T::kNumThreads>(to, num_columns, [&](int row) {
        const i32 key = first_row + row;
        if (key >= num_live) return RowSource{keys.tensor.data, false};
        return RowSource{keys.row_at(key), true};
    });
}

// Copies a tile whose runs of kPageRows keys lie together: those that the threads of the block copy
// at a time. Lanes of a warp look up one run each, and tell the others.
template <class T, int kColumns>
__device__ __forceinline__ void copy_paged_runs(const PagedKeys& keys, u32 to, i32 num_columns,
                                                i32 first_row, i32 num_live) {
    const TileCopy<T::kBlockN, kColumns, T::kNumThreads> copy(to, num_columns);
    static_assert(copy.kRowStep == T::kPageRows, "kPageRows: the rows of one pass of copies");
    constexpr int kNumRuns = T::kBlockN / copy.kRowStep;
    const i32 thread = static_cast<i32>(forgotten(threadIdx.x));
    const i32 first_of_lane = first_row + thread % kNumRuns * copy.kRowStep;
    // No page is looked up behind the last key.
    const u64 run_of_lane =
        first_of_lane < num_live ? keys.row_at(first_of_lane) : keys.tensor.data;
    const u64 in_run =
        static_cast<u64>(keys.row_bytes) * static_cast<u32>(copy.first_row) + copy.lane_chunk * 16;
#pragma unroll
    for (int run = 0; run < kNumRuns; ++run) {
        const int step = run * copy.kRowStep;
        const u64 address = __shfl_sync(kFullWarp, run_of_lane, run) + in_run;
        copy.copy_row(step, address, first_row + step + copy.first_row < num_live);
    }
}

// Address of the first row of the keys or values of a unit; in pages, of row 0 of page 0.
template <class T>
__device__ __forceinline__ u64 first_key(const RowTensor& tensor, const Unit& unit) {
    return row_address(tensor, T::kPageRows != 0 ? 0 : unit.batch_idx, unit.kv.start, unit.kv_head,
                       sizeof(typename T::Element));
}

// K or V.
struct KeySide {
    const RowTensor& tensor;
    const PageTable& table;
    i32 num_columns;
};

__device__ __forceinline__ KeySide k_side(const SdpaFwdParams& params) {
    return {params.k, params.table_k, params.head_dim_qk};
}

__device__ __forceinline__ KeySide v_side(const SdpaFwdParams& params) {
    return {params.v, params.table_v, params.head_dim_v};
}

// Copies the tile `tile_idx` of keys or values. `first` as of first_key. kWhole: the sequence has
// all rows of the tile.
template <class T, int kColumns, bool kWhole>
__device__ __forceinline__ void copy_keys(const SdpaFwdParams& params, const KeySide& side,
                                          const Unit& unit, u64 first, i32 tile_idx,
                                          const void* tile) {
    const u32 to = smem_address(tile);
    const i32 first_row = tile_idx * T::kBlockN;
    const i64 row_bytes = side.tensor.row_stride * i64{sizeof(typename T::Element)};
    if constexpr (T::kPageRows == 0) {
        copy_even_tile_async<T::kBlockN, kColumns, T::kNumThreads, kWhole>(
            to, side.num_columns, EvenRows{first, row_bytes}, first_row, unit.kv.len - first_row);
    } else {
        const i32* pages = side.table.pages + unit.batch_idx * side.table.batch_stride;
        const PagedKeys keys{params, side.tensor, side.table, pages, first, row_bytes};
        const i32 num_live = keys.num_live(unit.kv.len);
        if constexpr (T::kPageRows == 1) {
            copy_paged_rows<T, kColumns>(keys, to, side.num_columns, first_row, num_live);
        } else {
            copy_paged_runs<T, kColumns>(keys, to, side.num_columns, first_row, num_live);
        }
    }
}

// Copies the queries of a unit.
template <class T>
__device__ __forceinline__ void copy_queries(const SdpaFwdParams& params, const Unit& unit,
                                             const void* tile) {
    const u64 first = row_address(params.q, unit.batch_idx, i64{unit.q.start} + unit.q_begin,
                                  unit.first_head, sizeof(typename T::Element));
    const u32 to = smem_address(tile);
    // Heads that are not packed have rows at one distance.
    if (params.heads.pack.divisor == 1) {
        const i64 row_bytes = params.q.row_stride * i64{sizeof(typename T::Element)};
        copy_even_tile_async<T::kBlockM, T::kHeadDimQk, T::kNumThreads, false>(
            to, params.head_dim_qk, EvenRows{first, row_bytes}, 0, unit.q_end - unit.q_begin);
    } else {
        copy_tile_async<T::kBlockM, T::kHeadDimQk, T::kNumThreads>(
            to, params.head_dim_qk, PackedQuerySource<T>{params, unit, first});
    }
}

}  // namespace frazil
