//! `frazil completions`: a script for a shell.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{self, Cli};
use crate::failure::{Failure, Outcome};
use crate::output::Output;

pub(crate) fn completions(args: &args::Completions, out: &mut Output) -> Result<Outcome, Failure> {
    // Through memory: the generator panics where a writer fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "frazil", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Right)
}
