//! `frazil check`: cases through engines, against the reference.

mod progress;
pub(crate) mod report;
mod workers;

use frazil::{Device, EngineId};
use frazil_conformance::repro::Repro;
use frazil_conformance::run::{Entry, Status, Verdict};

use crate::args::{self, DeviceName};
use crate::cases;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::select::Judged;
use progress::Progress;
use report::Report;

/// Reason of an error that is no case's and no engine's.
const PANICKED: &str = "the runner panicked";

pub(crate) fn check(args: &args::Check, out: &mut Output) -> Result<Outcome, Failure> {
    let limit = match args.max_gflop {
        Some(limit) if limit.is_nan() || limit < 0.0 => {
            return Err(Failure::Input(format!("--max-gflop {limit}: a number from 0 is needed")));
        }
        limit => limit.unwrap_or(f64::INFINITY),
    };
    let device = device(args.device);
    let Judged { router, engines } = Judged::on(device.target(), args.engine.as_deref())?;
    let mut entries = Vec::new();
    for (at, source) in args.sources.iter().enumerate() {
        let is_same = |before: &std::path::PathBuf| {
            before == source || crate::files::are_same(before, source)
        };
        if args.sources[..at].iter().any(is_same) {
            return Err(Failure::in_file(source, "is given twice"));
        }
        entries.extend(cases::read(source, &router)?);
    }
    if let Some(filter) = &args.filter {
        let all = entries.len();
        entries.retain(|entry| entry.id.contains(filter.as_str()));
        if entries.is_empty() {
            let what = format!("--filter: no id of {all} cases contains `{filter}`");
            return Err(Failure::Input(what));
        }
    }
    let jobs = workers::Jobs { entries: &entries, router: &router, device: &device, limit };
    let mut report = Report::default();
    let mut progress = Progress::new(entries.len());
    workers::run(&jobs, args.jobs.get(), |entry, verdicts| {
        progress.clear();
        for verdict in verdicts.iter().filter(|verdict| engines.contains(&verdict.engine)) {
            report.add(verdict, out)?;
        }
        progress.done(&entry.id);
        Ok(())
    })?;
    progress.clear();
    report.write_summary(out)?;
    Ok(report.outcome())
}

/// The device of that name, opened.
pub(crate) fn device(name: DeviceName) -> Device {
    match name {
        DeviceName::Host => frazil::cpu::host(),
    }
}

/// The verdict on an entry that was not judged: one for each engine.
fn not_judged(entry: &Entry, engines: &[EngineId], status: Status, reason: &str) -> Vec<Verdict> {
    let verdict = |engine: &EngineId| Verdict {
        id: entry.id.clone(),
        engine: engine.clone(),
        status,
        max_err: None,
        tol: None,
        reason: Some(reason.to_owned()),
        repro: entry
            .runs
            .first()
            .filter(|_| status == Status::Error)
            .map(|case| Repro::new(case, engine, None)),
        stated: false,
    };
    engines.iter().map(verdict).collect()
}
