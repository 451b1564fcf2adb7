//! The command line of frazil.

#![forbid(unsafe_code)]

mod args;
mod cases;
mod check;
mod doctor;
mod engines;
mod explain;
mod failure;
mod files;
mod input;
mod output;
mod repro;
mod run;
mod select;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{Failure, Outcome};
use output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and versions come this way too, and then the code is 0. Nobody can be told of a
            // closed stream.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match command(&cli.command) {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => {
            if !failure.is_broken_pipe() {
                let _ = writeln!(io::stderr(), "frazil: {failure}");
            }
            failure.exit_code()
        }
    }
}

fn command(command: &Command) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(match command {
        Command::Run(args) => args.json,
        Command::Check(args) => args.json,
        Command::Repro(args) => args.json,
        Command::Explain(args) => args.json,
        Command::Engines(args) => args.json,
        Command::Doctor(args) => args.json,
    });
    let outcome = match command {
        Command::Run(args) => run::run(args, &mut out),
        Command::Check(args) => check::check(args, &mut out),
        Command::Repro(args) => repro::repro(args, &mut out),
        Command::Explain(args) => explain::explain(args, &mut out),
        Command::Engines(args) => engines::engines(args, &mut out),
        Command::Doctor(args) => doctor::doctor(args, &mut out),
    }?;
    out.flush()?;
    Ok(outcome)
}
