//! What must be clean, whatever the tests say.

use crate::{Failure, cargo, say, sizes};

/// Name, arguments to cargo, and an environment variable.
type Step = (&'static str, &'static [&'static str], Option<(&'static str, &'static str)>);

const STEPS: [Step; 3] = [
    ("rustfmt", &["fmt", "--all", "--check"], None),
    (
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--keep-going",
            "--",
            "-D",
            "warnings",
        ],
        None,
    ),
    // As docs.rs does: all features, no network, and nothing of CUDA but what is on this machine.
    (
        "rustdoc",
        &["doc", "--workspace", "--all-features", "--no-deps", "--offline", "--keep-going"],
        Some(("RUSTDOCFLAGS", "-D warnings")),
    ),
];

/// Runs every step, whatever fails on the way.
pub(crate) fn lint() -> Result<(), Failure> {
    let mut failed = Vec::new();
    for (name, args, variable) in STEPS {
        let mut command = cargo();
        command.args(args).envs(variable);
        let status = command.status().map_err(|error| format!("{name}: {error}"))?;
        if !status.success() {
            failed.push(name);
        }
    }
    if let Err(what) = sizes::sizes() {
        say(&format!("sizes: {what}"))?;
        failed.push("sizes");
    }
    if failed.is_empty() {
        return say("lint: rustfmt, clippy, rustdoc and sizes are clean");
    }
    Err(format!("lint failed: {}", failed.join(", ")))
}
