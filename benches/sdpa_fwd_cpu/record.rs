//! What was timed, and what share of the limits that is.

use std::io::{self, Write};
use std::time::Duration;

use criterion::{Bencher, Throughput};

use crate::cell::Cell;

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Subject {
    /// A product of that many floating-point operations.
    Product(u64),
    /// One read of that many bytes.
    Read(usize),
    Ours(Cell),
    Candle(Cell),
}

impl Subject {
    /// For criterion's own lines.
    pub(crate) fn throughput(&self) -> Throughput {
        match *self {
            Self::Product(flops) => Throughput::Elements(flops),
            Self::Read(bytes) => Throughput::Bytes(bytes as u64),
            Self::Ours(cell) | Self::Candle(cell) if cell.q_rows == 1 => {
                Throughput::Bytes(cell.kv_bytes() as u64)
            }
            Self::Ours(cell) | Self::Candle(cell) => Throughput::Elements(cell.flops()),
        }
    }
}

/// Times of this run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Mean seconds of one call, one for each of criterion's samples, its warm-up's among them.
    samples: Vec<(Subject, Vec<f64>)>,
}

impl Record {
    /// Runs `once` as often as criterion wants, counting what it says it took.
    pub(crate) fn time(
        &mut self,
        subject: Subject,
        bencher: &mut Bencher<'_>,
        mut once: impl FnMut() -> Duration,
    ) {
        bencher.iter_custom(|iterations| {
            let total: Duration = (0..iterations).map(|_| once()).sum();
            let sample = total.as_secs_f64() / iterations as f64;
            match self.samples.iter_mut().find(|(of, _)| *of == subject) {
                Some((_, samples)) => samples.push(sample),
                None => self.samples.push((subject, vec![sample])),
            }
            total
        });
    }

    /// One line a cell on standard output, where a pipe that closes is no error.
    pub(crate) fn print(&self) {
        let lines: Vec<String> = self.samples.iter().map(|(of, _)| self.line(of)).collect();
        let _ = writeln!(io::stdout(), "\n{}", lines.join("\n"));
    }

    fn line(&self, subject: &Subject) -> String {
        let time = self.median(subject);
        match subject {
            Subject::Product(flops) => {
                let threads = rayon::current_num_threads();
                format!("f32 product, {threads} threads: {:.1} GFLOP/s", *flops as f64 / time / 1e9)
            }
            Subject::Read(bytes) => {
                format!("one read of {bytes} bytes: {:.1} GB/s", *bytes as f64 / time / 1e9)
            }
            Subject::Ours(cell) => format!("frazil {cell}: {}", self.share(cell, time)),
            Subject::Candle(cell) => format!("candle {cell}: {}", self.share(cell, time)),
        }
    }

    fn share(&self, cell: &Cell, time: f64) -> String {
        if cell.q_rows == 1 {
            let bytes = cell.kv_bytes();
            let reads = time / self.median(&Subject::Read(bytes));
            return format!("{:.1} GB/s, {reads:.2} reads of K and V", bytes as f64 / time / 1e9);
        }
        let rate = cell.flops() as f64 / time;
        let product = self.samples.iter().find_map(|(of, _)| match of {
            Subject::Product(flops) => Some(*flops as f64 / self.median(of)),
            _ => None,
        });
        let share = product.map_or(f64::NAN, |product| rate / product);
        format!("{:.1} GFLOP/s, {share:.3} of the product", rate / 1e9)
    }

    /// The warm-up's few samples move it little.
    fn median(&self, subject: &Subject) -> f64 {
        let of = self.samples.iter().find(|(of, _)| of == subject);
        let mut samples = of.map_or_else(Vec::new, |(_, samples)| samples.clone());
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    }
}
