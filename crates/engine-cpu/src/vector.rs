//! Arithmetic on contiguous f32, compiled twice on x86-64: for every processor, and for AVX2 with
//! FMA, chosen at run time.

use half::{bf16, f16};

/// Numbers that a reduction keeps apart, so that its order is fixed and vectors fit.
const LANES: usize = 16;

/// Rows that [`Isa::transpose_panel`] takes at once.
pub(crate) const PANEL: usize = 16;

/// The instructions at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Isa(Level);

/// Not made but by [`Isa::detect`]: a value is proof of the instructions that it names.
#[derive(Clone, Copy, Debug)]
enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The best this processor has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return Self(Level::Avx2);
        }
        Self(Level::Baseline)
    }
}

macro_rules! compiled_per_level {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        impl Isa {$(
            $(#[$doc])*
            pub(crate) fn $name(self, $($arg: $ty),*) $(-> $ret)? {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    body::$name::<true>($($arg),*)
                }
                match self.0 {
                    // NEON always has fused multiply-add.
                    Level::Baseline => body::$name::<{ cfg!(target_arch = "aarch64") }>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: `Level::Avx2` is made only where both features were detected.
                    Level::Avx2 => unsafe { avx2($($arg),*) },
                }
            }
        )*}
    };
}

compiled_per_level! {
    /// The greatest of `start` and the row. A NaN is passed over; [`Isa::exp_sum`] reports it.
    fn max(row: &[f32], start: f32) -> f32;
    /// Replaces each `x` by `exp(x - reference)`, for `x <= reference`, and adds them up. A NaN
    /// stays one and makes the sum one.
    fn exp_sum(row: &mut [f32], reference: f32) -> f32;
    /// Multiplies the row.
    fn scale(row: &mut [f32], factor: f32);
    /// Replaces each `x` by `cap * tanh(x / cap)`.
    fn soft_cap(row: &mut [f32], cap: f32);
    /// Adds `other`.
    fn add(row: &mut [f32], other: &[f32]);
    /// Subtracts `slope * |first + at|` at each position.
    fn alibi(row: &mut [f32], slope: f32, first: f32);
    /// Converts; exact.
    fn widen_f16(from: &[f16], to: &mut [f32]);
    /// Converts; exact.
    fn widen_bf16(from: &[bf16], to: &mut [f32]);
    /// Writes `PANEL` rows of `panel` as columns: column `c` of row `r` goes to `c * pitch + r`.
    fn transpose_panel(panel: &[f32], to: &mut [f32], pitch: usize);
}

/// The functions themselves. `FUSED`: a multiply-add is one instruction here.
mod body {
    use super::{LANES, PANEL, bf16, f16};

    #[inline(always)]
    fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
        if FUSED { a.mul_add(b, c) } else { a * b + c }
    }

    /// `2^x` for `x <= 126`: below -126 it is 0; a NaN stays.
    ///
    /// `2^n * (1 + f p(f))` with `n` the nearest integer and `|f| <= 1/2`; the polynomial is that
    /// of `exp2f` in the Cephes library (Moshier), relative error below 2e-7.
    #[inline(always)]
    fn exp2<const FUSED: bool>(x: f32) -> f32 {
        // Adding it leaves the nearest integer in the low bits: 1.5 * 2^23.
        const ROUND: f32 = 12_582_912.0;
        const P: [f32; 6] = [
            1.535_336_2e-4,
            1.339_887_4e-3,
            9.618_437e-3,
            5.550_332_5e-2,
            2.402_264_8e-1,
            6.931_472e-1,
        ];
        let clamped = if x < -126.0 { -126.0 } else { x };
        let rounded = clamped + ROUND;
        let f = clamped - (rounded - ROUND);
        let mut p = P[0];
        for &coefficient in &P[1..] {
            p = multiply_add::<FUSED>(p, f, coefficient);
        }
        let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
        let value = multiply_add::<FUSED>(p, f, 1.0) * power;
        if x < -126.0 { 0.0 } else { value }
    }

    /// Polynomial of `tanhf` in the Cephes library below 0.625, `1 - 2 / (e^2x + 1)` above.
    #[inline(always)]
    fn tanh<const FUSED: bool>(x: f32) -> f32 {
        const P: [f32; 5] =
            [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
        let size = x.abs();
        let square = x * x;
        let mut p = P[0];
        for &coefficient in &P[1..] {
            p = multiply_add::<FUSED>(p, square, coefficient);
        }
        let small = multiply_add::<FUSED>(p * square, x, x);
        // tanh(10) rounds to 1.
        let bounded = if size > 10.0 { 10.0 } else { size };
        let large = 1.0 - 2.0 / (exp2::<FUSED>(bounded * (2.0 * std::f32::consts::LOG2_E)) + 1.0);
        if size < 0.625 { small } else { large.copysign(x) }
    }

    #[inline(always)]
    fn fold(lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = lanes;
        let mut half = LANES / 2;
        while half > 0 {
            for at in 0..half {
                lanes[at] = join(lanes[at], lanes[at + half]);
            }
            half /= 2;
        }
        lanes[0]
    }

    #[inline(always)]
    pub(super) fn max<const FUSED: bool>(row: &[f32], start: f32) -> f32 {
        let greater = |x: f32, most: f32| if x > most { x } else { most };
        let mut lanes = [start; LANES];
        let (chunks, tail) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = greater(x, *lane);
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(tail) {
            *lane = greater(x, *lane);
        }
        fold(lanes, greater)
    }

    #[inline(always)]
    pub(super) fn exp_sum<const FUSED: bool>(row: &mut [f32], reference: f32) -> f32 {
        let mut lanes = [0.0_f32; LANES];
        let (chunks, tail) = row.as_chunks_mut::<LANES>();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *x = exp2::<FUSED>((*x - reference) * std::f32::consts::LOG2_E);
                *lane += *x;
            }
        }
        for (lane, x) in lanes.iter_mut().zip(tail) {
            *x = exp2::<FUSED>((*x - reference) * std::f32::consts::LOG2_E);
            *lane += *x;
        }
        fold(lanes, |a, b| a + b)
    }

    #[inline(always)]
    pub(super) fn scale<const FUSED: bool>(row: &mut [f32], factor: f32) {
        row.iter_mut().for_each(|x| *x *= factor);
    }

    #[inline(always)]
    pub(super) fn soft_cap<const FUSED: bool>(row: &mut [f32], cap: f32) {
        row.iter_mut().for_each(|x| *x = cap * tanh::<FUSED>(*x / cap));
    }

    #[inline(always)]
    pub(super) fn add<const FUSED: bool>(row: &mut [f32], other: &[f32]) {
        row.iter_mut().zip(other).for_each(|(x, &y)| *x += y);
    }

    #[inline(always)]
    pub(super) fn alibi<const FUSED: bool>(row: &mut [f32], slope: f32, first: f32) {
        for (at, x) in (0_u16..).zip(row) {
            *x = multiply_add::<FUSED>(-slope, (first + f32::from(at)).abs(), *x);
        }
    }

    #[inline(always)]
    pub(super) fn widen_f16<const FUSED: bool>(from: &[f16], to: &mut [f32]) {
        // Exponent bias: 127 - 15, applied by a multiplication, which is exact and also right for
        // subnormal numbers.
        const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
        for (from, to) in from.iter().zip(to) {
            let bits = u32::from(from.to_bits());
            let finite = f32::from_bits((bits & 0x7fff) << 13) * REBIAS;
            let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
            *to = f32::from_bits(finite.to_bits() | special | (bits & 0x8000) << 16);
        }
    }

    #[inline(always)]
    pub(super) fn widen_bf16<const FUSED: bool>(from: &[bf16], to: &mut [f32]) {
        for (from, to) in from.iter().zip(to) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }

    #[inline(always)]
    pub(super) fn transpose_panel<const FUSED: bool>(panel: &[f32], to: &mut [f32], pitch: usize) {
        let columns = panel.len() / PANEL;
        let rows: [&[f32]; PANEL] = std::array::from_fn(|row| &panel[row * columns..][..columns]);
        for (column, to) in to.chunks_mut(pitch).take(columns).enumerate() {
            for (to, row) in to[..PANEL].iter_mut().zip(rows) {
                *to = row[column];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [fn() -> Isa; 2] = [|| Isa(Level::Baseline), Isa::detect];

    #[test]
    fn exp_is_accurate() {
        for isa in LEVELS.map(|level| level()) {
            let mut worst = 0.0_f64;
            for step in 0..=870_000_i32 {
                let x = step as f32 * -1e-4;
                let mut row = [x];
                let sum = isa.exp_sum(&mut row, 0.0);
                assert_eq!(sum.to_bits(), row[0].to_bits());
                let exact = f64::from(x).exp();
                // The product with log2(e) is rounded once: relative error |x| 2^-24.
                let rounding = 1.0 + f64::from(x).abs();
                worst = worst.max((f64::from(row[0]) - exact).abs() / exact / rounding);
            }
            assert!(worst < 2.5e-7, "{isa:?}: {worst:e}");
        }
    }

    #[test]
    fn exp_keeps_nan_and_sends_minus_infinity_to_zero() {
        for isa in LEVELS.map(|level| level()) {
            let mut row = [f32::NAN, f32::NEG_INFINITY, 0.0, -1e30, -200.0];
            assert!(isa.exp_sum(&mut row, 0.0).is_nan());
            assert!(row[0].is_nan());
            assert_eq!(row[1..], [0.0, 1.0, 0.0, 0.0]);
        }
    }

    #[test]
    fn tanh_is_accurate() {
        for isa in LEVELS.map(|level| level()) {
            for step in -40_000_i32..=40_000 {
                let x = step as f32 * 1e-3;
                let mut row = [x];
                isa.soft_cap(&mut row, 2.0);
                let exact = 2.0 * (f64::from(x) / 2.0).tanh();
                let error = (f64::from(row[0]) - exact).abs();
                assert!(error <= 3e-7 * exact.abs(), "{isa:?} {x}: {} for {exact}", row[0]);
            }
            let mut row = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            isa.soft_cap(&mut row, 5.0);
            assert_eq!(row[..2], [5.0, -5.0]);
            assert!(row[2].is_nan());
        }
    }

    #[test]
    fn reductions_take_every_length() {
        for isa in LEVELS.map(|level| level()) {
            for len in 0..70_usize {
                let row: Vec<f32> = (0..len).map(|at| ((at * 29) % 31) as f32 - 40.0).collect();
                let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(isa.max(&row, f32::NEG_INFINITY), most);
                let sum = isa.exp_sum(&mut row.clone(), 0.0);
                let exact: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
                assert!((f64::from(sum) - exact).abs() <= 4e-6 * exact);
            }
        }
    }

    #[test]
    fn every_half_is_widened_exactly() {
        for isa in LEVELS.map(|level| level()) {
            for bits in 0..=u16::MAX {
                let mut wide = [0.0, 0.0];
                isa.widen_f16(&[f16::from_bits(bits)], &mut wide[..1]);
                isa.widen_bf16(&[bf16::from_bits(bits)], &mut wide[1..]);
                let exact = [f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32()];
                for (wide, exact) in wide.into_iter().zip(exact) {
                    assert!(wide.to_bits() == exact.to_bits() || wide.is_nan() && exact.is_nan());
                }
            }
        }
    }
}
