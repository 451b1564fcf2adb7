//! What times frazil in one process with other software: a library for Python, and the harness.

use std::fs;
use std::path::{Path, PathBuf};

use super::{MAX_GLIBC, build, fault, glibc, make_empty};
use crate::prebuilt::Kind;
use crate::{Failure, cargo, root, say, tracked};

/// Cells of the harness that are the command line's too.
const PRESETS: [&str; 2] = ["crates/cli/presets/h200.toml", "crates/cli/presets/lengths.toml"];

/// Builds the library and lays it out with the harness in an empty folder.
pub(crate) fn bench_so(out: &Path) -> Result<(), Failure> {
    make_empty(out)?;
    let mut command = cargo();
    command.args(["build", "--package", "frazil-bench-so", "--lib", "--profile", "bundle"]);
    let built = build::artifacts(command, &root())?;
    let library = built.iter().find(|artifact| {
        let program = &artifact.program;
        program.kind == Kind::Library && program.package == "crates/bench-so"
    });
    let library = library.ok_or("cargo built no library of crates/bench-so")?;
    let bytes = fs::read(&library.built).map_err(|error| fault(&library.built, error))?;
    if let Some(newest) = glibc::newest(&bytes).filter(|newest| *newest > MAX_GLIBC) {
        return Err(format!("the library needs glibc {newest}; it is to run with {MAX_GLIBC}"));
    }
    let to = out.join(&library.program.file);
    fs::write(&to, bytes).map_err(|error| fault(&to, error))?;
    let harness = tracked(&["benches/ab"])?;
    for name in harness.iter().map(String::as_str).chain(PRESETS) {
        let from = root().join(name);
        let Some(file) = from.file_name() else { continue };
        fs::copy(&from, out.join(file)).map_err(|error| fault(&from, error))?;
    }
    say(&format!(
        "{}: {}, and the harness; `python3 ab.py --dry` there",
        out.display(),
        library.program.file
    ))
}

/// The folder of `--out FOLDER`, or the one in the target folder.
pub(crate) fn parse(args: &[&str]) -> Result<PathBuf, Failure> {
    match args {
        [] => Ok(root().join("target/bench-so")),
        ["--out", folder] if !folder.is_empty() => Ok(folder.into()),
        _ => Err(format!("bench-so takes --out FOLDER and nothing else, not `{}`", args.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read() {
        assert_eq!(parse(&[]), Ok(root().join("target/bench-so")));
        assert_eq!(parse(&["--out", "some/folder"]), Ok("some/folder".into()));
        for args in [&["--out"][..], &["folder"], &["--out", ""], &["--out", "a", "b"]] {
            assert!(parse(args).unwrap_err().contains("--out"), "{args:?}");
        }
    }

    /// Python looks for cells beside itself.
    #[test]
    fn the_presets_are_there() {
        for preset in PRESETS {
            assert!(
                frazil_conformance::cargo_path!("CARGO_MANIFEST_DIR")
                    .join("..")
                    .join(preset)
                    .is_file()
            );
        }
    }
}
