//! Runs the body of a fuzz target on files, without a fuzzer: `frazil-fuzz-targets TARGET FILE...`.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use frazil_fuzz_targets::{TARGETS, run};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (target, files) = match args.split_first() {
        Some((name, files)) if TARGETS.iter().any(|target| target.name == name) => (name, files),
        _ => {
            let names = TARGETS.map(|target| target.name).join(", ");
            let _ = writeln!(
                io::stderr(),
                "usage: frazil-fuzz-targets TARGET FILE...\ntargets: {names}"
            );
            return ExitCode::from(2);
        }
    };
    for file in files {
        let said = match std::fs::read(file) {
            Ok(input) => writeln!(io::stdout(), "{file}: {:?}", run(target, &input)),
            Err(error) => writeln!(io::stderr(), "{file}: {error}"),
        };
        if said.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
