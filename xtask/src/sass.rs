//! The machine code of kernels: `crates/sass`.

use crate::{Failure, cargo, root};

/// Prints it and compares loops with the snapshot; with `writes` makes the snapshot instead.
pub(crate) fn sass(writes: bool) -> Result<(), Failure> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "frazil-sass", "--"]);
    command.arg(root().join("crates/sass/snapshot.csv"));
    if writes {
        command.arg("--write");
    }
    let status = command.status().map_err(|error| format!("frazil-sass: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("frazil-sass: {status}")) }
}
