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

    /// Every set of instructions this processor has.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self(Level::Portable(simd::Portable(())))];
        let best = Self::detect();
        #[cfg(target_arch = "x86_64")]
        if let Level::Avx512(_) = best.0 {
            all.push(Self(Level::Avx2(simd::Avx2(()))));
        }
        all.push(best);
        all
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
