//! Reads of memory.

use std::time::{Duration, Instant};

use rayon::prelude::*;

/// Words that a thread reads before it takes the next piece: 1 MiB.
const PIECE: usize = 1 << 17;

/// Memory that is read from end to end, by all threads of the rayon pool.
///
/// Larger than the caches it measures memory; and whatever was in the caches before is not after.
#[derive(Debug)]
pub struct Sweep {
    words: Vec<u64>,
}

impl Sweep {
    /// That many bytes, rounded down to whole words. Written once: memory that never was may be one
    /// page of zeros everywhere.
    pub fn new(bytes: usize) -> Self {
        Self { words: (0..bytes as u64 / 8).collect() }
    }

    /// Bytes of one read.
    pub fn bytes(&self) -> f64 {
        size_of_val(self.words.as_slice()) as f64
    }

    /// Reads all of it once.
    pub fn run(&self) -> Duration {
        let start = Instant::now();
        std::hint::black_box(self.words.par_chunks(PIECE).map(sum).reduce(|| 0, u64::wrapping_add));
        start.elapsed()
    }

    /// The best rate of that many reads, one before them not counted, in bytes a second.
    pub fn best_bytes_per_second(&self, runs: u32) -> f64 {
        self.run();
        let best = (0..runs.max(1)).map(|_| self.run()).min().unwrap_or(Duration::MAX);
        self.bytes() / best.as_secs_f64()
    }
}

/// In eight sums, so that the additions of one do not wait for those of another.
fn sum(words: &[u64]) -> u64 {
    let (whole, rest) = words.as_chunks::<8>();
    let mut sums = [0_u64; 8];
    for chunk in whole {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().chain(rest).fold(0, |all, &part| all.wrapping_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        let sweep = Sweep::new(8 * (2 * PIECE + 5) + 3);
        assert_eq!(sweep.words.len(), 2 * PIECE + 5);
        let n = sweep.words.len() as u64;
        assert_eq!(sum(&sweep.words), n * (n - 1) / 2);
        assert!(sweep.best_bytes_per_second(2) > 0.0);
    }
}
