//! Prints what the machine code of frazil's kernels is like, and what of it is against the gate.
//!
//! `--write` keeps it as the snapshot instead of comparing with the one there is.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use frazil_sass::allowance::allowances;
use frazil_sass::kernels::kernels;
use frazil_sass::nvdisasm::Nvdisasm;
use frazil_sass::{gate, table};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [snapshot] => run(Path::new(snapshot), false),
        [snapshot, "--write"] => run(Path::new(snapshot), true),
        _ => Err("SNAPSHOT [--write]".into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "sass: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well.
fn run(path: &Path, writes: bool) -> Result<bool, String> {
    let nvdisasm = Nvdisasm::find()?;
    let mut rows = Vec::new();
    for kernel in kernels()? {
        rows.extend(kernel.rows(&nvdisasm)?);
    }
    let fault = |error: io::Error| error.to_string();
    table::print(&rows, &mut io::stdout().lock()).map_err(fault)?;
    let snapshot = if writes { Vec::new() } else { table::read(path)? };
    let violations = gate::violations(&rows, &snapshot, &allowances()?);
    for violation in &violations {
        writeln!(io::stdout(), "{violation}").map_err(fault)?;
    }
    if writes {
        table::write(path, &rows)?;
    } else if !gate::is_compared(&rows, &snapshot) {
        let what = "loops were compared with nothing: the snapshot has no rows of this NVRTC";
        writeln!(io::stdout(), "{what}").map_err(fault)?;
    }
    Ok(violations.is_empty())
}
