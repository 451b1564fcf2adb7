//! `frazil engines`: who is there.

use std::io::Write;

use frazil::{EngineId, Feature};
use frazil_conformance::support::SupportTable;
use serde::Serialize;

use crate::args::{self, TableForm};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Tone};
use crate::select;

#[derive(Serialize)]
struct Engine<'a> {
    engine: &'a EngineId,
    maturity: String,
    features: Vec<&'static str>,
}

pub(crate) fn engines(args: &args::Engines, out: &mut Output) -> Result<Outcome, Failure> {
    let router = select::router(None)?;
    if let Some(form) = args.table {
        let table = SupportTable::ask(&router).map_err(|e| Failure::Fault(e.to_string()))?;
        let text = match form {
            TableForm::Summary => table.summary(),
            TableForm::Full => table.full(),
        };
        write!(out, "{text}")?;
        return Ok(Outcome::Right);
    }
    for engine in router.engines() {
        let (id, maturity) = (engine.id(), engine.maturity().to_string());
        if out.json {
            let features = engine.features().iter().map(Feature::name).collect();
            out.object(&Engine { engine: id, maturity, features })?;
        } else {
            writeln!(out, "{id}")?;
            writeln!(out, "  maturity  {}", out.paint(Tone::Faint, maturity))?;
            writeln!(out, "  features  {}", engine.features())?;
        }
    }
    Ok(Outcome::Right)
}
