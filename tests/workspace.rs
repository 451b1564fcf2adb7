//! What the manifests must say.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::path::{Path, PathBuf};

fn manifests() -> Vec<(String, toml::Table)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let folders = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path());
    let read = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
        let name = folder.file_name()?.to_str()?.to_owned();
        Some((name, text.parse().unwrap()))
    };
    folders.filter_map(read).collect()
}

fn dependencies(manifest: &toml::Table) -> Vec<&str> {
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    table.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// An engine stands on core (and the door to the driver), never on another engine or the router.
#[test]
fn engines_do_not_depend_on_one_another() {
    let mut engines = 0;
    for (folder, manifest) in manifests() {
        if !folder.starts_with("engine-") {
            continue;
        }
        engines += 1;
        for dependency in dependencies(&manifest) {
            let allowed = ["frazil-core", "frazil-cuda"].contains(&dependency);
            assert!(allowed || !dependency.starts_with("frazil"), "{folder} on {dependency}");
        }
    }
    assert!(engines > 0);
}

/// Core knows nobody, and only core's constructors of raw values and the engines are unsafe.
#[test]
fn core_depends_on_no_crate_of_ours() {
    let (_, core) = manifests().into_iter().find(|(folder, _)| folder == "core").unwrap();
    assert!(dependencies(&core).iter().all(|name| !name.starts_with("frazil")));
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for (folder, manifest) in manifests() {
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(lints.and_then(toml::Value::as_bool), Some(true), "{folder}");
    }
}
