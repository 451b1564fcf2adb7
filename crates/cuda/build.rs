//! Puts the files of `kernels/` into the crate, with their hashes, and checks what they include.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use sha2::{Digest, Sha256};

#[path = "src/sources/closure.rs"]
#[expect(unreachable_pub, reason = "the library hands it on")]
mod closure;

fn main() -> ExitCode {
    match write_table() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn write_table() -> Result<(), String> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("no {name}"));
    let crate_folder = variable("CARGO_MANIFEST_DIR")?;
    // A link to the folder at the root of the repository; a folder in the package.
    let kernels = crate_folder.join("kernels");
    let mut files = BTreeMap::new();
    let in_kernels = |error: io::Error| format!("{}: {error}", kernels.display());
    read(&kernels, "", &mut files).map_err(in_kernels)?;
    let text_of = |path: &str| files.get_key_value(path).map(|(path, text)| (&**path, &**text));
    let mut table = String::from("static FILES: &[Embedded] = &[\n");
    for (path, text) in &files {
        closure::closure(path, text_of).map_err(|error| format!("kernels/{error}"))?;
        let sha256: [u8; 32] = Sha256::digest(text).into();
        let line =
            format!("    Embedded {{ path: {path:?}, text: {text:?}, sha256: {sha256:?} }},");
        writeln!(table, "{line}").map_err(|error| error.to_string())?;
    }
    table.push_str("];\n");
    let out = variable("OUT_DIR")?.join("kernels.rs");
    fs::write(&out, table).map_err(|error| format!("{}: {error}", out.display()))
}

/// Reads every source in a folder and the folders in it, by its path from the first.
fn read(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let inner = format!("{prefix}{name}");
        if path.is_dir() {
            read(&path, &format!("{inner}/"), files)?;
        } else if name.ends_with(".cu") || name.ends_with(".cuh") {
            println!("cargo::rerun-if-changed={}", path.display());
            files.insert(inner, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
