//! Rows as lines for people.

use std::io::Write;

use super::row::{Row, Status};
use crate::failure::Failure;
use crate::output::{Output, Tone};

/// Lines of one width for the names.
#[derive(Debug)]
pub(super) struct Table {
    config: usize,
    begun: bool,
}

impl Table {
    pub(super) fn new(config: usize) -> Self {
        Self { config, begun: false }
    }

    /// Writes a row, after the heads of the columns if it is the first.
    pub(super) fn row(&mut self, row: &Row, out: &mut Output) -> Result<(), Failure> {
        if out.json {
            return out.object(row);
        }
        let config = self.config;
        if !std::mem::replace(&mut self.begun, true) {
            let heads = format!(
                "{:config$}  {:14} {:5} {:>10} {:>15} {:>14} {:>12}  {:18}",
                "config", "engine", "dtype", "time", "95% interval", "rate", "of limit", "max diff"
            );
            writeln!(out, "{}", out.paint(Tone::Faint, heads.trim_end()))?;
        }
        let start =
            format!("{:config$}  {:14} {:5}", row.config, row.engine, row.dtype.to_string());
        if row.status == Status::Limit {
            writeln!(out, "{start} {:>42}", rate(row))?;
            return Ok(());
        }
        let Some(time) = row.time_us else {
            let status = out.paint(tone(row.status), row.status.name());
            writeln!(out, "{start} {status}: {}", row.note)?;
            return Ok(());
        };
        let interval = row.time_us_low.zip(row.time_us_high);
        let interval =
            interval.map_or(format!("{} samples", row.samples.unwrap_or(0)), |(low, high)| {
                format!("-{:.1}% +{:.1}%", 100.0 * (1.0 - low / time), 100.0 * (high / time - 1.0))
            });
        let share = row.limit_share.map_or(String::new(), |share| {
            format!("{:.1}% {}", 100.0 * share, if row.limit == "compute" { "flop" } else { "mem" })
        });
        let line = format!(
            "{start} {:>10} {interval:>15} {:>14} {share:>12}  {}",
            microseconds(time),
            rate(row),
            difference(row),
        );
        write!(out, "{}", line.trim_end())?;
        if let Some(speedup) = row.best_peer_speedup {
            write!(out, "  {speedup:.3}x {}", row.best_peer)?;
        }
        if row.status != Status::Measured {
            let status = out.paint(tone(row.status), row.status.name());
            write!(out, "  {status}: {}", row.note)?;
        }
        writeln!(out)?;
        Ok(())
    }
}

fn tone(status: Status) -> Tone {
    match status {
        Status::Measured | Status::Limit => Tone::Good,
        Status::Declined | Status::Skipped => Tone::Faint,
        Status::Wrong | Status::Error => Tone::Bad,
    }
}

/// Greatest difference, and its share of what is allowed.
fn difference(row: &Row) -> String {
    match row.max_diff.zip(row.tol_share) {
        Some((diff, share)) => format!("{diff:.1e} ({:.0}% tol)", 100.0 * share),
        None => "not compared".into(),
    }
}

fn microseconds(time: f64) -> String {
    match time {
        ..1e3 => format!("{time:.1} us"),
        ..1e6 => format!("{:.2} ms", time / 1e3),
        _ => format!("{:.2} s", time / 1e6),
    }
}

/// In the unit that makes it readable.
pub(super) fn rate(row: &Row) -> String {
    match row.rate() {
        None => String::new(),
        Some((rate, "TFLOP/s")) if rate < 1.0 => format!("{:.1} GFLOP/s", 1e3 * rate),
        Some((rate, unit)) => format!("{rate:.1} {unit}"),
    }
}
