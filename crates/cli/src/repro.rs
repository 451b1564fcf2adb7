//! `frazil repro`: one case again, as it was printed.

use std::io::Write;
use std::sync::Arc;

use frazil_conformance::declare::declare;
use frazil_conformance::memory::HostMemory;
use frazil_conformance::run::{Entry, check_entry};

use crate::args;
use crate::cases;
use crate::check::{self, report::Report};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, one_line};
use crate::select::Judged;

pub(crate) fn repro(args: &args::Repro, out: &mut Output) -> Result<Outcome, Failure> {
    let device = check::device(args.device);
    let Judged { router, engines } = Judged::on(device.target(), args.engine.as_deref())?;
    let mut entries = cases::read(&args.source, &router)?;
    let entry = entries.swap_remove(0);
    if !entries.is_empty() {
        let what = format!("holds {} cases, one is needed; see `frazil check`", entries.len() + 1);
        return Err(Failure::in_file(&args.source, what));
    }
    if !out.json {
        write_question(&entry, &device.target().device.to_string(), out)?;
    }
    let mut report = Report::of_every_verdict();
    for verdict in check_entry(&entry, &router, &HostMemory::new(device)) {
        if engines.contains(&verdict.engine) {
            report.add(&verdict, out)?;
        }
    }
    Ok(report.outcome())
}

/// What is asked, where: the verdicts follow.
fn write_question(entry: &Entry, device: &str, out: &mut Output) -> Result<(), Failure> {
    writeln!(out, "case: {}", one_line(&entry.id))?;
    let mut asked = Vec::new();
    // A case that means nothing has no facts; its verdict says why.
    for facts in entry.runs.iter().filter_map(|case| declare(case).ok()).map(|case| case.facts) {
        if !asked.contains(&facts) {
            writeln!(out, "operation: {}, features: {}", facts.op_name(), facts.features())?;
            asked.push(Arc::clone(&facts));
        }
    }
    writeln!(out, "device: {device}")?;
    Ok(())
}
