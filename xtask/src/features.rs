//! That every choice of features builds: each alone, each pair, all and none.

use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, cargo, root, say};

/// Version that is installed where there is none; any will do that is there.
const CARGO_HACK: &str = "0.6.46";

/// Checks every crate with each choice of its features, then the facade with all engines in one
/// build with the peer's crates.
///
/// Pairs are enough to see two features collide, and their number stays small as engines are added.
pub(crate) fn features() -> Result<(), Failure> {
    let mut command = cargo_hack()?;
    command.args(["hack", "clippy", "--quiet", "--workspace", "--ignore-private"]);
    command.args(["--feature-powerset", "--depth", "2"]);
    command.args(["--keep-going", "--", "-D", "warnings"]);
    run("cargo hack", &mut command)?;
    let mut command = cargo();
    // The benches depend on candle with its CUDA features off; cargo unifies what all need.
    command.args(["check", "--quiet", "--package", "frazil", "--package", "frazil-benches"]);
    run("beside candle", command.args(["--all-features", "--all-targets"]))?;
    say("features: every choice builds, and the facade beside candle")
}

fn run(name: &str, command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

/// cargo-hack from the path, or from the target folder, where it is installed at need.
fn cargo_hack() -> Result<Command, Failure> {
    let is_there = |program: &PathBuf| {
        let version = Command::new(program).args(["hack", "--version"]).output();
        version.is_ok_and(|output| output.status.success())
    };
    let tools = root().join("target/tools");
    let installed = tools.join("bin").join(format!("cargo-hack{}", std::env::consts::EXE_SUFFIX));
    let known = [PathBuf::from("cargo-hack"), installed.clone()];
    let program = match known.into_iter().find(is_there) {
        Some(program) => program,
        None => {
            say(&format!("cargo-hack is not here: {CARGO_HACK} goes to {}", tools.display()))?;
            let mut install = cargo();
            install.args(["install", "cargo-hack", "--quiet", "--locked", "--version", CARGO_HACK]);
            run("cargo install cargo-hack", install.arg("--root").arg(&tools))?;
            installed
        }
    };
    let mut command = Command::new(program);
    command.current_dir(root());
    Ok(command)
}
