//! How the tests of a tier are started, and what they print read.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::counts::{Counts, REEXECUTED};
use super::tiers::{Tests, Tier};
use crate::prebuilt::Program;
use crate::{Failure, cargo, say};

/// Runs a tier, passing on what it prints.
pub(super) fn run(tier: &Tier<'_>, long: bool) -> Result<Counts, Failure> {
    let mut counts = Counts { success: true, ..Counts::default() };
    let long: &[&str] = match long && tier.has_long {
        true => &["--include-ignored", "--skip", REEXECUTED],
        false => &[],
    };
    match &tier.tests {
        Tests::Chosen(select) => {
            let mut command = cargo();
            command.args(["test", "--workspace", "--no-fail-fast"]).args(select);
            counts.run(command.arg("--").args(long))?;
        }
        Tests::Built(prebuilt, programs) => {
            for program in programs {
                let Program { package, target, .. } = program;
                say(&format!("     Running {target} ({package})"))?;
                // A program that does not start fails its tier, and the others run.
                if let Err(fault) = counts.run(prebuilt.command(program).args(long)) {
                    counts.success = false;
                    say(&fault)?;
                }
            }
        }
        Tests::Absent(why) => {
            say(&format!("SKIPPED: {why}"))?;
            counts.skipped.insert((*why).to_owned(), 0);
        }
    }
    Ok(counts)
}

impl Counts {
    /// Runs a program, counts what it prints and passes it on, closing lines included.
    fn run(&mut self, command: &mut Command) -> Result<(), Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let fault = |error: std::io::Error| format!("{name}: {error}");
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(fault)?;
        let mut out = std::io::stdout().lock();
        // Bytes, since a test may print what is no UTF-8.
        let lines =
            child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n'));
        for line in lines {
            let line = line.map_err(fault)?;
            self.read(&String::from_utf8_lossy(&line));
            out.write_all(&[line.as_slice(), b"\n"].concat()).map_err(fault)?;
        }
        let status = child.wait().map_err(fault)?;
        self.success &= status.success();
        Ok(())
    }
}
