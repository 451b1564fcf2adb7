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

// What a thread copies of a tile, where all kNumThreads threads of the block copy it: eight threads
// the 128 bytes of a row of a slab. The rows of a thread are kRowStep apart, which is a power of 2
// above its first one: its places in shared memory differ by constants, but for bits that are the
// same for all threads.
template <int kRows, int kColumns, int kNumThreads>
struct TileCopy {
    static constexpr int kRowThreads = kSlabColumns / kChunkColumns;
    static constexpr int kRowStep = kNumThreads / kRowThreads;
    static constexpr int kNumChunks = kColumns / kChunkColumns;
    static_assert((kRowStep & (kRowStep - 1)) == 0 && kRows % kRowStep == 0,
                  "whole passes over the rows");

    int first_row;
    int lane_chunk;
    u32 to;
    i32 num_columns;  // of the tensor: those past it are zeros

    __device__ __forceinline__ TileCopy(u32 tile, i32 num_columns) : num_columns(num_columns) {
        const int thread = static_cast<int>(forgotten(threadIdx.x));
        first_row = thread / kRowThreads;
        lane_chunk = thread % kRowThreads;
        to = tile + chunk_offset<kRows>(first_row, lane_chunk);
    }

    // The thread's chunks of the row first_row + step, whose first chunk of the thread is at
    // `address`; zeros of a row that is not live, whose address may be anything.
    __device__ __forceinline__ void copy_row(int step, u64 address, bool is_live) const {
#pragma unroll
        for (int slab = 0; slab * kRowThreads < kNumChunks; ++slab) {
            const int chunk = slab * kRowThreads + lane_chunk;
            if (kNumChunks % kRowThreads != 0 && chunk >= kNumChunks) break;
            // The bits of a row's number that its chunks are exchanged by (chunk_offset).
            const u32 exchanged = to ^ static_cast<u32>(step % 8 * 16);
            cp_async_16(exchanged + slab * (kRows * kSlabRowBytes) + step * kSlabRowBytes,
                        reinterpret_cast<const void*>(address + slab * kSlabRowBytes),
                        is_live && chunk * kChunkColumns < num_columns);
        }
    }
};

// Copies rows to a tile wherever they lie: `source(row)` says where, and which are live.
template <int kRows, int kColumns, int kNumThreads, class Source>
__device__ __forceinline__ void copy_tile_async(u32 tile, i32 num_columns, const Source& source) {
    const TileCopy<kRows, kColumns, kNumThreads> copy(tile, num_columns);
#pragma unroll
    for (int step = 0; step < kRows; step += copy.kRowStep) {
        const RowSource from = source(copy.first_row + step);
        copy.copy_row(step, from.address + copy.lane_chunk * 16, from.is_live);
    }
}

// Rows at one distance from one another.
struct EvenRows {
    u64 first;  // address of the row 0
    i64 row_bytes;
};

// Copies the rows from `first_row` on, of which the first `num_live` are live. kWhole: all of them
// are.
template <int kRows, int kColumns, int kNumThreads, bool kWhole>
__device__ __forceinline__ void copy_even_tile_async(u32 tile, i32 num_columns,
                                                     const EvenRows& rows, i32 first_row,
                                                     i32 num_live) {
    const TileCopy<kRows, kColumns, kNumThreads> copy(tile, num_columns);
    const u64 step_bytes = static_cast<u64>(rows.row_bytes) * copy.kRowStep;
    u64 address = rows.first +
                  static_cast<u64>(rows.row_bytes) * static_cast<u32>(first_row + copy.first_row) +
                  copy.lane_chunk * 16;
#pragma unroll
    for (int step = 0; step < kRows; step += copy.kRowStep) {
        copy.copy_row(step, address, kWhole || copy.first_row + step < num_live);
        address += step_bytes;
    }
}

}  // namespace frazil
