//! The types that tensors are made of, read as f32.

use half::{bf16, f16};

use super::{Program, Simd};

/// A number of a tensor.
pub(crate) trait Number: Copy {
    /// As f32; exact.
    fn widen(self) -> f32;
    /// The first `LANES` numbers of a slice; exact.
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Vector;
}

impl Number for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Vector {
        simd.load(from)
    }
}

impl Number for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Vector {
        simd.load_f16(from)
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Vector {
        simd.load_bf16(from)
    }
}

/// Copies numbers as f32; both slices are of one length.
#[derive(Debug)]
pub(crate) struct Widen<'a, T> {
    pub(crate) from: &'a [T],
    pub(crate) to: &'a mut [f32],
}

impl<T: Number> Program for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let mut from = self.from.chunks_exact(S::LANES);
        let mut to = self.to.chunks_exact_mut(S::LANES);
        for (from, to) in from.by_ref().zip(to.by_ref()) {
            simd.store(T::load(simd, from), to);
        }
        for (from, to) in from.remainder().iter().zip(to.into_remainder()) {
            *to = from.widen();
        }
    }
}
