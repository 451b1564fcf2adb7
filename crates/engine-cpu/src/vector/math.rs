//! Functions on vectors.

use super::simd::Simd;

/// `2^x` for `x <= 126`; 0 where it is below the least normal number; a NaN stays.
///
/// `2^n * (1 + f p(f))` with `n` the nearest integer and `|f| <= 1/2`; the polynomial is that of
/// `exp2f` in the Cephes library (Moshier), relative error below 2e-7.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    // Adding it leaves the nearest integer in the low bits: 1.5 * 2^23.
    let round = simd.splat(12_582_912.0);
    let x = simd.max(simd.splat(-127.0), x);
    let rounded = simd.add(x, round);
    let f = simd.sub(x, simd.sub(rounded, round));
    let mut p = simd.splat(POLYNOMIAL[0]);
    for &coefficient in &POLYNOMIAL[1..] {
        p = simd.mul_add(p, f, simd.splat(coefficient));
    }
    simd.mul(simd.mul_add(p, f, simd.splat(1.0)), simd.power_of_two(rounded))
}

/// From the highest power down.
const POLYNOMIAL: [f32; 6] =
    [1.535_336_2e-4, 1.339_887_4e-3, 9.618_437e-3, 5.550_332_5e-2, 2.402_264_8e-1, 6.931_472e-1];

/// Hyperbolic tangent: the polynomial of `tanhf` in the Cephes library below 0.625,
/// `1 - 2 / (e^2x + 1)` above. A NaN stays.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const P: [f32; 5] =
        [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
    let (zero, one, two) = (simd.splat(0.0), simd.splat(1.0), simd.splat(2.0));
    let size = simd.max(simd.sub(zero, x), x);
    let square = simd.mul(x, x);
    let mut p = simd.splat(P[0]);
    for &coefficient in &P[1..] {
        p = simd.mul_add(p, square, simd.splat(coefficient));
    }
    let small = simd.mul_add(simd.mul(p, square), x, x);
    // tanh(10) rounds to 1. A NaN is the second operand.
    let limit = simd.splat(10.0);
    let bounded = simd.select_greater((size, limit), limit, size);
    let power = exp2(simd, simd.mul(bounded, simd.splat(2.0 * std::f32::consts::LOG2_E)));
    let large = simd.sub(one, simd.div(two, simd.add(power, one)));
    let large = simd.select_greater((zero, x), simd.sub(zero, large), large);
    simd.select_greater((simd.splat(0.625), size), small, large)
}
