//! That the oldest compiler promised does build what is published.

use std::fs;
use std::process::Command;

use crate::{Failure, root, say};

/// Checks the published crates with the `rust-version` of the workspace, where rustup has it.
pub(crate) fn msrv() -> Result<(), Failure> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"));
    let manifest = manifest.map_err(|error| format!("Cargo.toml: {error}"))?;
    let version = rust_version(&manifest).ok_or("Cargo.toml states no rust-version")?;
    let toolchain = format!("{version}.0");
    let rustup = |args: &[&str]| {
        let mut command = Command::new("rustup");
        // The toolchain that runs this must not choose the one that is asked for.
        command.args(args).current_dir(root()).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
        command
    };
    let found = rustup(&["run", &toolchain, "rustc", "--version"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return say(&format!(
            "msrv: SKIPPED: `rustup toolchain install {toolchain} --profile minimal` gives the compiler"
        ));
    }
    let mut check = rustup(&["run", &toolchain, "cargo", "check", "--quiet", "--workspace"]);
    check.args(["--exclude", "xtask", "--exclude", "frazil-benches"]);
    check.args(["--exclude", "frazil-fuzz-targets", "--all-features"]);
    // A folder of its own, so that neither compiler undoes the other's work.
    check.arg("--target-dir").arg(root().join("target/msrv"));
    let status = check.status().map_err(|error| format!("msrv: {error}"))?;
    if status.success() {
        return say(&format!("msrv: builds with Rust {version}"));
    }
    Err(format!("msrv: Rust {version} does not build it"))
}

/// `major.minor` of the workspace.
fn rust_version(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(line.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        assert_eq!(rust_version("[a]\nrust-version = \"1.70\"\nb = 1"), Some("1.70"));
        assert_eq!(rust_version("[a]\nrust-version.workspace = true"), None);
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(rust_version(&manifest).is_some_and(|version| version.starts_with("1.")));
    }
}
