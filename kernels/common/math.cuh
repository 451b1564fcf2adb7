#pragma once
// Integer arithmetic, and sums over warps and blocks.

#include "common/types.cuh"

namespace frazil {

inline constexpr int kWarpSize = 32;
inline constexpr u32 kFullWarp = 0xffffffff;

__device__ __forceinline__ int lane_idx() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int warp_idx() { return static_cast<int>(threadIdx.x) / kWarpSize; }

template <class T>
__device__ __forceinline__ constexpr T min_of(T a, T b) {
    return b < a ? b : a;
}

template <class T>
__device__ __forceinline__ constexpr T max_of(T a, T b) {
    return a < b ? b : a;
}

// The number nearest to `value` in low..=high; low <= high.
template <class T>
__device__ __forceinline__ constexpr T clamp(T value, T low, T high) {
    return max_of(low, min_of(value, high));
}

// Neither is negative, and `by` is not 0; without the sum that could overflow.
template <class T>
__device__ __forceinline__ constexpr T divide_up(T n, T by) {
    return n / by + (n % by != 0 ? 1 : 0);
}

// Sum over the lanes up to and including this one (Hillis and Steele, "Data parallel algorithms",
// CACM 29(12), 1986). All 32 lanes call it. Not unrolled: kernels that sum run once, and what they
// mostly wait for is their code.
__device__ __forceinline__ i64 warp_inclusive_sum(i64 value) {
#pragma unroll 1
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const i64 before = __shfl_up_sync(kFullWarp, value, distance);
        if (lane_idx() >= distance) value += before;
    }
    return value;
}

// Over all lanes, the same bits in each of them: an addition is commutative. All 32 lanes call it.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, distance);
    }
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, distance));
    }
    return value;
}

struct BlockSum {
    i64 before;  // over the threads before this one
    i64 total;   // over the whole block
};

// Sums over the threads of a block of whole warps, in the order of threadIdx.x. Every thread calls
// it. `warp_sums` is shared memory that may be used again, for this or anything else, on return.
template <int kNumWarps>
__device__ __forceinline__ BlockSum block_sum(i64 value, i64 (&warp_sums)[kNumWarps]) {
    static_assert(kNumWarps <= kWarpSize, "one lane for each warp");
    const i64 inclusive = warp_inclusive_sum(value);
    if (lane_idx() == kWarpSize - 1) warp_sums[warp_idx()] = inclusive;
    __syncthreads();
    // Every warp sums what the warps have, by the code that is already there.
    const i64 of_warp = lane_idx() < kNumWarps ? warp_sums[lane_idx()] : 0;
    const i64 through_warp = warp_inclusive_sum(of_warp);
    const i64 before = __shfl_sync(kFullWarp, through_warp - of_warp, warp_idx());
    const i64 total = __shfl_sync(kFullWarp, through_warp, kWarpSize - 1);
    __syncthreads();
    return {before + inclusive - value, total};
}

// The bits that any thread of a block of whole warps gives. Every thread calls it and gets them;
// `warp_bits` as in `block_sum`.
template <int kNumWarps>
__device__ __forceinline__ u32 block_or(u32 bits, u32 (&warp_bits)[kNumWarps]) {
    const u32 of_warp = __reduce_or_sync(kFullWarp, bits);
    if (lane_idx() == 0) warp_bits[warp_idx()] = of_warp;
    __syncthreads();
    u32 of_block = 0;
#pragma unroll
    for (int warp = 0; warp < kNumWarps; ++warp) of_block |= warp_bits[warp];
    __syncthreads();
    return of_block;
}

}  // namespace frazil
