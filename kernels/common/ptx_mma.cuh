#pragma once
// Matrix instructions of a warp and the copies that feed them: sm_80 and later.
//
// Sections are those of the PTX ISA. A fragment is what one lane holds of a matrix; with
// g = lane / 4 and q = lane % 4, of a 16 x 16 operand A: a[0] is row g, columns 2q and 2q + 1; a[1]
// row g + 8; a[2] and a[3] the same rows, columns 8 further. Of a 16 x 8 result: c[0] and c[1] are
// row g, columns 2q and 2q + 1, c[2] and c[3] row g + 8.

#include "common/float16.cuh"
#include "common/types.cuh"

namespace frazil {

// mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16} (section "Warp-level matrix instructions: mma"):
// c += a b, where b0 is rows 2q and 2q + 1 of column g of B, b1 the rows 8 further.
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1,
                                             F16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1,
                                             Bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16 (section "Warp-level matrix load instruction:
// ldmatrix"): four 8 x 8 matrices; lanes 8i..8i + 8 give the addresses of the rows of matrix i,
// 16 bytes each, and register i of a lane holds columns 2q and 2q + 1 of row g of it, or, `_trans`,
// rows 2q and 2q + 1 of column g.
__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// cp.async.cg.shared.global (section "Data Movement and Conversion Instructions: cp.async"): 16
// bytes, by way of L2 alone; zeros where `is_live` is false, and then nothing is read.
__device__ __forceinline__ void cp_async_16(u32 to, const void* from, bool is_live) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_live ? 16 : 0)
                 : "memory");
}

// cp.async.commit_group: the copies of this thread since the last one become a group.
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// cp.async.wait_group: all groups of this thread but the last kNumPending are complete. Other
// threads see their copies after a barrier.
template <int kNumPending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kNumPending) : "memory");
}

}  // namespace frazil
