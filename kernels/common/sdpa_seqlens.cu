// Packed-length setup: the first kernel of every execute that device tensors steer.
//
// Turns what the tensors of both sides say, in whatever form, into bounded lengths and first rows
// in the workspace, and writes the error word, which later kernels may or bits into. Grid: one
// block of kNumThreads, whatever the batch; 0 sequences leave the error word alone to write.
//
// One artifact serves every form: the form is a value, so that packed plans of one engine do not
// differ in their kernels.

#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/seqlens.cuh"
#include "common/types.cuh"
#include "config.cuh"

namespace frazil {

template <class C>
struct SharedStorage {
    static constexpr int kNumWarps = C::kNumThreads / kWarpSize;
    i64 warp_sums[kNumWarps];
    u32 warp_bits[kNumWarps];
};

static_assert(Config::kNumThreads % kWarpSize == 0 && Config::kNumThreads >= kWarpSize &&
                  Config::kNumThreads <= 1024,
              "kNumThreads: whole warps of one block");
static_assert(sizeof(SharedStorage<Config>) == Config::kSmemBytes,
              "kSmemBytes: host and kernel disagree on shared memory");
static_assert(sizeof(SeqlensParams) == Config::kParamsBytes,
              "kParamsBytes: host and kernel disagree on the parameters");

// Bounds one sequence and writes it, in elements too.
__device__ __forceinline__ void write_rows(const SeqlensParams& params, const SeqlensSide& side,
                                           SequenceRows read, i64 batch_idx, SeqlensErrors bits,
                                           u32& errors) {
    const SequenceRows rows = place_rows(read, side, batch_idx, bits, errors);
    // The kernel runs once, so that every line of it is fetched: short code beats unrolled code.
#pragma unroll 1
    for (u64 idx = 0; idx < side.num_offsets; ++idx) {
        const ElementOffsets& offsets = side.offsets[idx];
        offsets.out[batch_idx] = rows.start * offsets.row_stride;
        if (batch_idx == params.batch - 1) {
            offsets.out[params.batch] = (rows.start + rows.len) * offsets.row_stride;
        }
    }
}

// The end of no sequences at all.
__device__ __forceinline__ void write_ends_of_none(const SeqlensSide& side) {
#pragma unroll 1
    for (u64 idx = 0; idx < side.num_offsets; ++idx) side.offsets[idx].out[0] = 0;
}

}  // namespace frazil

extern "C" __global__ void __launch_bounds__(frazil::Config::kNumThreads)
    frazil_sdpa_seqlens(const __grid_constant__ frazil::SeqlensParams params) {
    using namespace frazil;
    griddepcontrol_launch_dependents();
    __shared__ SharedStorage<Config> shared;

    u32 errors = 0;
    i64 q_sum = 0;
    i64 kv_sum = 0;
    // Every thread makes the same number of rounds, for the sums are the block's.
    for (i64 begin = 0; begin < params.batch; begin += Config::kNumThreads) {
        const i64 batch_idx = begin + threadIdx.x;
        const bool live = batch_idx < params.batch;
        SequenceRows q_rows{0, 0};
        SequenceRows kv_rows{0, 0};
        if (live) {
            q_rows = read_rows(params.q.lengths, batch_idx);
            kv_rows = read_rows(params.kv.lengths, batch_idx);
        }
        add_lengths(params.q.lengths, q_rows, q_sum, shared.warp_sums);
        add_lengths(params.kv.lengths, kv_rows, kv_sum, shared.warp_sums);
        if (live) {
            write_rows(params, params.q, q_rows, batch_idx, kQErrors, errors);
            write_rows(params, params.kv, kv_rows, batch_idx, kKvErrors, errors);
        }
    }

    errors = block_or(errors, shared.warp_bits);
    if (threadIdx.x == 0) {
        *params.error_word = errors;
        if (params.batch == 0) {
            write_ends_of_none(params.q);
            write_ends_of_none(params.kv);
        }
    }
}
