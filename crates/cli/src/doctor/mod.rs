//! `frazil doctor`: what is here to run on, and what is amiss.
//!
//! Reads files, and opens libraries in another process alone: it must say something useful where
//! opening one ends the process. [`frazil_cuda::find`] says what lies where, as it does for what opens
//! NVRTC · `driver` and `host` read what the system says · `opened` opens libraries elsewhere ·
//! `engines` tries each engine · `findings` judges · `report` writes.

mod driver;
mod engines;
mod findings;
mod host;
mod opened;
mod report;
#[cfg(test)]
mod tests;

use frazil_cuda::find::Roots;

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::select;
use opened::Opened;
pub(crate) use opened::open_libraries;
use report::Report;

pub(crate) fn doctor(_: &args::Doctor, out: &mut Output) -> Result<Outcome, Failure> {
    let report =
        Report::new(&Roots::of_this_computer(), &select::router(None)?, Opened::in_a_child())?;
    if out.json {
        out.object(&report)?;
    } else {
        report.write(out)?;
    }
    Ok(report.outcome())
}
