//! One archive of test programs, benches, the command line and what they read, which runs on a
//! host without Rust.

pub(crate) mod bench_so;
mod build;
mod glibc;
mod pack;

use std::fs;
use std::path::{Path, PathBuf};

use crate::prebuilt::{CHECKOUT, Kind, PROGRAMS, Prebuilt};
use crate::{Failure, root, say, tracked};

/// Most bytes of the archive.
const MAX_BYTES: u64 = 18_000_000;
/// Newest version of glibc that a program may need: that of Ubuntu 22.04.
const MAX_GLIBC: glibc::Version = glibc::Version(2, 35);

const RUN_TESTS: &str = r#"#!/bin/sh
# Runs the test tiers of this bundle, with the options of `cargo xtask test`: --tier, --require, --long.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit 1
exec "$here/bin/xtask" test --prebuilt "$here" "$@"
"#;

/// Where the archive goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    out: PathBuf,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self, Failure> {
        match args {
            [] => Ok(Self { out: root().join("bundle") }),
            ["--out", folder] => Self::into_folder(folder),
            [arg] if arg.starts_with("--out=") => Self::into_folder(&arg["--out=".len()..]),
            _ => {
                Err(format!("bundle takes --out FOLDER and nothing else, not `{}`", args.join(" ")))
            }
        }
    }

    fn into_folder(folder: &str) -> Result<Self, Failure> {
        match folder {
            "" => Err("--out names no folder".into()),
            folder => Ok(Self { out: folder.into() }),
        }
    }
}

/// Builds the programs, lays them out with the files of the repository, and packs them.
pub(crate) fn bundle(options: &Options) -> Result<(), Failure> {
    let name = format!("frazil-bundle-{}", std::env::consts::ARCH);
    let folder = options.out.join(&name);
    // Before minutes of building: where it cannot be made, nothing can be put into it.
    make_empty(&folder)?;
    let built = build::build(&root())?;
    lay_out(&folder, &built)?;
    let (newest, whose) = newest_glibc(&folder)?;
    if newest > MAX_GLIBC {
        return Err(format!("{whose} needs glibc {newest}; a bundle runs with {MAX_GLIBC}"));
    }
    let archive = options.out.join(format!("{name}.tar.xz"));
    let bytes = pack::pack(&folder, &archive)?;
    // What is left is the archive alone: it is what travels.
    fs::remove_dir_all(&folder).map_err(|error| fault(&folder, error))?;
    let num = |kind| built.iter().filter(|artifact| artifact.program.kind == kind).count();
    let tests = num(Kind::Unit) + num(Kind::Integration);
    say(&format!(
        "{}: {bytes} bytes, {tests} test programs, needs glibc {newest}",
        archive.display()
    ))?;
    if bytes > MAX_BYTES {
        return Err(format!("{bytes} bytes are more than the {MAX_BYTES} of a bundle"));
    }
    Ok(())
}

fn fault(path: &Path, error: std::io::Error) -> Failure {
    format!("{}: {error}", path.display())
}

/// Makes a folder with nothing in it.
fn make_empty(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fault(folder, error)),
        _ => fs::create_dir_all(folder).map_err(|error| fault(folder, error)),
    }
}

/// Fills an empty folder with what the archive is to hold.
fn lay_out(folder: &Path, built: &[build::Artifact]) -> Result<(), Failure> {
    let programs = folder.join(PROGRAMS);
    for new in [&programs, &folder.join("tmp")] {
        fs::create_dir(new).map_err(|error| fault(new, error))?;
    }
    for artifact in built {
        let to = programs.join(&artifact.program.file);
        fs::copy(&artifact.built, &to).map_err(|error| fault(&artifact.built, error))?;
    }
    copy_checkout(&folder.join(CHECKOUT))?;
    let script = folder.join("run-tests");
    fs::write(&script, RUN_TESTS).map_err(|error| fault(&script, error))?;
    make_executable(&script).map_err(|error| fault(&script, error))?;
    let programs = built.iter().map(|artifact| artifact.program.clone()).collect();
    Prebuilt::new(folder.to_owned(), programs).write()
}

/// Copies every file of the repository: tests read cases, documents, manifests and sources, and no
/// list of which has to be kept.
fn copy_checkout(to: &Path) -> Result<(), Failure> {
    let root = root();
    for name in tracked(&[])? {
        let (from, to) = (root.join(&name), to.join(&name));
        let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            match fs::read_link(&from) {
                Ok(target) => link(&target, &to),
                Err(_) => fs::copy(&from, &to).map(drop),
            }
        });
        match copied {
            // Deleted and still tracked.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => copied.map_err(|error| format!("{name}: {error}"))?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// The newest version of glibc that a program of the bundle needs, and whose it is.
fn newest_glibc(folder: &Path) -> Result<(glibc::Version, String), Failure> {
    let folder = folder.join(PROGRAMS);
    let mut newest = (glibc::Version(2, 0), String::new());
    for entry in fs::read_dir(&folder).map_err(|error| fault(&folder, error))? {
        let path = entry.map_err(|error| fault(&folder, error))?.path();
        let program = fs::read(&path).map_err(|error| fault(&path, error))?;
        if let Some(version) = glibc::newest(&program).filter(|version| *version > newest.0) {
            newest = (version, path.display().to_string());
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        assert_eq!(Options::parse(&[]), Ok(Options { out: root().join("bundle") }));
        for args in [&["--out", "some/folder"][..], &["--out=some/folder"]] {
            assert_eq!(Options::parse(args), Ok(Options { out: "some/folder".into() }), "{args:?}");
        }
        for args in [&["--out"][..], &["folder"], &["--out", ""], &["--out="], &["--out", "a", "b"]]
        {
            let told = Options::parse(args).unwrap_err();
            assert!(told.contains("--out"), "{args:?}: {told}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let told = bundle(&Options { out: file.clone() }).unwrap_err();
        assert!(told.starts_with(file.to_str().unwrap()), "{told}");
        // What an earlier bundle left is gone, and no more than that.
        let (old, beside) = (folder.path().join("old"), folder.path().join("beside"));
        [&old, &beside].into_iter().for_each(|made| fs::create_dir(made).unwrap());
        fs::write(old.join("left"), "").unwrap();
        make_empty(&old).unwrap();
        assert_eq!(fs::read_dir(&old).unwrap().count(), 0);
        assert!(beside.is_dir() && file.is_file());
    }

    /// A checkout with a link, as crates have to what lies outside them, is copied as it is.
    #[cfg(unix)]
    #[test]
    fn the_checkout_is_whole_in_a_bundle() {
        if let Err(fault) = tracked(&[]) {
            return frazil_conformance::skip::because(format_args!("no checkout of git: {fault}"));
        }
        let folder = tempfile::tempdir().unwrap();
        copy_checkout(folder.path()).unwrap();
        assert!(folder.path().join("data/minilm/layer0.safetensors").is_file());
        let license = folder.path().join("crates/core/LICENSE-MIT");
        assert!(license.is_symlink() && license.is_file());
    }
}
