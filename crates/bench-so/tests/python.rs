//! The harness in Python, tested from its side of the C ABI: flops, statistics, cases, and calls on
//! the host. Nothing of it needs PyTorch.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::path::PathBuf;
use std::process::Command;

use frazil_conformance::{cargo_path, skip};

/// The library as cargo built it, beside this program or in the folder above.
fn library() -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let name =
        format!("{}frazil_bench{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    here.ancestors().skip(1).take(2).map(|folder| folder.join(&name)).find(|path| path.is_file())
}

#[test]
fn the_harness_counts_and_calls_right() {
    let asked = Command::new("python3").arg("--version").output();
    let Some(python) = asked.ok().filter(|asked| asked.status.success()) else {
        return skip::because("no python3");
    };
    let version = String::from_utf8_lossy(&python.stdout).into_owned();
    let minor = version.trim().strip_prefix("Python 3.").and_then(|rest| rest.split('.').next());
    let Some(11..) = minor.and_then(|minor| minor.parse::<u32>().ok()) else {
        return skip::because(format_args!("no python3 with tomllib: {version}"));
    };
    let folder = cargo_path!("CARGO_MANIFEST_DIR").join("../../benches/ab");
    let library = library().expect("cargo builds the cdylib before the package's tests");
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "unittest", "test_ab"]).current_dir(folder);
    let output = command.env("FRAZIL_BENCH_SO", library).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // A test that was skipped, or none at all, would pass.
    assert!(said.trim_end().ends_with("\nOK") && !said.contains("Ran 0 tests"), "{said}");
}
