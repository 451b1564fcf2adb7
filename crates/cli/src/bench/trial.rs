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

#[cfg(test)]
mod tests {
    use frazil_conformance::declare::declare;

    use super::*;
    use crate::bench::preset::select;

    /// A trial on a device of a tera operation and 100 GB a second.
    fn with_trial(config: &str, then: impl FnOnce(&Trial<'_>)) {
        let (preset, _) = config.split_once('/').unwrap();
        let cells = select(&[preset.to_owned()]).unwrap();
        let cell = cells.into_iter().find(|cell| cell.config == config).unwrap();
        let declared = declare(&cell.case(1)).unwrap();
        let context = Context { device: "X".into(), driver: String::new(), cache: "cold" };
        let limits = Limits { flops: (1e12, "product"), bytes: (1e11, "reads") };
        let work = Work::of(&cell);
        then(&Trial { cell: &cell, declared: &declared, work, limits, context: &context });
    }

    #[test]
    fn the_limit_that_binds_gives_the_share() {
        with_trial("h200/dense/d128_h16_b4_s4096_full", |trial| {
            let flops = 4.0 * 128.0 * 16.0 * 4.0 * 4096.0_f64.powi(2);
            let mut row = trial.row(&EngineId::new("sdpa_fwd_cpu"));
            trial.fill(&mut row, &[Ok(vec![2.0 * flops / 1e12; 7])], 0);
            assert_eq!((row.status, row.limit.as_str()), (Status::Measured, "compute"));
            assert_eq!((row.limit_share, row.tflops, row.gbs), (Some(0.5), Some(0.5), None));
            assert_eq!((row.samples, row.speedup), (Some(7), None));
        });
        with_trial("h200/decode/d128_h32x8_b64_q1_s8192_full", |trial| {
            let (kv, q_and_o) = (64.0 * 8.0 * 8192.0 * 512.0, 64.0 * 32.0 * 512.0);
            let mut row = trial.row(&EngineId::new("sdpa_fwd_cpu"));
            trial.fill(&mut row, &[Ok(vec![kv / 50e9])], 0);
            assert_eq!((row.limit.as_str(), row.tflops, row.gbs), ("memory", None, Some(50.0)));
            assert_eq!(row.limit_share, Some(six_digits((kv + q_and_o) / kv / 2.0)));
            assert_eq!((row.time_us_low, row.time_us_high), (None, None));
        });
    }

    #[test]
    fn contenders_are_compared_with_the_first_round_by_round() {
        with_trial("h200/dense/d128_h16_b4_s4096_full", |trial| {
            // The second takes twice as long in every round, whatever the round was like.
            let first: Vec<f64> = (1..=9).map(f64::from).collect();
            let second = first.iter().map(|time| 2.0 * time).collect();
            let mut row = trial.row(&EngineId::new("sdpa_fwd_cpu"));
            trial.fill(&mut row, &[Ok(first), Ok(second)], 1);
            assert_eq!(
                (row.speedup, row.speedup_low, row.speedup_high),
                (Some(0.5), Some(0.5), Some(0.5))
            );
            assert_eq!(
                (row.time_us, row.time_us_low, row.time_us_high),
                (Some(1e7), Some(4e6), Some(1.6e7))
            );
        });
    }

    #[test]
    fn a_difference_above_its_tolerance_is_wrong() {
        with_trial("h200/dense/d128_h16_b4_s4096_full", |trial| {
            for (tol_share, status) in
                [(1.0, Status::Measured), (1.01, Status::Wrong), (f64::INFINITY, Status::Wrong)]
            {
                let mut row = trial.row(&EngineId::new("sdpa_fwd_cpu"));
                trial.fill(&mut row, &[Ok(vec![1.0])], 0);
                judge(&mut row, &Finding { rows: 8, max_diff: 0.5, tol_share });
                assert_eq!((row.status, row.max_diff), (status, Some(0.5)), "{tol_share}");
                assert_eq!(row.note.contains("8 rows"), status == Status::Wrong, "{}", row.note);
            }
        });
    }
}
