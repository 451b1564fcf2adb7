//! Vectors of f32 under one trait, one implementation for each set of instructions.
//!
//! An implementation is a token: a value of it is proof that the processor has the instructions, so
//! that its methods are safe. Tokens are made by detection alone ([`super::Isa::detect`]). Methods
//! are inlined into functions compiled for these instructions ([`super::Isa::run`]).

use half::{bf16, f16};

/// Arithmetic on vectors of f32.
pub(crate) trait Simd: Copy {
    /// `LANES` numbers.
    type Vector: Copy;
    /// Numbers in a vector.
    const LANES: usize;

    /// The number in every lane.
    fn splat(self, value: f32) -> Self::Vector;
    /// The first `LANES` numbers of a slice.
    fn load(self, from: &[f32]) -> Self::Vector;
    /// The first `LANES` numbers of a slice; exact.
    fn load_f16(self, from: &[f16]) -> Self::Vector;
    /// The first `LANES` numbers of a slice; exact.
    fn load_bf16(self, from: &[bf16]) -> Self::Vector;
    /// Writes the first `LANES` numbers of a slice.
    fn store(self, vector: Self::Vector, to: &mut [f32]);
    /// `a + b`.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b`.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`.
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b + c`, rounded once where the processor has an instruction for it.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `a` where it is greater than `b`, else `b`: a NaN in `a` is passed over, one in `b` stays.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `yes` where `a > b`, else `no`.
    fn select_greater(
        self,
        compared: (Self::Vector, Self::Vector),
        yes: Self::Vector,
        no: Self::Vector,
    ) -> Self::Vector;
    /// Asks for the cache line of an address, where the processor has an instruction for it.
    fn prefetch(self, address: usize);
    /// The sum of all lanes.
    fn sum(self, vector: Self::Vector) -> f32;
    /// The sum of all lanes of each.
    #[inline(always)]
    fn sums(self, vectors: [Self::Vector; 4]) -> [f32; 4] {
        let [a, b, c, d] = vectors;
        [self.sum(a), self.sum(b), self.sum(c), self.sum(d)]
    }
    /// The greatest lane; none is NaN.
    #[inline(always)]
    fn greatest(self, vector: Self::Vector) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; 16];
        self.store(vector, &mut lanes);
        lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    /// `2^n` for the integer `n >= -127` in the low 9 bits of each number's representation, 0 for
    /// -127.
    fn power_of_two(self, bits: Self::Vector) -> Self::Vector;
}

/// Plain loops over eight numbers, for the compiler to make vectors of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable(pub(super) ());

impl Portable {
    #[inline(always)]
    fn zip(a: [f32; 8], b: [f32; 8], join: impl Fn(f32, f32) -> f32) -> [f32; 8] {
        std::array::from_fn(|at| join(a[at], b[at]))
    }
}

impl Simd for Portable {
    type Vector = [f32; 8];
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> [f32; 8] {
        std::array::from_fn(|at| from[..8][at])
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> [f32; 8] {
        // Exponent bias: 127 - 15, applied by a multiplication, which is exact and also right for
        // subnormal numbers.
        const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
        let from = &from[..8];
        std::array::from_fn(|at| {
            let bits = u32::from(from[at].to_bits());
            let finite = f32::from_bits((bits & 0x7fff) << 13) * REBIAS;
            let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
            f32::from_bits(finite.to_bits() | special | (bits & 0x8000) << 16)
        })
    }

    #[inline(always)]
    fn load_bf16(self, from: &[bf16]) -> [f32; 8] {
        let from = &from[..8];
        std::array::from_fn(|at| f32::from_bits(u32::from(from[at].to_bits()) << 16))
    }

    #[inline(always)]
    fn prefetch(self, _address: usize) {}

    #[inline(always)]
    fn sum(self, vector: [f32; 8]) -> f32 {
        let [a, b, c, d, e, f, g, h] = vector;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    #[inline(always)]
    fn store(self, vector: [f32; 8], to: &mut [f32]) {
        to[..8].copy_from_slice(&vector);
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        Self::zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        Self::zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        Self::zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        Self::zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        // NEON always has the fused instruction; without one `f32::mul_add` is a function call.
        if cfg!(target_arch = "aarch64") {
            std::array::from_fn(|at| a[at].mul_add(b[at], c[at]))
        } else {
            std::array::from_fn(|at| a[at] * b[at] + c[at])
        }
    }

    #[inline(always)]
    fn max(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        Self::zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn select_greater(self, (a, b): ([f32; 8], [f32; 8]), yes: [f32; 8], no: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|at| if a[at] > b[at] { yes[at] } else { no[at] })
    }

    #[inline(always)]
    fn power_of_two(self, bits: [f32; 8]) -> [f32; 8] {
        bits.map(|bits| f32::from_bits((bits.to_bits() << 23).wrapping_add(127 << 23)))
    }
}

/// Implements [`Simd`] by intrinsics whose names differ in prefix and width alone.
#[cfg(target_arch = "x86_64")]
macro_rules! by_intrinsics {
    ($(#[$doc:meta])* $token:ident, $features:literal, $lanes:literal, $vector:ident,
     |$greater:ident, $no:ident, $yes:ident| $blend:expr, {
        $compare:ident, $splat:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $fma:ident,
        $max:ident, $as_int:ident, $as_float:ident, $shift:ident, $add_int:ident, $splat_int:ident,
        $load_f16:ident, $load_bf16:ident, $sum:ident
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $token(pub(super) ());

        impl Simd for $token {
            type Vector = x86::$vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(self, value: f32) -> Self::Vector {
                // SAFETY: the token proves that the processor has the instruction.
                unsafe { x86::$splat(value) }
            }

            #[inline(always)]
            fn load(self, from: &[f32]) -> Self::Vector {
                let from = &from[..$lanes];
                // SAFETY: as in `splat`; the slice holds that many numbers.
                unsafe { x86::$load(from.as_ptr()) }
            }

            #[inline(always)]
            fn load_f16(self, from: &[f16]) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { $load_f16(from) }
            }

            #[inline(always)]
            fn load_bf16(self, from: &[bf16]) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { $load_bf16(from) }
            }

            #[inline(always)]
            fn prefetch(self, address: usize) {
                let address = std::ptr::without_provenance(address);
                // SAFETY: the instruction is there on every such processor, reads nothing that the
                // program sees and takes any address.
                unsafe { x86::_mm_prefetch::<{ x86::_MM_HINT_T1 }>(address) }
            }

            #[inline(always)]
            fn sum(self, vector: Self::Vector) -> f32 {
                // SAFETY: as in `splat`.
                unsafe { $sum(vector) }
            }

            #[inline(always)]
            fn store(self, vector: Self::Vector, to: &mut [f32]) {
                let to = &mut to[..$lanes];
                // SAFETY: as in `load`.
                unsafe { x86::$store(to.as_mut_ptr(), vector) }
            }

            #[inline(always)]
            fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { x86::$add(a, b) }
            }

            #[inline(always)]
            fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { x86::$sub(a, b) }
            }

            #[inline(always)]
            fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { x86::$mul(a, b) }
            }

            #[inline(always)]
            fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { x86::$div(a, b) }
            }

            #[inline(always)]
            fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { x86::$fma(a, b, c) }
            }

            #[inline(always)]
            fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as in `splat`.
                unsafe { x86::$max(a, b) }
            }

            #[inline(always)]
            fn select_greater(
                self,
                (a, b): (Self::Vector, Self::Vector),
                yes: Self::Vector,
                no: Self::Vector,
            ) -> Self::Vector {
                #[inline]
                #[target_feature(enable = $features)]
                fn select(
                    (a, b): (x86::$vector, x86::$vector),
                    yes: x86::$vector,
                    no: x86::$vector,
                ) -> x86::$vector {
                    let $greater = x86::$compare::<{ x86::_CMP_GT_OQ }>(a, b);
                    let ($no, $yes) = (no, yes);
                    $blend
                }
                // SAFETY: as in `splat`.
                unsafe { select((a, b), yes, no) }
            }

            #[inline(always)]
            fn power_of_two(self, bits: Self::Vector) -> Self::Vector {
                #[inline]
                #[target_feature(enable = $features)]
                fn power_of_two(bits: x86::$vector) -> x86::$vector {
                    let exponent = x86::$shift::<23>(x86::$as_int(bits));
                    x86::$as_float(x86::$add_int(exponent, x86::$splat_int(127 << 23)))
                }
                // SAFETY: as in `splat`.
                unsafe { power_of_two(bits) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

#[cfg(target_arch = "x86_64")]
by_intrinsics!(
    /// AVX2, FMA and F16C.
    Avx2, "avx2,fma,f16c", 8, __m256,
    |greater, no, yes| x86::_mm256_blendv_ps(no, yes, greater),
    {
        _mm256_cmp_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_sub_ps,
        _mm256_mul_ps, _mm256_div_ps, _mm256_fmadd_ps, _mm256_max_ps, _mm256_castps_si256, _mm256_castsi256_ps,
        _mm256_slli_epi32, _mm256_add_epi32, _mm256_set1_epi32, load_f16x8, load_bf16x8, sum_x8
    }
);

#[cfg(target_arch = "x86_64")]
by_intrinsics!(
    /// AVX-512, of which the foundation is enough.
    Avx512, "avx512f", 16, __m512,
    |greater, no, yes| x86::_mm512_mask_blend_ps(greater, no, yes),
    {
        _mm512_cmp_ps_mask, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_sub_ps,
        _mm512_mul_ps, _mm512_div_ps, _mm512_fmadd_ps, _mm512_max_ps, _mm512_castps_si512, _mm512_castsi512_ps,
        _mm512_slli_epi32, _mm512_add_epi32, _mm512_set1_epi32, load_f16x16, load_bf16x16,
        sum_x16
    }
);

/// The first eight numbers of a slice.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load_f16x8(from: &[f16]) -> x86::__m256 {
    let from = &from[..8];
    // SAFETY: the slice holds eight numbers of 16 bits.
    x86::_mm256_cvtph_ps(unsafe { x86::_mm_loadu_si128(from.as_ptr().cast()) })
}

/// The first eight numbers of a slice.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn load_bf16x8(from: &[bf16]) -> x86::__m256 {
    let from = &from[..8];
    // SAFETY: the slice holds eight numbers of 16 bits.
    let bits = unsafe { x86::_mm_loadu_si128(from.as_ptr().cast()) };
    x86::_mm256_castsi256_ps(x86::_mm256_slli_epi32::<16>(x86::_mm256_cvtepu16_epi32(bits)))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sum_x8(vector: x86::__m256) -> f32 {
    let halves = x86::_mm_add_ps(
        x86::_mm256_castps256_ps128(vector),
        x86::_mm256_extractf128_ps::<1>(vector),
    );
    let quarters = x86::_mm_add_ps(halves, x86::_mm_movehl_ps(halves, halves));
    x86::_mm_cvtss_f32(x86::_mm_add_ss(quarters, x86::_mm_movehdup_ps(quarters)))
}

/// The first sixteen numbers of a slice.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_f16x16(from: &[f16]) -> x86::__m512 {
    let from = &from[..16];
    // SAFETY: the slice holds sixteen numbers of 16 bits.
    x86::_mm512_cvtph_ps(unsafe { x86::_mm256_loadu_si256(from.as_ptr().cast()) })
}

/// The first sixteen numbers of a slice.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_bf16x16(from: &[bf16]) -> x86::__m512 {
    let from = &from[..16];
    // SAFETY: the slice holds sixteen numbers of 16 bits.
    let bits = unsafe { x86::_mm256_loadu_si256(from.as_ptr().cast()) };
    x86::_mm512_castsi512_ps(x86::_mm512_slli_epi32::<16>(x86::_mm512_cvtepu16_epi32(bits)))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_x16(vector: x86::__m512) -> f32 {
    x86::_mm512_reduce_add_ps(vector)
}
