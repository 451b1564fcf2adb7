//! Medians and intervals that assume nothing about how times are distributed.

/// Median and a 95% interval for it from order statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    /// Both ends; `None` below six samples, which bound a median to no 95%.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) samples: usize,
}

impl Summary {
    /// `None` without samples.
    pub(super) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let upper = *sorted.get(n / 2)?;
        let median = if n % 2 == 1 { upper } else { (sorted[n / 2 - 1] + upper) / 2.0 };
        let interval = rank(n).map(|rank| (sorted[rank - 1], sorted[n - rank]));
        Some(Self { median, interval, samples: n })
    }
}

/// The greatest rank `r`, from 1, for which the `r`-th smallest and the `r`-th greatest of `n`
/// samples hold the median between them with a probability of 95%: `1 - 2 P(X < r)` with `X`
/// binomial of `n` fair coins (David and Nagaraja, "Order Statistics", 7.1).
fn rank(n: usize) -> Option<usize> {
    let coins = i32::try_from(n).ok().filter(|&n| n < 1000)?;
    let mut term = 0.5_f64.powi(coins);
    let (mut below, mut rank) = (0.0, None);
    for r in 1..=n / 2 {
        // `term` is P(X = r - 1).
        below += term;
        if 2.0 * below > 0.05 {
            break;
        }
        rank = Some(r);
        term *= (n - r + 1) as f64 / r as f64;
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Tables of nonparametric intervals for a median, 95%.
        for (n, r) in [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (25, 8), (35, 12), (40, 14)] {
            assert_eq!(rank(n), Some(r), "{n}");
        }
        for n in 0..6 {
            assert_eq!(rank(n), None, "{n}");
        }
    }

    #[test]
    fn a_summary_does_not_look_at_the_order() {
        let mut samples: Vec<f64> = (1..=35).map(f64::from).collect();
        samples.reverse();
        samples.swap(3, 20);
        let want = Summary { median: 18.0, interval: Some((12.0, 24.0)), samples: 35 };
        assert_eq!(Summary::of(&samples), Some(want));
        let few = Summary { median: 2.5, interval: None, samples: 4 };
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]), Some(few));
        assert_eq!(Summary::of(&[]), None);
    }

    /// The interval of 11 samples of a known median covers it at least as often as it says.
    #[test]
    fn the_interval_covers_the_median() {
        let mut random = fastrand::Rng::with_seed(5);
        let trials = 4000;
        let covered = (0..trials).filter(|_| {
            let samples: Vec<f64> = (0..11).map(|_| random.f64().powi(3)).collect();
            let (low, high) = Summary::of(&samples).unwrap().interval.unwrap();
            (low..=high).contains(&0.125)
        });
        let share = covered.count() as f64 / f64::from(trials);
        assert!((0.95..0.995).contains(&share), "{share}");
    }
}
