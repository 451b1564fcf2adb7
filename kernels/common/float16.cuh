#pragma once
// The two 16-bit floating-point types, two to a register. NVRTC alone has no <cuda_fp16.h>.

#include "common/types.cuh"

namespace frazil {

// IEEE 754 binary16.
struct F16 {
    u16 bits;
};

// The upper half of an f32.
struct Bf16 {
    u16 bits;
};

static_assert(sizeof(F16) == 2 && sizeof(Bf16) == 2, "widths of the ABI");

}  // namespace frazil
