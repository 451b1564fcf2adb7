//! Online softmax over tiles of keys.
//!
//! Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867; in
//! attention: FlashAttention-2, arXiv:2307.08691, section 3.1.

use std::ops::Range;

use crate::vector::Isa;

/// One row of Q and head, over the keys seen so far.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// Greatest score; -inf before the first key. Never NaN.
    pub(crate) max: &'a mut f32,
    /// Sum of `exp(score - max)`; NaN once a score was.
    pub(crate) sum: &'a mut f32,
    /// Sum of `exp(score - max) * v`.
    pub(crate) o: &'a mut [f32],
}

/// Max and sum of a row that has seen only its sink.
pub(crate) fn start(sink: Option<f32>) -> (f32, f32) {
    match sink {
        None | Some(f32::NEG_INFINITY) => (f32::NEG_INFINITY, 0.0),
        Some(sink) if sink.is_nan() => (f32::NEG_INFINITY, f32::NAN),
        Some(sink) => (sink, 1.0),
    }
}

impl Row<'_> {
    /// Turns the scores of one tile into weights relative to the greatest score so far, 0 outside
    /// the visible ones, whatever stood there.
    pub(crate) fn fold(&mut self, isa: Isa, scores: &mut [f32], visible: Range<usize>) {
        scores[..visible.start].fill(0.0);
        scores[visible.end..].fill(0.0);
        let scores = &mut scores[visible];
        let max = isa.max(scores, *self.max);
        // With every score -inf so far any finite reference gives weights of 0, and no NaN.
        let reference = if max == f32::NEG_INFINITY { 0.0 } else { max };
        if max > *self.max {
            let mut correction = [*self.max];
            *self.sum *= isa.exp_sum(&mut correction, reference);
            isa.scale(self.o, correction[0]);
            *self.max = max;
        }
        *self.sum += isa.exp_sum(scores, reference);
    }
}

/// What a row comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    pub(crate) max: f32,
    pub(crate) sum_exp: f32,
    /// Natural logarithm.
    pub(crate) lse: f64,
    /// What the sum of weighted rows of V is to be multiplied by; `None`: no weight is above 0.
    pub(crate) factor: Option<f32>,
}

impl Total {
    /// Of a row past its sequence's length: no key, and no sink.
    pub(crate) const DEAD: Self =
        Self { max: f32::NEG_INFINITY, sum_exp: 0.0, lse: f64::NEG_INFINITY, factor: None };

    /// Of a row that has seen all its keys. A NaN among the scores makes every number one, but for
    /// a greatest score of +inf, which stays true.
    pub(crate) fn of(max: f32, sum: f32) -> Self {
        Self {
            max: if sum.is_nan() && max < f32::INFINITY { f32::NAN } else { max },
            sum_exp: sum,
            lse: f64::from(max) + f64::from(sum).ln(),
            factor: (sum != 0.0).then_some(1.0 / sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folds tiles of scores with `v = 1` and gives max, sum and O.
    fn folded(sink: Option<f32>, tiles: &[&[f32]]) -> (f32, f32, f32) {
        let isa = Isa::detect();
        let (mut max, mut sum) = start(sink);
        let mut o = [0.0];
        for tile in tiles {
            let mut scores = tile.to_vec();
            let all = 0..scores.len();
            Row { max: &mut max, sum: &mut sum, o: &mut o }.fold(isa, &mut scores, all);
            o[0] += scores.iter().sum::<f32>();
        }
        (max, sum, o[0])
    }

    #[test]
    fn tiles_do_not_matter() {
        let whole = folded(None, &[&[1.0, -3.0, 4.0, 2.0, 2.5]]);
        for tiles in
            [&[&[1.0, -3.0][..], &[4.0, 2.0, 2.5]][..], &[&[1.0], &[], &[-3.0, 4.0, 2.0], &[2.5]]]
        {
            let (max, sum, o) = folded(None, tiles);
            assert_eq!(max, whole.0);
            assert!((sum - whole.1).abs() < 1e-6 && (o - whole.2).abs() < 1e-6);
        }
    }

    #[test]
    fn minus_infinity_is_no_weight_and_no_nan() {
        let hidden: &[f32] = &[f32::NEG_INFINITY; 3];
        assert_eq!(folded(None, &[hidden]), (f32::NEG_INFINITY, 0.0, 0.0));
        assert_eq!(folded(Some(2.0), &[hidden]), (2.0, 1.0, 0.0));
        assert_eq!(folded(Some(f32::NEG_INFINITY), &[hidden]), (f32::NEG_INFINITY, 0.0, 0.0));
        assert_eq!(folded(None, &[hidden, &[5.0], hidden]), (5.0, 1.0, 1.0));
    }

    #[test]
    fn a_nan_is_never_lost() {
        let bad: &[f32] = &[f32::NAN];
        for tiles in [&[bad][..], &[bad, &[1.0]], &[&[1.0], bad], &[&[1.0, f32::NAN, 7.0], &[9.0]]]
        {
            let (max, sum, o) = folded(None, tiles);
            let total = Total::of(max, sum);
            assert!(total.max.is_nan() && total.sum_exp.is_nan() && total.lse.is_nan());
            assert!(o.is_nan());
        }
        let (max, sum) = start(Some(f32::NAN));
        assert!(Total::of(max, sum).lse.is_nan());
    }

    #[test]
    fn a_row_without_weight_is_dead() {
        let (max, sum) = start(None);
        let total = Total::of(max, sum);
        assert_eq!((total.max, total.sum_exp), (f32::NEG_INFINITY, 0.0));
        assert_eq!((total.lse, total.factor), (f64::NEG_INFINITY, None));
        let (max, sum) = start(Some(-3.5));
        assert_eq!(Total::of(max, sum).lse, -3.5);
    }
}
