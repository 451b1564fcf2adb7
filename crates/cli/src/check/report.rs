//! Verdicts as lines, and their sum.

use std::io::Write;

use frazil::EngineId;
use frazil_conformance::run::{Status, Totals, Verdict};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{Output, Tone, one_line};

/// What has been seen so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    engines: Vec<Line>,
    totals: Totals,
    /// Declines that a file states.
    num_stated_declines: usize,
    /// Whether what is right gets a line too.
    every: bool,
}

/// One engine of the summary.
#[derive(Debug)]
struct Line {
    engine: EngineId,
    totals: Totals,
    /// Greatest share of a tolerance that a right answer used, and where.
    worst: Option<(f64, String)>,
}

#[derive(Serialize)]
struct Last {
    totals: Totals,
}

impl Report {
    /// A report with a line for every verdict.
    pub(crate) fn of_every_verdict() -> Self {
        Self { every: true, ..Self::default() }
    }

    pub(crate) fn add(&mut self, verdict: &Verdict, out: &mut Output) -> Result<(), Failure> {
        self.totals.add(verdict.status);
        self.num_stated_declines += usize::from(verdict.stated);
        let known = self.engines.iter().position(|line| line.engine == verdict.engine);
        let at = known.unwrap_or_else(|| {
            let (engine, totals) = (verdict.engine.clone(), Totals::default());
            self.engines.push(Line { engine, totals, worst: None });
            self.engines.len() - 1
        });
        let line = &mut self.engines[at];
        line.totals.add(verdict.status);
        let ratio = verdict.ratio().filter(|_| verdict.status == Status::Right);
        if let Some(ratio) = ratio
            && line.worst.as_ref().is_none_or(|(worst, _)| ratio > *worst)
        {
            line.worst = Some((ratio, verdict.id.clone()));
        }
        // What is right needs no line, and what the caller left out neither.
        let is_news = !matches!(verdict.status, Status::Right | Status::Skipped);
        if out.json {
            out.object(verdict)
        } else if is_news || self.every {
            write_verdict(verdict, out)
        } else {
            Ok(())
        }
    }

    /// How the command ends, as far as it has come.
    pub(crate) fn outcome(&self) -> Outcome {
        let Totals { wrong, invalid, error, right, declined, .. } = self.totals;
        if wrong + error != 0 {
            Outcome::Wrong
        } else if invalid != 0 {
            Outcome::Invalid
        } else if right == 0 && declined != self.num_stated_declines {
            // A decline beside right answers is one of several engines'; nothing else is none.
            Outcome::Declined
        } else {
            Outcome::Right
        }
    }

    /// The last lines: counts by engine, or all of them as one object.
    pub(crate) fn write_summary(&self, out: &mut Output) -> Result<(), Failure> {
        if out.json { out.object(&Last { totals: self.totals }) } else { self.write_table(out) }
    }

    fn write_table(&self, out: &mut Output) -> Result<(), Failure> {
        let width = self.engines.iter().map(|line| line.engine.as_str().len()).max().unwrap_or(0);
        let width = width.max("engine".len());
        let heads = ["right", "wrong", "declined", "invalid", "error", "skipped"];
        write!(out, "{:<width$}", "engine")?;
        heads.iter().try_for_each(|head| write!(out, "  {head:>8}"))?;
        writeln!(out, "  most of a tolerance used")?;
        for Line { engine, totals, worst } in &self.engines {
            let Totals { right, wrong, declined, invalid, error, skipped } = *totals;
            write!(out, "{engine:<width$}")?;
            let counts = [right, wrong, declined, invalid, error, skipped];
            counts.iter().try_for_each(|count| write!(out, "  {count:>8}"))?;
            match worst {
                Some((ratio, id)) => writeln!(out, "  {ratio:.2} in {}", one_line(id))?,
                None => writeln!(out, "  -")?,
            }
        }
        Ok(())
    }
}

fn write_verdict(verdict: &Verdict, out: &mut Output) -> Result<(), Failure> {
    let Verdict { id, engine, status, max_err, tol, reason, repro, .. } = verdict;
    let status = match status {
        Status::Right => out.paint(Tone::Good, "right"),
        Status::Skipped => out.paint(Tone::Faint, "skipped"),
        Status::Declined => out.paint(Tone::Faint, "declined"),
        Status::Wrong => out.paint(Tone::Bad, "WRONG"),
        Status::Invalid => out.paint(Tone::Bad, "INVALID"),
        Status::Error => out.paint(Tone::Bad, "ERROR"),
    };
    write!(out, "{}  {engine}  {status}", one_line(id))?;
    if let Some(reason) = reason {
        write!(out, "  {}", one_line(reason))?;
    }
    if let (Some(err), Some(tol)) = (max_err, tol) {
        write!(out, "  (error {err:.3e} of {tol:.3e} allowed)")?;
    }
    writeln!(out)?;
    if let Some(repro) = repro {
        writeln!(out, "    {repro}")?;
    }
    Ok(())
}
