//! The programs of a bundle, as cargo builds and names them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::prebuilt::{Kind, Program};
use crate::{Failure, cargo};

/// A program, and where cargo put it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Artifact {
    pub(super) program: Program,
    pub(super) built: PathBuf,
}

/// Builds every program of the workspace in one go, so that features, and with them what is built,
/// are the same for all.
pub(super) fn build(root: &Path) -> Result<Vec<Artifact>, Failure> {
    let mut command = cargo();
    command.args(["build", "--workspace", "--profile", "bundle"]);
    command.args(["--lib", "--bins", "--tests", "--bench", "*"]);
    let mut artifacts = artifacts(command, root)?;
    artifacts.sort_by(|a, b| a.program.cmp(&b.program));
    match of_one_name(&artifacts) {
        Some(file) => Err(format!("two programs of a bundle would be called `{file}`")),
        None => Ok(artifacts),
    }
}

/// What a build of cargo made, of the packages under `root`.
pub(super) fn artifacts(mut command: Command, root: &Path) -> Result<Vec<Artifact>, Failure> {
    command.arg("--message-format=json-render-diagnostics");
    let fault = |error: std::io::Error| format!("cargo build: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(fault)?;
    let mut artifacts = Vec::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(fault)?;
        artifacts.extend(serde_json::from_str(&line).ok().and_then(|m| artifact(root, &m)));
    }
    let status = child.wait().map_err(fault)?;
    if !status.success() {
        return Err(format!("cargo build: {status}"));
    }
    Ok(artifacts)
}

/// A name that two programs would have, of which one would be lost.
fn of_one_name(artifacts: &[Artifact]) -> Option<&str> {
    let mut names = BTreeSet::new();
    artifacts
        .iter()
        .map(|artifact| artifact.program.file.as_str())
        .find(|name| !names.insert(*name))
}

/// What a message of cargo says was built, where it belongs into a bundle.
fn artifact(root: &Path, message: &Value) -> Option<Artifact> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let package = manifest.parent()?.strip_prefix(root).ok()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    let is_of = |kind: &str| {
        let kinds = message["target"]["kind"].as_array();
        kinds.into_iter().flatten().any(|known| known == kind)
    };
    let is_test = message["profile"]["test"] == true;
    let kind = match () {
        () if is_of("bench") => Kind::Bench,
        () if is_of("test") => Kind::Integration,
        () if is_test => Kind::Unit,
        () if is_of("bin") => Kind::Binary,
        () if is_of("cdylib") => Kind::Library,
        () => return None,
    };
    let built: PathBuf = match kind {
        Kind::Library => {
            let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
            files.map(Path::new).find(|file| file.extension().is_some_and(|e| e == "so"))?.into()
        }
        _ => message["executable"].as_str()?.into(),
    };
    // Programs look for libraries beside themselves, by the names that cargo gave them. Others are
    // found by their package, since several packages have targets of one name.
    let of_package = if package.is_empty() { "frazil" } else { &package.replace('/', "-") };
    let file = match kind {
        Kind::Library => built.file_name()?.to_str()?.to_owned(),
        Kind::Binary => target.to_owned(),
        Kind::Unit => format!("{of_package}.{target}.unit"),
        Kind::Integration => format!("{of_package}.{target}"),
        Kind::Bench => format!("{of_package}.{target}.bench"),
    };
    let (package, target) = (package.to_owned(), target.to_owned());
    Some(Artifact { program: Program { kind, package, target, file }, built })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(kind: &str, name: &str, is_test: bool) -> Value {
        let built = format!("/target/bundle/deps/{name}-0123");
        json!({
            "reason": "compiler-artifact",
            "manifest_path": "/root/crates/cli/Cargo.toml",
            "target": {"kind": [kind], "name": name},
            "profile": {"test": is_test},
            "filenames": [format!("/target/bundle/lib{name}.rlib"), format!("/target/bundle/lib{name}.so")],
            "executable": if is_test || kind == "bin" { json!(built) } else { Value::Null },
        })
    }

    #[test]
    fn what_cargo_built_has_a_name_of_its_own() {
        for (kind, is_test, expected) in [
            ("lib", true, Some((Kind::Unit, "crates-cli.demo.unit"))),
            ("bin", true, Some((Kind::Unit, "crates-cli.demo.unit"))),
            ("test", true, Some((Kind::Integration, "crates-cli.demo"))),
            ("bench", true, Some((Kind::Bench, "crates-cli.demo.bench"))),
            ("bin", false, Some((Kind::Binary, "demo"))),
            ("cdylib", false, Some((Kind::Library, "libdemo.so"))),
            ("lib", false, None),
            ("proc-macro", false, None),
            ("custom-build", false, None),
        ] {
            let found = artifact(Path::new("/root"), &message(kind, "demo", is_test));
            let found = found.map(|Artifact { program, .. }| (program.kind, program.file));
            let expected = expected.map(|(kind, file)| (kind, file.to_owned()));
            assert_eq!(found, expected, "{kind} {is_test}");
        }
    }

    #[test]
    fn no_program_is_lost_to_another_of_its_name() {
        let built = |kind, target| artifact(Path::new("/root"), &message(kind, target, true));
        let one = [built("lib", "demo"), built("test", "demo"), built("bin", "other")];
        assert_eq!(of_one_name(&one.map(Option::unwrap)), None);
        let two = [built("lib", "demo"), built("bin", "demo")];
        assert_eq!(of_one_name(&two.map(Option::unwrap)), Some("crates-cli.demo.unit"));
    }

    #[test]
    fn other_packages_and_other_messages_are_passed_over() {
        let root = Path::new("/elsewhere");
        assert_eq!(artifact(root, &message("bin", "demo", false)), None);
        assert_eq!(artifact(root, &json!({"reason": "build-finished", "success": true})), None);
    }
}
