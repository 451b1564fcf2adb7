//! The command line of frazil.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cases;
mod check;
mod completions;
mod computer;
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
mod warm;
mod warnings;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{Failure, Outcome};
use output::Output;

fn main() -> ExitCode {
    warnings::show();
    let ended = match Cli::try_parse() {
        Ok(cli) => command(&cli.command).map(Outcome::exit_code),
        // Help and versions come this way too, and then the code is 0.
        Err(error) => match error.print().and_then(|()| io::stdout().flush()) {
            Ok(()) => Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))),
            Err(closed) => Err(Failure::Output(closed)),
        },
    };
    ended.unwrap_or_else(|failure| {
        if !failure.is_broken_pipe() {
            // Nobody can be told that standard error is closed.
            let _ = writeln!(io::stderr(), "frazil: {failure}");
        }
        failure.exit_code()
    })
}

fn command(command: &Command) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(command.is_json());
    let outcome = match command {
        Command::Run(args) => run::run(args, &mut out),
        Command::Check(args) => check::check(args, &mut out),
        Command::Repro(args) => repro::repro(args, &mut out),
        Command::Explain(args) => explain::explain(args, &mut out),
        Command::Engines(args) => engines::engines(args, &mut out),
        Command::Doctor(args) => doctor::doctor(args, &mut out),
        Command::Completions(args) => completions::completions(args, &mut out),
        Command::Bench(args) => bench::bench(args, &mut out),
        Command::OpenLibraries => doctor::open_libraries(&mut out),
        Command::Warm(args) => warm::warm(args, &mut out),
    }?;
    out.flush()?;
    Ok(outcome)
}
