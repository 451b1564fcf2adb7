#pragma once
// Tiles of rows in shared memory, as ldmatrix reads them without bank conflicts.
//
// A tile is cut into slabs of 64 columns. In a slab a row is 128 bytes, eight chunks of 16, and
// chunk c of row r lies at place c ^ (r % 8), so that the same chunk of eight rows in turn lies in
// all banks. TMA calls this the 128-byte swizzle.

#include "common/ptx.cuh"
#include "common/ptx_mma.cuh"
#include "common/types.cuh"

namespace frazil {

inline constexpr int kChunkColumns = 8;  // 16-bit elements in 16 bytes
inline constexpr int kSlabColumns = 64;
inline constexpr int kSlabRowBytes = 128;

// Shared memory of a tile of 16-bit elements; a last slab that is not full takes the room of one.
template <int kRows, int kColumns>
inline constexpr int kTileBytes =
    (kColumns + kSlabColumns - 1) / kSlabColumns * kSlabRowBytes * kRows;

// Bytes from the start of a tile of kRows rows to a chunk of a row.
template <int kRows>
__device__ __forceinline__ u32 chunk_offset(u32 row, u32 chunk) {
    return (chunk / 8) * (kRows * kSlabRowBytes) + row * kSlabRowBytes +
           ((chunk % 8) ^ (row % 8)) * 16;
}

// Address of a chunk for a lane of ldmatrix: the lane's own row and chunk once, and from there
// steps that are the same for all lanes. Of `step_rows`, a multiple of 8, and `step_chunks`, an
// even number where the lane's own chunk is 0 or 1, all but a few bits are a constant of the
// instruction.
template <int kRows>
__device__ __forceinline__ u32 lane_address(u32 tile, u32 row, u32 chunk) {
    return forgotten(tile + chunk_offset<kRows>(row, chunk));
}

template <int kRows>
__device__ __forceinline__ u32 advance(u32 lane_address, int step_rows, int step_chunks) {
    return (lane_address ^ static_cast<u32>(step_chunks % 8 * 16)) +
           static_cast<u32>(step_chunks / 8 * (kRows * kSlabRowBytes) + step_rows * kSlabRowBytes);
}

// A row of a tensor in global memory.
struct RowSource {
    u64 address;   // of its first column; anything where it is not live
    bool is_live;  // else the row is zeros
};

// Copies kRows rows to a tile, all kNumThreads threads of the block taking part: columns past
// `num_columns` and rows that are not live are zeros. `source(row)` says where a row lies.
//
// Eight threads copy the 128 bytes of a row of a slab. A thread's rows are a multiple of 8 apart,
// so that in shared memory its places differ by constants.
template <int kRows, int kColumns, int kNumThreads, class Source>
__device__ __forceinline__ void copy_tile_async(u32 tile, i32 num_columns, const Source& source) {
    constexpr int kRowThreads = kSlabColumns / kChunkColumns;
    constexpr int kRowStep = kNumThreads / kRowThreads;
    constexpr int kNumChunks = kColumns / kChunkColumns;
    static_assert(kRowStep % 8 == 0 && kRows % kRowStep == 0, "whole passes over the rows");
    const int thread = static_cast<int>(forgotten(threadIdx.x));
    const int first_row = thread / kRowThreads;
    const int lane_chunk = thread % kRowThreads;
    const u32 first = tile + chunk_offset<kRows>(first_row, lane_chunk);
#pragma unroll
    for (int step = 0; step < kRows; step += kRowStep) {
        const RowSource from = source(first_row + step);
        const u64 address = from.address + lane_chunk * 16;
#pragma unroll
        for (int slab = 0; slab * kRowThreads < kNumChunks; ++slab) {
            const int chunk = slab * kRowThreads + lane_chunk;
            if (kNumChunks % kRowThreads != 0 && chunk >= kNumChunks) break;
            const bool is_live = from.is_live && chunk * kChunkColumns < num_columns;
            cp_async_16(first + slab * (kRows * kSlabRowBytes) + step * kSlabRowBytes,
                        reinterpret_cast<const void*>(address + slab * kSlabRowBytes), is_live);
        }
    }
}

}  // namespace frazil
