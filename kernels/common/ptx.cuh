#pragma once
// One function for each instruction that CUDA C++ has no name for. `asm` stands here, and in the
// instruction headers of one family of instructions, alone.
//
// Sections are those of the PTX ISA, https://docs.nvidia.com/cuda/parallel-thread-execution/.

#include "common/float16.cuh"
#include "common/types.cuh"

namespace frazil {

// griddepcontrol.launch_dependents (section "Parallel Synchronization and Communication
// Instructions"; sm_90). Kernels queued behind this one with the attribute for programmatic
// serialization may start as soon as every block has executed it or has ended. It publishes
// nothing: they see what this kernel wrote only after a griddepcontrol.wait. Targets before sm_90
// do not have it, and there such kernels start when this one has ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// griddepcontrol.wait (same section; sm_90): until the kernels before are done, and what they wrote
// is seen. Every block of a kernel with the attribute executes it before it reads or writes
// anything of theirs, and before it ends.
__device__ __forceinline__ void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same number, of which the compiler knows nothing: what follows from it is computed anew where
// it is needed, instead of being kept in registers over a loop.
__device__ __forceinline__ u32 forgotten(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Address of shared memory as instructions take it, in the window of the state space.
__device__ __forceinline__ u32 smem_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// ex2.approx.ftz.f32 (section "Floating Point Instructions: ex2"): 2^x to 2 ulp; -inf gives +0.
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// lg2.approx.f32 (section "Floating Point Instructions: lg2"): 0 gives -inf.
__device__ __forceinline__ float log2_approx(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// rcp.approx.ftz.f32 (section "Floating Point Instructions: rcp"): to 1 ulp; +inf gives +0.
__device__ __forceinline__ float rcp_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// cvt.rn.{f16x2,bf16x2}.f32 (section "Data Movement and Conversion Instructions: cvt"): two numbers
// rounded to nearest even in one register, `low` in its lower half.
__device__ __forceinline__ u32 pack_rn(float low, float high, F16) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ u32 pack_rn(float low, float high, Bf16) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// cvt.f32.f16 (same section): exact.
__device__ __forceinline__ float to_f32(F16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ float to_f32(Bf16 x) { return __uint_as_float(u32{x.bits} << 16); }

// red.relaxed.gpu.global.or.b32 (section "Parallel Synchronization and Communication Instructions:
// red").
__device__ __forceinline__ void global_or(u32* word, u32 bits) {
    asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(word), "r"(bits) : "memory");
}

}  // namespace frazil
