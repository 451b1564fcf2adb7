#pragma once
// Division by a number that the compiler or the host knows.

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

// A divisor that is compiled in.
template <i32 kDivisor>
struct FixedDivisor {};

struct Quotient {
    i32 quotient;
    i32 remainder;
};

__device__ __forceinline__ Quotient divide(i32 n, const Divisor& by) {
    const i32 high = static_cast<i32>(__umulhi(static_cast<u32>(n), by.multiplier) >> by.shift);
    const i32 quotient = by.is_one != 0 ? n : high;
    return {quotient, n - quotient * static_cast<i32>(by.divisor)};
}

template <i32 kDivisor>
__device__ __forceinline__ Quotient divide(i32 n, FixedDivisor<kDivisor>) {
    return {n / kDivisor, n % kDivisor};
}

// Rounded up.
template <class By>
__device__ __forceinline__ i32 divide_up_by(i32 n, const By& by) {
    const Quotient down = divide(n, by);
    return down.quotient + (down.remainder != 0 ? 1 : 0);
}

}  // namespace frazil
