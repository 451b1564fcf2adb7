//! One cell: what its engines are built for, and what follows from their times and answers.

use frazil::{BuildError, EngineId, Executable, Plan};
use frazil_conformance::declare::Declared;

use super::cell::Cell;
use super::check::Finding;
use super::device::{BenchDevice, Limits};
use super::measure::{Samples, speedup};
use super::row::{Context, Row, Status, six_digits};
use super::stats::Summary;
use super::work::Work;

/// A cell on its way.
pub(super) struct Trial<'a> {
    pub(super) cell: &'a Cell,
    pub(super) declared: &'a Declared,
    pub(super) work: Work,
    pub(super) limits: Limits,
    pub(super) context: &'a Context,
}

/// An engine that serves a cell.
pub(super) struct Served {
    pub(super) engine: EngineId,
    pub(super) plan: String,
    pub(super) executable: Executable,
}

impl Trial<'_> {
    pub(super) fn row(&self, engine: &EngineId) -> Row {
        Row::new(self.context, self.cell, engine.as_str())
    }

    /// Seconds that the work takes at the limits of compute and of memory.
    fn seconds(&self) -> (f64, f64) {
        (self.work.flops / self.limits.flops.0, self.work.bytes / self.limits.bytes.0)
    }

    pub(super) fn least_seconds(&self) -> f64 {
        let (compute, memory) = self.seconds();
        compute.max(memory)
    }

    /// Which limit binds.
    pub(super) fn limit(&self) -> &'static str {
        let (compute, memory) = self.seconds();
        if compute >= memory { "compute" } else { "memory" }
    }

    /// The first plan that can be built, or the row that says why there is none.
    pub(super) fn build(
        &self,
        engine: &EngineId,
        plans: &[Plan],
        device: &dyn BenchDevice,
    ) -> Result<Served, Box<Row>> {
        let mut note = "no plan".to_owned();
        for plan in plans {
            match plan.build(device.device()) {
                Ok(executable) => {
                    let plan = plan.config().to_string();
                    return Ok(Served { engine: engine.clone(), plan, executable });
                }
                Err(BuildError::Declined(why)) => note = format!("{}: {why}", why.kind()),
                Err(BuildError::Fault(fault)) => {
                    let row = self.row(engine).without_time(Status::Error, fault.to_string());
                    return Err(Box::new(row));
                }
            }
        }
        Err(Box::new(self.row(engine).without_time(Status::Declined, note)))
    }

    /// What follows from the times of contender `at`.
    pub(super) fn fill(&self, row: &mut Row, samples: &[Samples], at: usize) {
        let Ok(times) = &samples[at] else { return };
        let Some(summary) = Summary::of(times) else { return };
        row.status = Status::Measured;
        row.samples = Some(summary.samples);
        row.set_time(summary.median, &self.work);
        let ends = summary.interval;
        row.time_us_low = ends.map(|(low, _)| six_digits(low * 1e6));
        row.time_us_high = ends.map(|(_, high)| six_digits(high * 1e6));
        row.limit = self.limit().into();
        row.limit_tflops = Some(six_digits(self.limits.flops.0 / 1e12));
        row.limit_gbs = Some(six_digits(self.limits.bytes.0 / 1e9));
        row.limit_share = Some(six_digits(self.least_seconds() / summary.median));
        if let (Ok(first), true) = (&samples[0], samples.len() > 1) {
            let ratio = speedup(first, times);
            row.speedup = ratio.map(|ratio| six_digits(ratio.median));
            let ends = ratio.and_then(|ratio| ratio.interval);
            row.speedup_low = ends.map(|(low, _)| six_digits(low));
            row.speedup_high = ends.map(|(_, high)| six_digits(high));
        }
    }
}

/// Takes what comparing showed.
pub(super) fn judge(row: &mut Row, finding: &Finding) {
    row.max_diff = Some(six_digits(finding.max_diff));
    row.tol_share = Some(six_digits(finding.tol_share));
    row.rows_compared = Some(finding.rows);
    if finding.tol_share > 1.0 {
        row.status = Status::Wrong;
        row.note = format!(
            "a difference of {:.1} times what is allowed, in {} rows compared",
            finding.tol_share, finding.rows
        );
    }
}
