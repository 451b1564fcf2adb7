//! The arithmetic of a panel: some rows of Q as the lanes of vectors, against one tile of keys.
//!
//! Rows are lanes: scores lie as `[key][lane]`, so that greatest scores and sums of a row are taken
//! down a column of vectors, masks compare vectors, and both products read K and V as they are, one
//! number at a time for all lanes. Nothing is transposed but Q, once, and O, once. Every lane adds in
//! the same order whatever the width of the vectors.
//!
//! Online softmax: Milakov and Gimelshein, arXiv:1805.02867; in attention: FlashAttention-2,
//! arXiv:2307.08691, section 3.1.

use crate::vector::{Program, Simd, exp2, tanh};

/// A row-major matrix, `pitch` numbers from row to row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) pitch: usize,
}

/// `scores[key][lane] = scale * sum of k[key][column] * q[column][lane]`.
#[derive(Debug)]
pub(crate) struct Score<'a> {
    /// [`crate::vector::MAX_ROWS`] rows more than keys, of no meaning.
    pub(crate) k: Matrix<'a>,
    pub(crate) num_keys: usize,
    /// `[column][lane]`.
    pub(crate) q: &'a [f32],
    pub(crate) scale: f32,
    /// `[key][lane]`, with as many keys more.
    pub(crate) scores: &'a mut [f32],
}

impl Program for Score<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let lanes = N * S::LANES;
        let Self { k, num_keys, q, scale, scores } = self;
        let columns = q.len() / lanes;
        let q = &q[..columns * lanes];
        let scale = simd.splat(scale);
        for (key, scores) in (0..num_keys).step_by(M).zip(scores.chunks_exact_mut(M * lanes)) {
            let rows: [&[f32]; M] =
                std::array::from_fn(|row| &k.numbers[(key + row) * k.pitch..][..columns]);
            let mut sums = [[simd.splat(0.0); N]; M];
            for column in 0..columns {
                let q = &q[column * lanes..][..lanes];
                let mut query = [simd.splat(0.0); N];
                for (at, query) in query.iter_mut().enumerate() {
                    *query = simd.load(&q[at * S::LANES..]);
                }
                for (sums, row) in sums.iter_mut().zip(&rows) {
                    let number = simd.splat(row[column]);
                    for (sum, &query) in sums.iter_mut().zip(&query) {
                        *sum = simd.mul_add(number, query, *sum);
                    }
                }
            }
            for (sums, scores) in sums.iter().zip(scores.chunks_exact_mut(lanes)) {
                for (&sum, scores) in sums.iter().zip(scores.chunks_exact_mut(S::LANES)) {
                    simd.store(simd.mul(sum, scale), scores);
                }
            }
        }
    }
}

/// Replaces each score `s` by `cap * tanh(s / cap)`.
#[derive(Debug)]
pub(crate) struct SoftCap<'a> {
    pub(crate) cap: f32,
    pub(crate) scores: &'a mut [f32],
}

impl Program for SoftCap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let cap = simd.splat(self.cap);
        for scores in self.scores.chunks_exact_mut(S::LANES) {
            let capped = simd.mul(cap, tanh(simd, simd.div(simd.load(scores), cap)));
            simd.store(capped, scores);
        }
    }
}

/// Subtracts `slope * |first + key|` from every score.
#[derive(Debug)]
pub(crate) struct Alibi<'a> {
    /// Of each lane.
    pub(crate) slopes: &'a [f32],
    /// Distance of the first key from each lane's own position.
    pub(crate) firsts: &'a [f32],
    pub(crate) scores: &'a mut [f32],
}

impl Program for Alibi<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let lanes = N * S::LANES;
        let mut key = 0.0;
        for scores in self.scores.chunks_exact_mut(lanes) {
            for at in (0..lanes).step_by(S::LANES) {
                let distance = simd.add(simd.load(&self.firsts[at..]), simd.splat(key));
                let distance = simd.max(distance, simd.sub(simd.splat(0.0), distance));
                let slope = simd.sub(simd.splat(0.0), simd.load(&self.slopes[at..]));
                let score = simd.mul_add(slope, distance, simd.load(&scores[at..]));
                simd.store(score, &mut scores[at..]);
            }
            key += 1.0;
        }
    }
}

/// Replaces the scores of keys that a lane does not see by -inf, whatever they are.
#[derive(Debug)]
pub(crate) struct Hide<'a> {
    /// Of each lane, the first key of the panel that it sees, less 1/2.
    pub(crate) begins: &'a [f32],
    /// Of each lane, the end of the keys that it sees, less 1/2.
    pub(crate) ends: &'a [f32],
    pub(crate) scores: &'a mut [f32],
}

impl Program for Hide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let lanes = N * S::LANES;
        let hidden = simd.splat(f32::NEG_INFINITY);
        let mut position = 0.0;
        for scores in self.scores.chunks_exact_mut(lanes) {
            let key = simd.splat(position);
            for at in (0..lanes).step_by(S::LANES) {
                let (begin, end) = (simd.load(&self.begins[at..]), simd.load(&self.ends[at..]));
                let score = simd.load(&scores[at..]);
                let score = simd.select_greater((key, begin), score, hidden);
                let score = simd.select_greater((end, key), score, hidden);
                simd.store(score, &mut scores[at..]);
            }
            position += 1.0;
        }
    }
}

/// Turns the scores of a tile into weights relative to the greatest score so far.
#[derive(Debug)]
pub(crate) struct Fold<'a> {
    pub(crate) scores: &'a mut [f32],
    /// Greatest score of each lane; -inf before the first key. Never NaN.
    pub(crate) max: &'a mut [f32],
    /// Sum of `exp(score - max)` of each lane; NaN once a score was.
    pub(crate) sum: &'a mut [f32],
    /// What each lane's weighted sum of V so far is to be multiplied by.
    pub(crate) correction: &'a mut [f32],
}

impl Program for Fold<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let lanes = N * S::LANES;
        let log2_e = simd.splat(std::f32::consts::LOG2_E);
        let mut before = [simd.splat(0.0); N];
        for (at, before) in before.iter_mut().enumerate() {
            *before = simd.load(&self.max[at * S::LANES..]);
        }
        let mut max = before;
        for scores in self.scores.chunks_exact(lanes) {
            for (max, scores) in max.iter_mut().zip(scores.chunks_exact(S::LANES)) {
                // A NaN is passed over here; the sum reports it.
                *max = simd.max(simd.load(scores), *max);
            }
        }
        let mut reference = max;
        for at in 0..N {
            // With every score -inf so far any finite reference gives weights of 0, and no NaN.
            let nothing = simd.splat(f32::NEG_INFINITY);
            reference[at] = simd.select_greater((max[at], nothing), max[at], simd.splat(0.0));
            let change = exp2(simd, simd.mul(simd.sub(before[at], reference[at]), log2_e));
            let change = simd.select_greater((max[at], before[at]), change, simd.splat(1.0));
            simd.store(change, &mut self.correction[at * S::LANES..]);
            simd.store(max[at], &mut self.max[at * S::LANES..]);
        }
        let mut sums = [simd.splat(0.0); N];
        for scores in self.scores.chunks_exact_mut(lanes) {
            for at in 0..N {
                let score = simd.load(&scores[at * S::LANES..]);
                let weight = exp2(simd, simd.mul(simd.sub(score, reference[at]), log2_e));
                sums[at] = simd.add(sums[at], weight);
                simd.store(weight, &mut scores[at * S::LANES..]);
            }
        }
        for (at, &added) in sums.iter().enumerate() {
            let correction = simd.load(&self.correction[at * S::LANES..]);
            let sum = simd.load(&self.sum[at * S::LANES..]);
            simd.store(simd.mul_add(sum, correction, added), &mut self.sum[at * S::LANES..]);
        }
    }
}

/// `o[column][lane] = correction[lane] * o[column][lane] + sum of v[key][column] * weight[key][lane]`.
#[derive(Debug)]
pub(crate) struct Accumulate<'a> {
    /// One row for each key; as many columns as `o` has are read.
    pub(crate) v: Matrix<'a>,
    /// `[key][lane]`.
    pub(crate) weights: &'a [f32],
    pub(crate) correction: &'a [f32],
    pub(crate) num_columns: usize,
    /// `[column][lane]`, with [`crate::vector::MAX_ROWS`] columns more, of no meaning.
    pub(crate) o: &'a mut [f32],
}

impl Program for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let lanes = N * S::LANES;
        let Self { v, weights, correction, num_columns, o } = self;
        for (column, o) in (0..num_columns).step_by(M).zip(o.chunks_exact_mut(M * lanes)) {
            let mut sums = [[simd.splat(0.0); N]; M];
            for (sums, o) in sums.iter_mut().zip(o.chunks_exact(lanes)) {
                for (at, sum) in sums.iter_mut().enumerate() {
                    let correction = simd.load(&correction[at * S::LANES..]);
                    *sum = simd.mul(simd.load(&o[at * S::LANES..]), correction);
                }
            }
            for (row, weights) in v.numbers.chunks_exact(v.pitch).zip(weights.chunks_exact(lanes)) {
                let row = &row[column..][..M];
                let mut weight = [simd.splat(0.0); N];
                for (at, weight) in weight.iter_mut().enumerate() {
                    *weight = simd.load(&weights[at * S::LANES..]);
                }
                for (sums, &number) in sums.iter_mut().zip(row) {
                    let number = simd.splat(number);
                    for (sum, &weight) in sums.iter_mut().zip(&weight) {
                        *sum = simd.mul_add(number, weight, *sum);
                    }
                }
            }
            for (sums, o) in sums.iter().zip(o.chunks_exact_mut(lanes)) {
                for (at, &sum) in sums.iter().enumerate() {
                    simd.store(sum, &mut o[at * S::LANES..]);
                }
            }
        }
    }
}
