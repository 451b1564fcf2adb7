//! Max and sum of a row: what they begin with, and what they come to. Between the two, `panel` and
//! `few_products` fold the scores in.

/// Max and sum of a row that has seen only its sink.
pub(crate) fn start(sink: Option<f32>) -> (f32, f32) {
    match sink {
        None | Some(f32::NEG_INFINITY) => (f32::NEG_INFINITY, 0.0),
        Some(sink) if sink.is_nan() => (f32::NEG_INFINITY, f32::NAN),
        Some(sink) => (sink, 1.0),
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

    /// Turns the weighted sum of V into O.
    pub(crate) fn divide(&self, o: &mut [f32]) {
        match self.factor {
            Some(factor) => o.iter_mut().for_each(|o| *o *= factor),
            None => o.fill(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_in_the_sum_is_seen_in_all_but_a_max_of_infinity() {
        let total = Total::of(1.0, f32::NAN);
        assert!(total.max.is_nan() && total.sum_exp.is_nan() && total.lse.is_nan());
        assert_eq!(Total::of(f32::INFINITY, f32::NAN).max, f32::INFINITY);
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
