//! Test tiers and lints of this workspace: `cargo xtask`.

#![forbid(unsafe_code)]

mod bundle;
mod features;
mod lint;
mod msrv;
mod prebuilt;
mod sass;
mod sizes;
mod support_table;
mod test;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "\
Test tiers and lints of this workspace.

cargo xtask test [--tier TIER,...] [--require TIER,...] [--long] [--prebuilt FOLDER]
    Run every tier that can run here and say of each how it went.
    --tier      run these alone
    --require   fail where one of these tiers has no test, does not run, or a test of it was skipped
    --long      also the tests marked as ignored: the peer's whole file, 20,000 generated cases
    --prebuilt  run the programs of an unpacked bundle; `run-tests` in it does this
cargo xtask bundle [--out FOLDER]
    Pack test programs, benches, the command line and what they read into one archive that runs on
    a Linux host without Rust: bundle/frazil-bundle-ARCH.tar.xz. Needs git, GNU tar and xz.
cargo xtask bench-so [--out FOLDER]
    Build what times frazil beside other software in one process, for a GPU host with Python and no
    Rust: a library with a C ABI and the harness, in target/bench-so. docs/BENCHMARKS.md has its use.
cargo xtask lint
    rustfmt, clippy and rustdoc with warnings denied, and sizes.
cargo xtask sizes
    Fail where a Rust or CUDA file, or a function in CUDA, is too long.
cargo xtask features
    clippy over every crate with each of its features, each pair, all and none (cargo-hack, which is
    installed in the target folder at need), and the facade in one build with candle.
cargo xtask msrv
    Check what is published with the oldest compiler promised, where rustup has it.
cargo xtask sass [--write]
    What the machine code of kernels is like: loops, registers, local memory, without a GPU. Fails where
    a loop of products touches local memory or is longer than in the snapshot. Needs NVRTC, nvdisasm.
    --write     make this the snapshot
cargo xtask support-table [--check]
    Ask every engine who serves what and write the table of README.md and docs/SUPPORT.md.
    --check     write nothing, fail where one is not what asking gives

Exit codes: 0 all is well; 1 it is not; 2 arguments that mean nothing.
";

/// What a task that failed has to say; empty when it has said it.
type Failure = String;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["test", options @ ..] => match test::Options::parse(options) {
            Ok(options) => test::test(&options),
            Err(wrong) => return misused(&format!("xtask: {wrong}")),
        },
        ["bundle", options @ ..] => match bundle::Options::parse(options) {
            Ok(options) => bundle::bundle(&options),
            Err(wrong) => return misused(&format!("xtask: {wrong}")),
        },
        ["bench-so", options @ ..] => match bundle::bench_so::parse(options) {
            Ok(out) => bundle::bench_so::bench_so(&out),
            Err(wrong) => return misused(&format!("xtask: {wrong}")),
        },
        ["lint"] => lint::lint(),
        ["sizes"] => sizes::sizes(),
        ["features"] => features::features(),
        ["msrv"] => msrv::msrv(),
        ["sass"] => sass::sass(false),
        ["sass", "--write"] => sass::sass(true),
        ["support-table"] => support_table::support_table(false),
        ["support-table", "--check"] => support_table::support_table(true),
        ["help" | "--help" | "-h"] => say(HELP.trim_end()),
        _ => return misused(HELP.trim_end()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the arguments.
fn misused(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}

/// A line on standard output.
fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(|error| error.to_string())
}

/// Root of the workspace.
fn root() -> PathBuf {
    // Set by `cargo run`, so that a moved checkout works without a new build.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = here.as_deref().and_then(std::path::Path::parent);
    root.map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// Names of the files of the repository that match: tracked, and about to be.
fn tracked(patterns: &[&str]) -> Result<Vec<String>, Failure> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
    let listed = Command::new("git").args(args).args(patterns).current_dir(root()).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The cargo that runs this.
fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command
}
