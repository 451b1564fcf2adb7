#pragma once
// The two products of attention forward by mma.m16n8k16, with tiles in shared memory as
// smem_tile.cuh has them.

#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/ptx_mma.cuh"
#include "common/smem_tile.cuh"
#include "common/types.cuh"

namespace frazil {

// scores = Q K^T, of the warp's rows. Lanes address for ldmatrix: of Q row l % 16, chunk l / 16 of
// a step of 16 columns; of K, two blocks of 8 keys at once, row l % 8 + l / 16 * 8, chunk l / 8
// % 2.
template <class T>
__device__ __forceinline__ void multiply_qk(u32 q_tile, u32 k_tile, typename T::Scores& scores) {
    const u32 lane = lane_idx();
    const u32 q_lane =
        lane_address<T::kBlockM>(q_tile, warp_idx() * T::kWarpRows + lane % 16, lane / 16);
    const u32 k_lane = lane_address<T::kBlockN>(k_tile, lane % 8 + lane / 16 * 8, lane / 8 % 2);
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
                mma_m16n8k16(scores[block][2 * pair], q[block], k[0], k[1], typename T::Element{});
                mma_m16n8k16(scores[block][2 * pair + 1], q[block], k[2], k[3],
                             typename T::Element{});
            }
        }
    }
}

// out += P V. The fragments of the scores are those of the first operand, two blocks of 8 columns
// to a step. Lanes address V for ldmatrix: key l % 16, chunk l / 16 of two blocks of 8 columns.
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
            const float (&left)[4] = weights[block][2 * step];
            const float (&right)[4] = weights[block][2 * step + 1];
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

}  // namespace frazil
