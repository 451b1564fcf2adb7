//! The arithmetic of a few rows: dot products, the softmax of a row, weighted sums.

use crate::memory::Strided;
use crate::vector::{Number, Program, Simd, exp2};

/// Rows that are asked for ahead of their use, so that memory is never idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    pub(super) address: usize,
    /// Bytes from row to row.
    pub(super) pitch: usize,
    pub(super) num_rows: usize,
    pub(super) row_bytes: usize,
}

impl Ahead {
    pub(super) const NOTHING: Self = Self { address: 0, pitch: 0, num_rows: 0, row_bytes: 0 };

    /// Asks for some rows from one on.
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, first: usize, count: usize) {
        let count = count.min(self.num_rows.saturating_sub(first));
        // Past the last row there may be no address; what is made there is not asked for.
        let mut address = self.address.wrapping_add(first.wrapping_mul(self.pitch));
        if self.pitch == self.row_bytes {
            // Rows without gaps are one stretch.
            let end = address.wrapping_add(count * self.row_bytes);
            while address < end {
                simd.prefetch(address);
                address += LINE;
            }
            return;
        }
        for _ in 0..count {
            for line in (0..self.row_bytes).step_by(LINE) {
                simd.prefetch(address + line);
            }
            address = address.wrapping_add(self.pitch);
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Rows of K whose dot products are made at once.
const GROUP: usize = 4;

/// `scores[key] = scale * q . k[key]`.
#[derive(Debug)]
pub(super) struct Dot<'a, T> {
    /// At least as many rows as there are scores.
    pub(super) k: &'a Strided<'a, T>,
    pub(super) ahead: &'a Ahead,
    pub(super) q: &'a [f32],
    pub(super) scale: f32,
    pub(super) scores: &'a mut [f32],
}

impl<T: Number> Program for Dot<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let Self { k, ahead, q, scale, scores } = self;
        let (groups, rest) = scores.as_chunks_mut::<GROUP>();
        let mut first = 0;
        for scores in groups {
            ahead.ask(simd, first, GROUP);
            *scores = dots(simd, k.group(first), q).map(|product| scale * product);
            first += GROUP;
        }
        for (key, score) in (first..).zip(rest) {
            ahead.ask(simd, key, 1);
            let [product, ..] = dots(simd, [k.row(key); GROUP], q);
            *score = scale * product;
        }
    }
}

#[inline(always)]
fn dots<S: Simd, T: Number>(simd: S, rows: [&[T]; GROUP], q: &[f32]) -> [f32; GROUP] {
    let columns = q.len();
    let rows = [&rows[0][..columns], &rows[1][..columns], &rows[2][..columns], &rows[3][..columns]];
    let mut sums = [simd.splat(0.0); GROUP];
    let mut column = 0;
    while column + S::LANES <= columns {
        let q = simd.load(&q[column..]);
        for (sum, row) in sums.iter_mut().zip(&rows) {
            *sum = simd.mul_add(T::load(simd, &row[column..]), q, *sum);
        }
        column += S::LANES;
    }
    let mut products = simd.sums(sums);
    for column in column..columns {
        for (product, row) in products.iter_mut().zip(&rows) {
            *product += row[column].widen() * q[column];
        }
    }
    products
}

/// Turns the scores of a row into weights relative to the greatest score so far; gives what the sum
/// of weighted rows of V so far is to be multiplied by.
#[derive(Debug)]
pub(super) struct FoldRow<'a> {
    /// Whole vectors; -inf where there is no key to be seen.
    pub(super) scores: &'a mut [f32],
    /// Greatest score; -inf before the first key. Never NaN.
    pub(super) max: &'a mut f32,
    /// Sum of `exp(score - max)`; NaN once a score was.
    pub(super) sum: &'a mut f32,
}

impl Program for FoldRow<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) -> f32 {
        let Self { scores, max, sum } = self;
        let mut lanes = simd.splat(*max);
        for scores in scores.chunks_exact(S::LANES) {
            // A NaN is passed over here; the sum reports it.
            lanes = simd.max(simd.load(scores), lanes);
        }
        let before = *max;
        *max = simd.greatest(lanes);
        // With every score -inf so far any finite reference gives weights of 0, and no NaN.
        let reference = if *max > f32::NEG_INFINITY { *max } else { 0.0 };
        let log2_e = simd.splat(std::f32::consts::LOG2_E);
        let mut sums = simd.splat(0.0);
        for scores in scores.chunks_exact_mut(S::LANES) {
            let score = simd.sub(simd.load(scores), simd.splat(reference));
            let weight = exp2(simd, simd.mul(score, log2_e));
            sums = simd.add(sums, weight);
            simd.store(weight, scores);
        }
        let correction = if *max > before { (before - reference).exp() } else { 1.0 };
        *sum = *sum * correction + simd.sum(sums);
        correction
    }
}

/// Vectors of columns whose sums are kept apart, so that none waits for the one before.
const APART: usize = 4;

/// `o = correction * o + sum of weights[key] * v[key]`.
#[derive(Debug)]
pub(super) struct WeightedSum<'a, T> {
    /// At least as many rows as there are weights, each of at least as many columns as O.
    pub(super) v: &'a Strided<'a, T>,
    pub(super) ahead: &'a Ahead,
    pub(super) weights: &'a [f32],
    pub(super) correction: f32,
    pub(super) o: &'a mut [f32],
}

impl<T: Number> Program for WeightedSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let Self { v, ahead, weights, correction, o } = self;
        let factor = simd.splat(correction);
        let mut column = 0;
        let mut wide = o.chunks_exact_mut(APART * S::LANES);
        for o in wide.by_ref() {
            let mut sums = [factor; APART];
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = simd.mul(simd.load(&o[at * S::LANES..]), factor);
            }
            for (key, &weight) in weights.iter().enumerate() {
                if column == 0 && key % GROUP == 0 {
                    ahead.ask(simd, key, GROUP);
                }
                let (v, weight) = (&v.row(key)[column..][..APART * S::LANES], simd.splat(weight));
                for (at, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.mul_add(T::load(simd, &v[at * S::LANES..]), weight, *sum);
                }
            }
            for (at, &sum) in sums.iter().enumerate() {
                simd.store(sum, &mut o[at * S::LANES..]);
            }
            column += APART * S::LANES;
        }
        let mut narrow = wide.into_remainder().chunks_exact_mut(S::LANES);
        for o in narrow.by_ref() {
            let mut sum = simd.mul(simd.load(o), factor);
            for (key, &weight) in weights.iter().enumerate() {
                let v = T::load(simd, &v.row(key)[column..]);
                sum = simd.mul_add(v, simd.splat(weight), sum);
            }
            simd.store(sum, o);
            column += S::LANES;
        }
        for (column, o) in (column..).zip(narrow.into_remainder()) {
            let weighted = weights.iter().enumerate();
            *o = weighted.fold(*o * correction, |sum, (key, &weight)| {
                sum + v.row(key)[column].widen() * weight
            });
        }
    }
}
