#pragma once
// Where the rows of each sequence lie: reads any length form and bounds what it says.
//
// A side (Q; or K and V) says on the device how many rows each of its sequences has and, packed,
// which is the first. The tensors are int32 and count rows. Their content is not to be trusted:
// everything is computed in 64 bits, where a sum of 2^31 numbers of 32 bits cannot overflow, and
// then bounded, so that whatever they hold, start + length <= capacity.
//
// The structs are mirrored in crates/cuda/src/seqlens/params.rs.

#include "common/math.cuh"
#include "common/types.cuh"

namespace frazil {

// What the tensors of a side say.
enum class SeqlensForm : u32 {
    kDense = 0,          // nothing: the host knows all, and nothing is written
    kLengths = 1,        // lengths [B]; padded or paged, every sequence starts at its row 0
    kPackedLengths = 2,  // lengths [B]; a sequence starts at the sum of the lengths before it
    kPackedPrefix = 3,   // running sums [B + 1], from any base
    kPackedStarts = 4,   // lengths [B] and first rows [B]
};

// An int32 vector, in elements.
struct IntVector {
    const i32* data;
    i64 stride;

    __device__ __forceinline__ i64 operator[](i64 idx) const { return data[idx * stride]; }
};

// Where one packed tensor has its rows, as libraries want it that address elements.
struct ElementOffsets {
    i64* out;        // [B + 1]: of each first row; then of the row past the last sequence
    i64 row_stride;  // elements
};

// Tensors of one side that may have rows of their own: Q, O, LSE, max and sum-exp.
inline constexpr int kMaxElementOffsets = 5;

// What the tensors of a side say, and what bounds it.
struct SideLengths {
    SeqlensForm form;
    u32 unused;
    IntVector entries;  // lengths, or running sums
    IntVector starts;   // of kPackedStarts; null otherwise
    i64 min_len;        // a shorter length is an error, and kept
    i64 max_len;        // a longer one is an error, and cut
    i64 capacity;       // rows that sequences may reach: each, or packed, all together
};

struct SeqlensSide {
    SideLengths lengths;
    u64 num_offsets;   // 0..=kMaxElementOffsets; 0 unless packed
    i32* out_lengths;  // [B]; null where dense
    i32* out_starts;   // [B], first rows; null unless packed
    ElementOffsets offsets[kMaxElementOffsets];
};

// Bits of the error word. Those of page ids belong to the kernels that read page tables, which or
// them into the word that is written here.
struct SeqlensErrors {
    u32 length;  // below the least or above the greatest
    u32 rows;    // past the capacity, or a start outside it
};
inline constexpr SeqlensErrors kQErrors{1u << 0, 1u << 2};
inline constexpr SeqlensErrors kKvErrors{1u << 1, 1u << 3};

struct SeqlensParams {
    i64 batch;
    u32* error_word;  // out
    SeqlensSide q;
    SeqlensSide kv;
};

// A sequence on one side: as the tensors say, or bounded.
struct SequenceRows {
    i64 start;
    i64 len;
};

// What the tensors say of a sequence. The start of kPackedLengths is left at 0: it takes all the
// lengths before.
__device__ __forceinline__ SequenceRows read_rows(const SideLengths& side, i64 batch_idx) {
    if (side.form == SeqlensForm::kDense) return {0, 0};
    if (side.form == SeqlensForm::kPackedPrefix) {
        const i64 begin = side.entries[batch_idx];
        return {begin - side.entries[0], side.entries[batch_idx + 1] - begin};
    }
    const i64 start = side.form == SeqlensForm::kPackedStarts ? side.starts[batch_idx] : 0;
    return {start, side.entries[batch_idx]};
}

// As the tensors say, or `num_rows` of a dense side.
__device__ __forceinline__ SequenceRows rows_of(const SideLengths& side, i32 num_rows,
                                                i64 batch_idx) {
    if (side.form == SeqlensForm::kDense) return {0, num_rows};
    return read_rows(side, batch_idx);
}

// Bounds what was read and adds what was out of bounds to `errors`. Afterwards
// 0 <= start <= capacity, 0 <= len <= max_len and start + len <= capacity.
__device__ __forceinline__ SequenceRows bound_rows(SequenceRows read, const SideLengths& side,
                                                   SeqlensErrors bits, u32& errors) {
    const i64 known_len = max_of<i64>(read.len, 0);
    const i64 bounded_len = min_of(known_len, side.max_len);
    const i64 start = clamp<i64>(read.start, 0, side.capacity);
    const i64 len = min_of(bounded_len, side.capacity - start);
    if (read.len < 0 || known_len < side.min_len || known_len > bounded_len) errors |= bits.length;
    if (read.start != start || bounded_len > len) errors |= bits.rows;
    return {start, len};
}

// The starts of kPackedLengths for one chunk of the batch, one sequence a thread. A length above
// its bound moves what follows by all of itself, a negative one by nothing; `sum` is that of the
// chunks before. Every thread calls it; `warp_sums` as in block_sum.
template <int kNumWarps>
__device__ __forceinline__ void add_lengths(const SideLengths& side, SequenceRows& rows, i64& sum,
                                            i64 (&warp_sums)[kNumWarps]) {
    if (side.form != SeqlensForm::kPackedLengths) return;
    const BlockSum chunk = block_sum(max_of<i64>(rows.len, 0), warp_sums);
    rows.start = sum + chunk.before;
    sum += chunk.total;
}

// Bounds one sequence and writes it. What is written fits an int32: the capacity of a packed side
// does, and a length of any other side is at most what an int32 said. Dense rows are as they were.
__device__ __forceinline__ SequenceRows place_rows(SequenceRows read, const SeqlensSide& side,
                                                   i64 batch_idx, SeqlensErrors bits, u32& errors) {
    const SeqlensForm form = side.lengths.form;
    if (form == SeqlensForm::kDense) return read;
    const SequenceRows rows = bound_rows(read, side.lengths, bits, errors);
    side.out_lengths[batch_idx] = static_cast<i32>(rows.len);
    if (form != SeqlensForm::kLengths) {
        side.out_starts[batch_idx] = static_cast<i32>(rows.start);
    }
    return rows;
}

}  // namespace frazil
