//! A few rows of Q, as in decoding: K and V are read once, as they are.
//!
//! With fewer rows than a vector has lanes, vectors go along the columns instead: a score is a dot
//! product, and O adds up weighted rows of V. Between the two, scores lie as in a panel.

use std::ops::Range;

use super::attend::Panel;
use super::block::{Block, Work, count};
use super::pack;
use super::panel::Fold;
use super::scratch::{Scratch, padded, pitch};
use super::setup::{Sequence, Unit};
use super::tensors::Rows;
use crate::memory::{Element, Float};
use crate::support::MAX_BLOCK_N;
use crate::vector::{Number, Program, Simd};

/// Most rows of a unit for which this is the faster way.
pub(super) const MAX_FEW: usize = 4;

impl Block<'_> {
    /// The rows of a unit, all of which see some of the keys, against a tile of them.
    pub(super) fn step_few(&self, panel: Panel, keys: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Work { tensors, isa, .. } = self.work;
        let Unit { sequence: Sequence { batch_idx, kv_start, .. }, kv_head, .. } = self.unit;
        let k = tensors.keys(batch_idx, kv_head, kv_start);
        match k.tensor.contiguous().filter(|_| k.has_rows()) {
            Some(Float::F16) => self.score_few::<half::f16>(panel, (&k, keys), scratch),
            Some(Float::Bf16) => self.score_few::<half::bf16>(panel, (&k, keys), scratch),
            Some(Float::F32) => self.score_few::<f32>(panel, (&k, keys), scratch),
            None => self.score_gathered(panel, (&k, keys), scratch),
        }
        self.modify(panel, keys, scratch);
        self.hide(panel, keys, scratch);
        let scores = &mut scratch.scores[..count(keys) * panel.lanes];
        let correction = &mut scratch.correction[..panel.lanes];
        let (max, sum) = (&mut scratch.max[..panel.lanes], &mut scratch.sum[..panel.lanes]);
        isa.run(panel.lanes, Fold { scores, max, sum, correction });
        let v = tensors.values(batch_idx, kv_head, kv_start);
        match v.tensor.contiguous().filter(|_| v.has_rows()) {
            Some(Float::F16) => self.weigh_few::<half::f16>(panel, (&v, keys), scratch),
            Some(Float::Bf16) => self.weigh_few::<half::bf16>(panel, (&v, keys), scratch),
            Some(Float::F32) => self.weigh_few::<f32>(panel, (&v, keys), scratch),
            None => self.weigh_gathered(panel, (&v, keys), scratch),
        }
    }

    fn score_few<T: Element>(
        &self,
        panel: Panel,
        (rows, keys): (&Rows<'_>, &Range<i64>),
        scratch: &mut Scratch<'_>,
    ) {
        let found = self.find::<T>(rows, keys);
        self.score_rows(panel, &found[..count(keys)], (scratch.q, scratch.scores));
    }

    fn score_gathered(
        &self,
        panel: Panel,
        (rows, keys): (&Rows<'_>, &Range<i64>),
        scratch: &mut Scratch<'_>,
    ) {
        let (on_q, _) = self.columns();
        let which = keys.start.cast_unsigned()..keys.end.cast_unsigned();
        let to = (&mut *scratch.k, on_q, pitch(on_q));
        pack::rows(self.work.isa, (rows, which), to, self.work.errors);
        let gathered = in_tile(scratch.k, on_q);
        self.score_rows(panel, &gathered[..count(keys)], (scratch.q, scratch.scores));
    }

    fn score_rows<T: Number>(
        &self,
        panel: Panel,
        k: &[&[T]],
        (q, scores): (&[f32], &mut [f32]),
    ) {
        let (on_q, _) = self.columns();
        let scores = &mut scores[..k.len() * panel.lanes];
        // Lanes past the rows hold numbers, whatever they are made of.
        scores.fill(0.0);
        let (q, scale) = (&q[..panel.num_rows * on_q], self.work.facts.softmax_scale());
        self.work.isa.run(panel.lanes, Dot { k, q, scale, scores });
    }

    fn weigh_few<T: Element>(
        &self,
        panel: Panel,
        (rows, keys): (&Rows<'_>, &Range<i64>),
        scratch: &mut Scratch<'_>,
    ) {
        let found = self.find::<T>(rows, keys);
        let (weights, correction) = (&*scratch.scores, &*scratch.correction);
        self.weigh_rows(panel, &found[..count(keys)], (weights, correction), scratch.o);
    }

    fn weigh_gathered(
        &self,
        panel: Panel,
        (rows, keys): (&Rows<'_>, &Range<i64>),
        scratch: &mut Scratch<'_>,
    ) {
        let (_, on_v) = self.columns();
        let which = keys.start.cast_unsigned()..keys.end.cast_unsigned();
        let to = (&mut *scratch.v, on_v, pitch(on_v));
        pack::rows(self.work.isa, (rows, which), to, self.work.errors);
        let gathered = in_tile(scratch.v, on_v);
        let (weights, correction) = (&*scratch.scores, &*scratch.correction);
        self.weigh_rows(panel, &gathered[..count(keys)], (weights, correction), scratch.o);
    }

    fn weigh_rows<T: Number>(
        &self,
        panel: Panel,
        v: &[&[T]],
        (weights, correction): (&[f32], &[f32]),
        o: &mut [f32],
    ) {
        let (_, on_v) = self.columns();
        let weights = &weights[..v.len() * panel.lanes];
        let pitch = padded(on_v);
        for (row, o) in o.chunks_exact_mut(pitch).take(panel.num_rows).enumerate() {
            let (o, correction) = (&mut o[..on_v], correction[row]);
            self.work.isa.run(panel.lanes, WeightedSum { v, weights, row, correction, o });
        }
    }

    /// Rows of K or V where they lie.
    fn find<'a, T: Element>(&self, rows: &Rows<'a>, keys: &Range<i64>) -> [&'a [T]; MAX_BLOCK_N] {
        let mut found: [&[T]; MAX_BLOCK_N] = [&[]; MAX_BLOCK_N];
        let which = keys.start.cast_unsigned()..keys.end.cast_unsigned();
        for (row, found) in which.zip(&mut found) {
            if let Some(index) = rows.find(row, self.work.errors) {
                *found = rows.tensor.columns(index);
            }
        }
        found
    }
}

/// The rows of a tile in scratch.
fn in_tile(tile: &[f32], columns: usize) -> [&[f32]; MAX_BLOCK_N] {
    let mut rows: [&[f32]; MAX_BLOCK_N] = [&[]; MAX_BLOCK_N];
    for (row, from) in rows.iter_mut().zip(tile.chunks_exact(pitch(columns))) {
        *row = &from[..columns];
    }
    rows
}

/// Vectors whose sums are kept apart, so that none waits for the one before.
const APART: usize = 4;

/// `scores[key][row] = scale * q[row] . k[key]`.
#[derive(Debug)]
struct Dot<'a, T> {
    k: &'a [&'a [T]],
    /// Rows of as many columns as those of K.
    q: &'a [f32],
    scale: f32,
    /// `[key][lane]`; lanes past the rows are left alone.
    scores: &'a mut [f32],
}

impl<T: Number> Program for Dot<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        for (k, scores) in self.k.iter().zip(self.scores.chunks_exact_mut(N * S::LANES)) {
            for (q, score) in self.q.chunks_exact(k.len()).zip(scores) {
                *score = self.scale * dot(simd, k, q);
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd, T: Number>(simd: S, k: &[T], q: &[f32]) -> f32 {
    let mut sums = [simd.splat(0.0); APART];
    let (mut k, mut q) = (k.chunks_exact(APART * S::LANES), q.chunks_exact(APART * S::LANES));
    for (k, q) in k.by_ref().zip(q.by_ref()) {
        for (at, sum) in sums.iter_mut().enumerate() {
            let (k, q) = (T::load(simd, &k[at * S::LANES..]), simd.load(&q[at * S::LANES..]));
            *sum = simd.mul_add(k, q, *sum);
        }
    }
    let mut sum = simd.add(simd.add(sums[0], sums[2]), simd.add(sums[1], sums[3]));
    let mut k = k.remainder().chunks_exact(S::LANES);
    let mut q = q.remainder().chunks_exact(S::LANES);
    for (k, q) in k.by_ref().zip(q.by_ref()) {
        sum = simd.mul_add(T::load(simd, k), simd.load(q), sum);
    }
    let tail = k.remainder().iter().zip(q.remainder());
    tail.fold(simd.sum(sum), |sum, (k, q)| sum + k.widen() * q)
}

/// `o = correction * o + sum of weights[key][row] * v[key]`.
#[derive(Debug)]
struct WeightedSum<'a, T> {
    v: &'a [&'a [T]],
    /// `[key][lane]`.
    weights: &'a [f32],
    row: usize,
    correction: f32,
    o: &'a mut [f32],
}

impl<T: Number> Program for WeightedSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize, const M: usize>(self, simd: S) {
        let Self { v, weights, row, correction, o } = self;
        let factor = simd.splat(correction);
        let mut column = 0;
        let mut wide = o.chunks_exact_mut(APART * S::LANES);
        for o in wide.by_ref() {
            let mut sums = [factor; APART];
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = simd.mul(simd.load(&o[at * S::LANES..]), factor);
            }
            for (v, weights) in v.iter().zip(weights.chunks_exact(N * S::LANES)) {
                let (v, weight) = (&v[column..][..APART * S::LANES], simd.splat(weights[row]));
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
            for (v, weights) in v.iter().zip(weights.chunks_exact(N * S::LANES)) {
                sum = simd.mul_add(T::load(simd, &v[column..]), simd.splat(weights[row]), sum);
            }
            simd.store(sum, o);
            column += S::LANES;
        }
        for (column, o) in (column..).zip(narrow.into_remainder()) {
            let weighted = v.iter().zip(weights.chunks_exact(N * S::LANES));
            *o = weighted.fold(*o * correction, |sum, (v, weights)| {
                sum + v[column].widen() * weights[row]
            });
        }
    }
}
