#pragma once
// Division by a number that the host knows.

#include "common/types.cuh"

namespace frazil {

// A divisor with what replaces the division by it: n / divisor = (n * multiplier) >> (32 + shift),
// for 0 <= n < 2^31 (Granlund and Montgomery, "Division by invariant integers using
// multiplication", PLDI 1994, with a multiplier of 32 bits). Made by the host:
// crates/cuda/src/divide.rs.
struct Divisor {
    u32 divisor;  // 1..2^31
    u32 multiplier;
    u32 shift;
    u32 is_one;  // 1 for the divisor 1, whose multiplier would need 33 bits; else 0
};

struct Quotient {
    i32 quotient;
    i32 remainder;
};

__device__ __forceinline__ Quotient divide(i32 n, const Divisor& by) {
    const i32 high = static_cast<i32>(__umulhi(static_cast<u32>(n), by.multiplier) >> by.shift);
    const i32 quotient = by.is_one != 0 ? n : high;
    return {quotient, n - quotient * static_cast<i32>(by.divisor)};
}

}  // namespace frazil
