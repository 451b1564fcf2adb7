//! The cells of a bench, one after another, through every engine.

use std::sync::Arc;

use frazil::{Answer, EngineId, Plan, Target};
use frazil_conformance::declare::declare;

use super::args::Bench;
use super::cell::Cell;
use super::check;
use super::device::{BenchDevice, Limits};
use super::inputs;
use super::measure::Rounds;
use super::peers::Peers;
use super::progress::Progress;
use super::row::{Context, Row, Status, six_digits};
use super::store::Store;
use super::table::Table;
use super::trial::{Served, Trial, judge};
use super::work::Work;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::select::Judged;

/// A change of a limit during a run that makes its shares doubtful.
const DRIFT: f64 = 0.02;

/// Everything that cells are run with.
pub(super) struct Session<'a> {
    args: &'a Bench,
    judged: Judged,
    rounds: Rounds,
    peers: &'a mut Peers,
    random: fastrand::Rng,
}

/// What a run left.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) rows: Vec<Row>,
    pub(super) outcome: Outcome,
}

/// Where rows go.
struct Sink<'a> {
    store: Option<&'a mut Store>,
    table: Table,
    out: &'a mut Output,
    progress: Progress,
    rows: Vec<Row>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        args: &'a Bench,
        judged: Judged,
        rounds: Rounds,
        peers: &'a mut Peers,
    ) -> Self {
        let random = fastrand::Rng::with_seed(args.seed);
        Self { args, judged, rounds, peers, random }
    }

    /// Runs all cells, between two measurements of the limits.
    pub(super) fn run(
        &mut self,
        cells: &[Cell],
        device: &mut dyn BenchDevice,
        store: Option<&mut Store>,
        out: &mut Output,
    ) -> Result<Done, Failure> {
        let context = Context {
            device: device.name().to_owned(),
            driver: device.driver().to_owned(),
            cache: self.args.cache.name(),
        };
        let cells = self.left(cells, &context, store.as_deref());
        if cells.is_empty() {
            return Ok(Done::default());
        }
        let widest = cells.iter().map(|cell| cell.config.len()).max().unwrap_or(0);
        let progress = Progress::new(cells.len(), self.args.rounds);
        let table = Table::new(widest.max("limit/compute".len()));
        let mut sink = Sink { store, table, out, progress, rows: Vec::new() };
        sink.progress.doing("limits of the device");
        let limits = device.limits()?;
        sink.limits(&context, &limits)?;
        for cell in cells {
            sink.progress.doing(&cell.config);
            self.cell(cell, limits, &context, device, &mut sink)?;
            sink.progress.cell_done();
        }
        if sink.rows.iter().any(|row| row.time_us.is_some()) {
            sink.progress.doing("limits of the device");
            let after = device.limits()?;
            sink.limits(&context, &after)?;
            sink.progress.aside(|| {
                warn_of_drift("compute", limits.flops.0, after.flops.0);
                warn_of_drift("memory", limits.bytes.0, after.bytes.0);
            });
        }
        let rows = sink.rows;
        let outcome = outcome(&rows);
        Ok(Done { rows, outcome })
    }

    /// Cells that some engine has not answered yet.
    fn left<'c>(
        &self,
        cells: &'c [Cell],
        context: &Context,
        store: Option<&Store>,
    ) -> Vec<&'c Cell> {
        let engines = &self.judged.engines;
        let is_answered = |row: &Row| store.is_some_and(|store| store.known.is_answered(row));
        let row = |cell: &Cell, id: &EngineId| Row::new(context, cell, id.as_str());
        let is_left = |cell: &&Cell| engines.iter().any(|id| !is_answered(&row(cell, id)));
        let left: Vec<&Cell> = cells.iter().filter(is_left).collect();
        if left.len() < cells.len() {
            let done = cells.len() - left.len();
            super::say(&format!("{done} of {} cells are there already", cells.len()));
        }
        left
    }

    fn cell(
        &mut self,
        cell: &Cell,
        limits: Limits,
        context: &Context,
        device: &mut dyn BenchDevice,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let declared = declare(&cell.case(self.args.seed));
        let declared = declared.map_err(|error| Failure::Input(error.to_string()))?;
        let work = Work::of(cell);
        let trial = Trial { cell, declared: &declared, work, limits, context };
        let target = Arc::new(device.device().target().clone());
        let mut served = Vec::new();
        for (engine, plans) in self.ask(&trial, &target, sink)? {
            let built = match self.too_large(&trial, device, &plans) {
                Some(why) => Err(Box::new(trial.row(&engine).without_time(Status::Skipped, why))),
                None => trial.build(&engine, &plans, device),
            };
            match built {
                Ok(one) => served.push(one),
                // What it answered before stands, whatever hinders it now.
                Err(row) if sink.is_answered(&row) => {}
                Err(row) => sink.row(*row)?,
            }
        }
        // A speedup is of two times of one process, so an engine that has its row is timed again
        // beside one that has none.
        if served.iter().all(|one| sink.is_answered(&trial.row(&one.engine))) {
            return Ok(());
        }
        for row in self.time(&trial, served, device, &sink.progress)? {
            sink.row(row)?;
        }
        Ok(())
    }

    /// Engines that serve a cell, in rank order; those that decline get their rows at once.
    fn ask(
        &self,
        trial: &Trial<'_>,
        target: &Arc<Target>,
        sink: &mut Sink<'_>,
    ) -> Result<Vec<(EngineId, Vec<Plan>)>, Failure> {
        let mut served = Vec::new();
        for (engine, _, answer) in self.judged.router.explain(&trial.declared.facts, target).answers
        {
            match answer {
                Answer::Served(plans) => served.push((engine, plans)),
                Answer::Declined(why) => {
                    let row = trial.row(&engine);
                    if !sink.is_answered(&row) {
                        let note = format!("{}: {why}", why.kind());
                        sink.row(row.without_time(Status::Declined, note))?;
                    }
                }
                _ => {}
            }
        }
        Ok(served)
    }

    /// Why a cell is not tried: memory that is not there, or time that no engine can undercut.
    fn too_large(
        &self,
        trial: &Trial<'_>,
        device: &dyn BenchDevice,
        plans: &[Plan],
    ) -> Option<String> {
        let (least, budget) = (trial.least_seconds(), self.rounds.budget.as_secs_f64());
        if least > budget {
            return Some(format!(
                "one execute takes {least:.1} s at the {} limit, the time budget is {budget:.1} s",
                trial.limit()
            ));
        }
        let workspace = plans.first().map_or(0, Plan::workspace_bytes);
        // Inputs are kept twice: as they were drawn, and on the device.
        let need = inputs::bytes(trial.declared).saturating_mul(2).saturating_add(workspace);
        let free = device.free_bytes()?;
        let mib = |bytes: u64| bytes >> 20;
        (need > free).then(|| format!("takes {} MiB, {} MiB are free", mib(need), mib(free)))
    }

    /// Times the engines of a cell together, then compares what they give for other inputs.
    fn time(
        &mut self,
        trial: &Trial<'_>,
        served: Vec<Served>,
        device: &mut dyn BenchDevice,
        progress: &Progress,
    ) -> Result<Vec<Row>, Failure> {
        let seed = self.args.seed;
        let mut rows: Vec<Row> = Vec::new();
        let mut executables = Vec::new();
        for Served { engine, plan, executable } in served {
            rows.push(Row { plan, ..trial.row(&engine) });
            executables.push(executable);
        }
        let images = inputs::draw(trial.cell, trial.declared, seed)?;
        let mut loaded = device.load(&images, executables, self.rounds.cache)?;
        drop(images);
        let round = |done| progress.round(done);
        let samples = self.rounds.run(loaded.as_mut(), rows.len(), &mut self.random, round);
        let other = inputs::draw(trial.cell, trial.declared, seed.wrapping_add(1))?;
        let o = other.iter().position(|image| image.tensor.role == frazil::Role::O);
        let o = o.expect("every cell has an output");
        for (at, row) in rows.iter_mut().enumerate() {
            if let Err(fault) = &samples[at] {
                (row.status, row.note) = (Status::Error, fault.to_string());
                continue;
            }
            trial.fill(row, &samples, at);
            if self.args.no_compare {
                row.note = "not compared".into();
                continue;
            }
            loaded.store(&other)?;
            match loaded.time(at, 1).and_then(|_| loaded.fetch(o)) {
                Ok(bytes) => judge(row, &check::check(trial.cell, &other, &bytes, seed)),
                Err(fault) => (row.status, row.note) = (Status::Error, fault.to_string()),
            }
        }
        rows.iter_mut().for_each(|row| self.peers.compare(row));
        Ok(rows)
    }
}

fn warn_of_drift(what: &str, before: f64, after: f64) {
    let change = after / before - 1.0;
    if change.abs() > DRIFT {
        let percent = 100.0 * change;
        super::say(&format!(
            "the {what} limit changed by {percent:+.1}% during the run, and so may have times: other \
             work on the device, or clocks"
        ));
    }
}

/// What all rows together mean for the exit code.
fn outcome(rows: &[Row]) -> Outcome {
    let any = |status| rows.iter().any(|row| row.status == status);
    if any(Status::Wrong) || any(Status::Error) {
        return Outcome::Wrong;
    }
    if any(Status::Measured) { Outcome::Right } else { Outcome::Declined }
}

impl Sink<'_> {
    fn is_answered(&self, row: &Row) -> bool {
        self.store.as_ref().is_some_and(|store| store.known.is_answered(row))
    }

    /// Stores a row, then shows it: what is shown is safe.
    fn row(&mut self, row: Row) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.add(&row)?;
        }
        let Self { progress, table, out, .. } = self;
        progress.aside(|| table.row(&row, out).and_then(|()| Ok(std::io::Write::flush(out)?)))?;
        self.rows.push(row);
        Ok(())
    }

    fn limits(&mut self, context: &Context, limits: &Limits) -> Result<(), Failure> {
        let (flops, of_flops) = limits.flops;
        let mut compute = Row::of_limit(context, "limit/compute", of_flops);
        compute.tflops = Some(six_digits(flops / 1e12));
        let (bytes, of_bytes) = limits.bytes;
        let mut memory = Row::of_limit(context, "limit/memory", of_bytes);
        memory.gbs = Some(six_digits(bytes / 1e9));
        self.row(compute)?;
        self.row(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_row_decides_the_exit_code() {
        let row = |status| Row::default_of_schema().without_time(status, "");
        let of = |statuses: &[Status]| {
            outcome(&statuses.iter().map(|&status| row(status)).collect::<Vec<_>>())
        };
        use Status::{Declined, Error, Limit, Measured, Skipped, Wrong};
        assert_eq!(of(&[Limit, Measured, Declined, Skipped]), Outcome::Right);
        assert_eq!(of(&[Limit, Measured, Wrong]), Outcome::Wrong);
        assert_eq!(of(&[Limit, Measured, Error]), Outcome::Wrong);
        assert_eq!(of(&[Limit, Declined]), Outcome::Declined);
        assert_eq!(of(&[Limit, Skipped]), Outcome::Declined);
    }
}
