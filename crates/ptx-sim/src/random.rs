//! Choices of a run: the same seed gives the same run.

/// Sebastiano Vigna's SplitMix64: short, fast, and good enough to choose with.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is of no matter to choices among a few.
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}

/// An order of `0..len` that a seed gives, without a list of it.
#[derive(Debug)]
pub(crate) struct Order {
    len: u64,
    step: u64,
    next: u64,
    left: u64,
}

impl Order {
    pub(crate) fn new(len: u64, random: &mut Random) -> Self {
        // A step that shares no factor with the length meets every index once.
        let mut step = random.below(len) | 1;
        while gcd(step, len) != 1 {
            step += 1;
        }
        Self { len, step: step % len.max(1), next: random.below(len), left: len }
    }
}

impl Iterator for Order {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let index = self.next;
        self.next = (index + self.step) % self.len;
        Some(index)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_meets_every_index_once() {
        for len in [0, 1, 2, 7, 12, 1024, 1000] {
            for seed in 0..20 {
                let mut met: Vec<_> = Order::new(len, &mut Random::new(seed)).collect();
                met.sort_unstable();
                assert_eq!(met, (0..len).collect::<Vec<_>>(), "{len} with seed {seed}");
            }
        }
    }
}
