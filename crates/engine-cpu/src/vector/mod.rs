//! Arithmetic on f32, compiled for several sets of instructions and chosen at run time.
//!
//! Code map: `simd` is the trait of vectors and its implementations · [`Number`] are the types that
//! vectors are loaded from · `math` holds functions on vectors · [`Isa::run`] compiles a
//! [`Program`] for each set of instructions and picks one.

mod math;
mod number;
mod simd;

pub(crate) use math::{exp2, tanh};
pub(crate) use number::{Number, Widen};
pub(crate) use simd::Simd;

/// The instructions at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Isa(Level);

/// Tokens are made by [`Isa::detect`] alone.
#[derive(Clone, Copy, Debug)]
enum Level {
    Portable(simd::Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(simd::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(simd::Avx512),
}

impl Isa {
    /// The best this processor has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            // A hypervisor may hide some and show others.
            if has!("avx2") && has!("fma") && has!("f16c") {
                if has!("avx512f") {
                    return Self(Level::Avx512(simd::Avx512(())));
                }
                return Self(Level::Avx2(simd::Avx2(())));
            }
        }
        Self(Level::Portable(simd::Portable(())))
    }

    /// Every set of instructions this processor has, the best last.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let portable = Level::Portable(simd::Portable(()));
        let levels = match Self::detect().0 {
            Level::Portable(_) => vec![portable],
            #[cfg(target_arch = "x86_64")]
            best @ Level::Avx2(_) => vec![portable, best],
            // A processor that has AVX-512F has what `detect` asks of AVX2.
            #[cfg(target_arch = "x86_64")]
            best @ Level::Avx512(_) => vec![portable, Level::Avx2(simd::Avx2(())), best],
        };
        levels.into_iter().map(Self).collect()
    }

    /// Most lanes of a panel: as many vectors as leave no sum without a register.
    pub(crate) fn max_lanes(self) -> usize {
        let num_vectors = match self.0 {
            Level::Portable(_) => PORTABLE_VECTORS,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => 2,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => 3,
        };
        num_vectors * self.lanes()
    }

    /// Their name, for people.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Level::Portable(_) if cfg!(target_arch = "x86_64") => "SSE2",
            Level::Portable(_) if cfg!(target_arch = "aarch64") => "NEON",
            Level::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => "AVX2, FMA and F16C",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => "AVX-512F",
        }
    }

    /// Numbers in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self.0 {
            Level::Portable(_) => simd::Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => simd::Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => simd::Avx512::LANES,
        }
    }

    /// Runs a program on panels of one to three vectors of lanes, compiled for the instructions at
    /// hand.
    pub(crate) fn run<P: Program>(self, lanes: usize, program: P) -> P::Output {
        let num_vectors = lanes / self.lanes();
        match self.0 {
            Level::Portable(simd) => match num_vectors {
                1 => program.run::<_, 1, 4>(simd),
                _ => program.run::<_, PORTABLE_VECTORS, 4>(simd),
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(simd) => {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2<P: Program, const N: usize, const M: usize>(
                    program: P,
                    simd: simd::Avx2,
                ) -> P::Output {
                    program.run::<_, N, M>(simd)
                }
                match num_vectors {
                    // SAFETY: the token proves that the processor has these instructions.
                    1 => unsafe { avx2::<P, 1, 8>(program, simd) },
                    // SAFETY: as above.
                    _ => unsafe { avx2::<P, 2, 6>(program, simd) },
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(simd) => {
                #[target_feature(enable = "avx512f,avx2,fma,f16c")]
                fn avx512<P: Program, const N: usize, const M: usize>(
                    program: P,
                    simd: simd::Avx512,
                ) -> P::Output {
                    program.run::<_, N, M>(simd)
                }
                match num_vectors {
                    // SAFETY: the token proves that the processor has these instructions.
                    1 => unsafe { avx512::<P, 1, 8>(program, simd) },
                    // SAFETY: as above.
                    2 => unsafe { avx512::<P, 2, 8>(program, simd) },
                    // SAFETY: as above.
                    _ => unsafe { avx512::<P, 3, 8>(program, simd) },
                }
            }
        }
    }
}

/// Vectors of a panel without intrinsics: 32 registers of four numbers on 64-bit Arm, 16 elsewhere.
const PORTABLE_VECTORS: usize = if cfg!(target_arch = "aarch64") { 2 } else { 1 };

/// Rows that a program may take at once: it may read and write this many, less one, past the last.
pub(crate) const MAX_ROWS: usize = 8;

/// What [`Isa::run`] compiles for each set of instructions. `N` vectors of lanes stand side by side;
/// `M` rows, at most [`MAX_ROWS`], make as many sums as there are registers for.
pub(crate) trait Program {
    /// What it gives.
    type Output;
    /// Does the work. Implementations are `#[inline(always)]`, as all that they call, so that they
    /// are compiled for the instructions of their caller.
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) -> Self::Output;
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// A function on vectors, on every number of a slice of whole vectors.
    struct Map<'a, F>(&'a mut [f32], F);

    trait Function {
        fn of<S: Simd>(&self, simd: S, x: S::Vector) -> S::Vector;
    }

    impl<F: Function> Program for Map<'_, F> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
            for numbers in self.0.chunks_exact_mut(S::LANES) {
                simd.store(self.1.of(simd, simd.load(numbers)), numbers);
            }
        }
    }

    struct Exp2;
    impl Function for Exp2 {
        #[inline(always)]
        fn of<S: Simd>(&self, simd: S, x: S::Vector) -> S::Vector {
            exp2(simd, x)
        }
    }

    struct Tanh;
    impl Function for Tanh {
        #[inline(always)]
        fn of<S: Simd>(&self, simd: S, x: S::Vector) -> S::Vector {
            tanh(simd, x)
        }
    }

    fn mapped(isa: Isa, function: impl Function, x: impl Iterator<Item = f32>) -> Vec<f32> {
        let mut numbers: Vec<f32> = x.collect();
        numbers.resize(numbers.len().next_multiple_of(16), 0.0);
        isa.run(isa.lanes(), Map(&mut numbers, function));
        numbers
    }

    #[test]
    fn powers_of_two_are_accurate() {
        for isa in Isa::all() {
            let steps = -1_259_000..=1_000_000_i32;
            let x = |step: i32| step as f32 * 1e-4;
            let found = mapped(isa, Exp2, steps.clone().map(x));
            for (step, found) in steps.zip(found) {
                let exact = f64::from(x(step)).exp2();
                let error = (f64::from(found) - exact).abs() / exact;
                assert!(error < 2e-7, "{isa:?}: 2^{} is off by {error:e}", x(step));
            }
        }
    }

    #[test]
    fn powers_of_two_end_in_zero_and_keep_nan() {
        for isa in Isa::all() {
            let x = [f32::NAN, f32::NEG_INFINITY, -1e30, -127.0, -200.0, 0.0, 1.0, -126.0];
            let found = mapped(isa, Exp2, x.into_iter());
            assert!(found[0].is_nan(), "{isa:?}");
            assert_eq!(found[1..8], [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, f32::MIN_POSITIVE], "{isa:?}");
        }
    }

    #[test]
    fn tanh_is_accurate() {
        for isa in Isa::all() {
            let x = |step: i32| step as f32 * 1e-3;
            let found = mapped(isa, Tanh, (-40_000..=40_000).map(x));
            for (step, found) in (-40_000..=40_000).zip(found) {
                let exact = f64::from(x(step)).tanh();
                let error = (f64::from(found) - exact).abs();
                assert!(error <= 3e-7 * exact.abs(), "{isa:?} {}: {found} for {exact}", x(step));
            }
            let x = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            let found = mapped(isa, Tanh, x.into_iter());
            assert_eq!(found[..2], [1.0, -1.0], "{isa:?}");
            assert!(found[2].is_nan(), "{isa:?}");
        }
    }

    #[test]
    fn every_half_is_widened_exactly() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let f16s: Vec<f16> = all.iter().map(|&bits| f16::from_bits(bits)).collect();
        let bf16s: Vec<bf16> = all.iter().map(|&bits| bf16::from_bits(bits)).collect();
        for isa in Isa::all() {
            // A length that leaves a tail.
            let mut wide = vec![0.0; all.len() - 1];
            isa.run(isa.lanes(), Widen { from: &f16s[1..], to: &mut wide });
            for (wide, exact) in wide.iter().zip(f16s[1..].iter().map(|half| half.to_f32())) {
                assert!(wide.to_bits() == exact.to_bits() || wide.is_nan() && exact.is_nan());
            }
            isa.run(isa.lanes(), Widen { from: &bf16s[1..], to: &mut wide });
            for (wide, exact) in wide.iter().zip(bf16s[1..].iter().map(|half| half.to_f32())) {
                assert!(wide.to_bits() == exact.to_bits() || wide.is_nan() && exact.is_nan());
            }
        }
    }

    struct Reduce([f32; 16]);

    impl Program for Reduce {
        type Output = ([f32; 4], f32);

        #[inline(always)]
        fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) -> Self::Output {
            let (x, one) = (simd.load(&self.0), simd.splat(1.0));
            let sums = simd.sums([x, one, simd.mul(x, simd.splat(2.0)), simd.sub(one, x)]);
            (sums, simd.greatest(x))
        }
    }

    #[test]
    fn reductions_take_every_lane_once() {
        for isa in Isa::all() {
            // Powers of two: a lane left out or counted twice changes the sum.
            let x: [f32; 16] = std::array::from_fn(|at| ((1_u32 << at) % 65_521) as f32);
            let lanes = isa.lanes();
            let sum: f32 = x[..lanes].iter().sum();
            let found = isa.run(lanes, Reduce(x));
            assert_eq!(found.0, [sum, lanes as f32, 2.0 * sum, lanes as f32 - sum], "{isa:?}");
            for greatest in 0..lanes {
                let mut x = [-5.0; 16];
                x[greatest] = -1.0;
                assert_eq!(isa.run(lanes, Reduce(x)).1, -1.0, "{isa:?} lane {greatest}");
            }
        }
    }
}
