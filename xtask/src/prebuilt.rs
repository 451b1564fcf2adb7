//! Programs that were built elsewhere: what a bundle holds, and how each is run without cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Failure;

/// Name of the list of programs, at the root of a bundle.
pub(crate) const LIST: &str = "prebuilt.json";
/// Folder of the files of the repository in a bundle, which tests read.
pub(crate) const CHECKOUT: &str = "checkout";
/// Folder of the programs, and of the libraries that they look for beside themselves.
pub(crate) const PROGRAMS: &str = "bin";

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Tests within a library or a program.
    Unit,
    /// Tests of the folder `tests` of a package.
    Integration,
    /// A program that is no test.
    Binary,
    Bench,
    /// A library that is opened at run time.
    Library,
}

impl Kind {
    const NAMES: [(Self, &str); 5] = [
        (Self::Unit, "unit"),
        (Self::Integration, "integration"),
        (Self::Binary, "binary"),
        (Self::Bench, "bench"),
        (Self::Library, "library"),
    ];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn of(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// One built program or library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    /// Folder of its package within the repository.
    pub(crate) package: String,
    /// Cargo's name of the target.
    pub(crate) target: String,
    /// Its file in the folder of the programs.
    pub(crate) file: String,
}

/// A folder with a list of programs, and the programs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prebuilt {
    folder: PathBuf,
    pub(crate) programs: Vec<Program>,
}

impl Prebuilt {
    pub(crate) fn new(folder: PathBuf, programs: Vec<Program>) -> Self {
        Self { folder, programs }
    }

    /// Reads the list that [`Prebuilt::write`] wrote into this folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        // Programs are started in other folders than this one.
        let folder = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
        let path = folder.join(LIST);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let list: Value =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let programs = list["programs"].as_array().into_iter().flatten();
        let programs: Option<Vec<Program>> = programs.map(program_of).collect();
        let programs = programs.filter(|programs| !programs.is_empty());
        let programs = programs.ok_or_else(|| format!("{} lists no programs", path.display()))?;
        Ok(Self { folder, programs })
    }

    pub(crate) fn write(&self) -> Result<(), Failure> {
        let programs = self.programs.iter().map(|program| {
            let Program { kind, package, target, file } = program;
            json!({"kind": kind.name(), "package": package, "target": target, "file": file})
        });
        let path = self.folder.join(LIST);
        let text = format!("{:#}\n", json!({"programs": programs.collect::<Vec<_>>()}));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Starts a program as cargo would: in the folder of its package, told where that folder, the
    /// programs of the package and a folder for its files are.
    pub(crate) fn command(&self, program: &Program) -> Command {
        let path = |file: &str| self.folder.join(PROGRAMS).join(file);
        let package = self.folder.join(CHECKOUT).join(&program.package);
        let mut command = Command::new(path(&program.file));
        command.current_dir(&package).env_remove("CARGO").env("CARGO_MANIFEST_DIR", &package);
        command.env("CARGO_TARGET_TMPDIR", self.folder.join("tmp"));
        let of_package = self.programs.iter().filter(|other| other.package == program.package);
        for binary in of_package.filter(|other| other.kind == Kind::Binary) {
            command.env(format!("CARGO_BIN_EXE_{}", binary.target), path(&binary.file));
        }
        command
    }
}

fn program_of(value: &Value) -> Option<Program> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let kind = Kind::of(value["kind"].as_str()?)?;
    Some(Program { kind, package: text("package")?, target: text("target")?, file: text("file")? })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn program(kind: Kind, package: &str, target: &str) -> Program {
        let file = format!("{target}.{}", kind.name());
        Program { kind, package: package.into(), target: target.into(), file }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let programs = Kind::NAMES.map(|(kind, _)| program(kind, "crates/cli", "frazil")).to_vec();
        let written = Prebuilt::new(folder.path().canonicalize().unwrap(), programs);
        written.write().unwrap();
        assert_eq!(Prebuilt::read(folder.path()), Ok(written));
    }

    #[test]
    fn a_list_of_nothing_or_of_anything_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Prebuilt::read(folder.path()).is_err());
        for text in ["", "{}", r#"{"programs": []}"#, r#"{"programs": [{"kind": "unit"}]}"#] {
            fs::write(folder.path().join(LIST), text).unwrap();
            assert!(Prebuilt::read(folder.path()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_is_told_where_it_is() {
        let manners = program(Kind::Integration, "crates/cli", "manners");
        let programs = vec![
            manners.clone(),
            program(Kind::Binary, "crates/cli", "frazil"),
            program(Kind::Binary, "xtask", "xtask"),
        ];
        let command = Prebuilt::new("/b".into(), programs).command(&manners);
        assert_eq!(command.get_current_dir(), Some(Path::new("/b/checkout/crates/cli")));
        let told: Vec<_> = command.get_envs().filter_map(|(k, v)| Some((k, v?))).collect();
        let expected = [
            ("CARGO_BIN_EXE_frazil", "/b/bin/frazil.binary"),
            ("CARGO_MANIFEST_DIR", "/b/checkout/crates/cli"),
            ("CARGO_TARGET_TMPDIR", "/b/tmp"),
        ];
        assert_eq!(told, expected.map(|(k, v)| (OsStr::new(k), OsStr::new(v))));
    }
}
