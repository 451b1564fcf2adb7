//! What was timed, and what share of the limits that is.

use std::io::{self, Write};
use std::time::Duration;

use criterion::Bencher;

use crate::cell::Cell;

/// Runs `once` as often as criterion wants, counting what it says it took, and gives the median over
/// the samples of the mean time of one, where any was taken.
pub(crate) fn timed(bencher: &mut Bencher<'_>, mut once: impl FnMut() -> Duration) -> Option<f64> {
    let mut samples = Vec::new();
    bencher.iter_custom(|iterations| {
        let total: Duration = (0..iterations).map(|_| once()).sum();
        samples.push(total.as_secs_f64() / iterations as f64);
        total
    });
    samples.sort_by(f64::total_cmp);
    // The warm-up's calls are among them; the median does not mind a few.
    samples.get(samples.len() / 2).copied()
}

/// Times of this run, in seconds.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Rates of the product, before and after.
    products: Vec<f64>,
    /// Bytes, and the time to read them once.
    reads: Vec<(usize, f64)>,
    ours: Vec<(Cell, f64)>,
    candle: Vec<(Cell, f64)>,
}

impl Record {
    pub(crate) fn product(&mut self, flops: f64, time: Option<f64>) {
        self.products.extend(time.map(|time| flops / time));
    }

    pub(crate) fn read(&mut self, bytes: usize, time: Option<f64>) {
        self.reads.extend(time.map(|time| (bytes, time)));
    }

    pub(crate) fn ours(&mut self, cell: &Cell, time: Option<f64>) {
        self.ours.extend(time.map(|time| (*cell, time)));
    }

    pub(crate) fn candle(&mut self, cell: &Cell, time: Option<f64>) {
        self.candle.extend(time.map(|time| (*cell, time)));
    }

    /// One line a cell on standard output, where a pipe that closes is no error.
    pub(crate) fn print(&self) {
        let lines: Vec<String> = self.limits().chain(self.shares()).collect();
        let _ = writeln!(io::stdout(), "\n{}", lines.join("\n"));
    }

    fn limits(&self) -> impl Iterator<Item = String> {
        let threads = rayon::current_num_threads();
        self.products.iter().map(move |rate| {
            format!("product of 2048 x 2048 in f32, {threads} threads: {:.1} GFLOP/s", rate / 1e9)
        })
    }

    fn shares(&self) -> impl Iterator<Item = String> {
        // The faster of both: what the processor can do.
        let product = self.products.iter().copied().fold(f64::NAN, f64::max);
        let named = |name: &'static str| move |&(cell, time): &(Cell, f64)| (name, cell, time);
        let all =
            self.ours.iter().map(named("frazil")).chain(self.candle.iter().map(named("candle")));
        all.map(move |(name, cell, time)| {
            let rate = cell.flops() / time;
            if cell.q_rows > 1 {
                let share = rate / product;
                return format!(
                    "{name} {cell}: {:.1} GFLOP/s, {share:.3} of the product",
                    rate / 1e9
                );
            }
            let bytes = cell.kv_bytes();
            let reads = self.reads.iter().filter(|(of, _)| *of == bytes).map(|(_, time)| *time);
            let read = reads.fold(f64::NAN, f64::min);
            let gbs = bytes as f64 / time / 1e9;
            format!("{name} {cell}: {gbs:.1} GB/s, {:.2} times one read of K and V", time / read)
        })
    }
}
