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

/// Names of all that a crate is built with, for any platform; not what its tests use.
fn dependencies(manifest: &toml::Table) -> Vec<&str> {
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, target)| target.as_table()).chain([manifest]);
    let kinds =
        tables.flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)));
    let entries = kinds.flatten().filter_map(toml::Value::as_table).flatten();
    entries.map(|(name, _)| name.as_str()).collect()
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

/// Core knows nobody.
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

/// Core is unsafe where a caller promises something about a raw value, and where a checked call is
/// launched: each of these places is excused by name, and there are no others.
#[test]
fn core_is_unsafe_in_the_known_places_alone() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/core/src");
    let mut excused = Vec::new();
    let mut folders = vec![core];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let file = path.file_stem().unwrap().to_string_lossy().into_owned();
            let count = text.matches("expect(unsafe_code").count();
            excused.extend(std::iter::repeat_n(file, count));
        }
    }
    excused.sort();
    // `Buffer::from_raw`, `Stream::from_raw`, `Launch::launch`, and its one call.
    assert_eq!(excused, ["buffer", "device", "mod", "mod"]);
    let lib = include_str!("../crates/core/src/lib.rs");
    assert!(lib.contains("#![deny(unsafe_code)]"));
}
