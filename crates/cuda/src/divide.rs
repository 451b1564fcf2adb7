//! Division by a number that the host knows, without dividing.

/// A divisor with what replaces the division by it: `Divisor` of `kernels/common/divide.cuh`.
///
/// `n / divisor = (n * multiplier) >> (32 + shift)` for `0 <= n < 2^31` (Granlund and Montgomery,
/// "Division by invariant integers using multiplication", PLDI 1994, theorem 4.2 with 31 bits). The
/// multiplier of 1 would have 33 bits: that divisor is told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    divisor: u32,
    multiplier: u32,
    shift: u32,
    is_one: u32,
}

const _: () = assert!(size_of::<Divisor>() == 16);

/// Bits of what is divided.
const DIVIDEND_BITS: u32 = 31;

impl Divisor {
    /// For divisors from 1 to 2^31 - 1.
    ///
    /// # Panics
    ///
    /// If the divisor is 0 or does not fit 31 bits.
    pub const fn new(divisor: u32) -> Self {
        assert!(divisor > 0 && divisor < 1 << DIVIDEND_BITS, "a divisor of 1 to 2^31 - 1");
        if divisor == 1 {
            return Self { divisor, multiplier: 0, shift: 0, is_one: 1 };
        }
        // The least with divisor <= 2^log2; at least 1, so that the shift is no less than 32 bits.
        let log2 = u32::BITS - (divisor - 1).leading_zeros();
        let multiplier = (1_u64 << (DIVIDEND_BITS + log2)).div_ceil(divisor as u64);
        // 2^(log2 - 1) < divisor, so that this is below 2^32.
        #[expect(clippy::cast_possible_truncation, reason = "below 2^32")]
        let multiplier = multiplier as u32;
        Self { divisor, multiplier, shift: log2 - 1, is_one: 0 }
    }

    /// What is divided by.
    pub const fn get(self) -> u32 {
        self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel computes it.
    fn divide(n: u32, by: Divisor) -> u32 {
        let high = ((u64::from(n) * u64::from(by.multiplier)) >> 32) as u32 >> by.shift;
        if by.is_one != 0 { n } else { high }
    }

    const MAX: u32 = i32::MAX as u32;

    /// A wrong multiplier is too large or too small, which shows first where quotients change, and
    /// most at the end.
    fn check(divisor: u32) {
        let by = Divisor::new(divisor);
        let last = MAX / divisor * divisor;
        let multiples =
            [0, divisor, last / divisor / 2 * divisor, last.saturating_sub(divisor), last];
        for multiple in multiples {
            for n in [multiple.saturating_sub(1), multiple, multiple.saturating_add(1), MAX] {
                let n = n.min(MAX);
                assert_eq!(divide(n, by), n / divisor, "{n} / {divisor}");
            }
        }
    }

    #[test]
    fn quotients_are_those_of_division() {
        for divisor in (1..100_000).chain(MAX - 100_000..=MAX) {
            check(divisor);
        }
        for log2 in 1..31 {
            for divisor in [(1_u32 << log2) - 1, 1 << log2, (1 << log2) + 1] {
                check(divisor.max(1));
            }
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1_000_000 {
            check(random.u32(1..=MAX));
        }
    }

    /// The bounds of the theorem hold the multiplier for every dividend at once.
    #[test]
    fn multipliers_are_within_the_bounds_of_the_theorem() {
        let mut random = fastrand::Rng::with_seed(2);
        let drawn = std::iter::repeat_with(|| random.u32(2..=MAX)).take(1_000_000);
        for divisor in (2..1_000_000).chain(MAX - 1000..=MAX).chain(drawn) {
            let Divisor { multiplier, shift, .. } = Divisor::new(divisor);
            let product = u128::from(multiplier) * u128::from(divisor);
            let (least, log2) = (1_u128 << (32 + shift), shift + 1);
            assert!(product >= least && product <= least + (1 << log2), "{divisor}");
        }
    }

    /// The check above, seen red.
    #[test]
    #[should_panic(expected = "/ 7")]
    fn a_multiplier_that_is_one_too_small_is_found() {
        let by = Divisor::new(7);
        let by = Divisor { multiplier: by.multiplier - 1, ..by };
        (0..=MAX).step_by(7).for_each(|n| assert_eq!(divide(n, by), n / 7, "{n} / 7"));
    }

    #[test]
    #[should_panic(expected = "a divisor of 1 to 2^31 - 1")]
    fn zero_is_no_divisor() {
        Divisor::new(0);
    }
}
