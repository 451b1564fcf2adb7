//! What the manifests must say.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::path::{Path, PathBuf};

use frazil_conformance::cargo_path;

fn read_toml(path: &Path) -> toml::Table {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

fn manifests() -> Vec<(String, toml::Table)> {
    let crates = cargo_path!("CARGO_MANIFEST_DIR").join("crates");
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

/// Paths and contents of the Rust files under these folders of the repository.
fn rust_files(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let root = cargo_path!("CARGO_MANIFEST_DIR");
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            // What a link leads to is there under its own name.
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
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

/// What times engines and what looks at their machine code know every one of them: an engine that is
/// not linked is not missed.
#[test]
fn every_engine_is_timed_and_its_machine_code_looked_at() {
    let manifests = manifests();
    let engines: Vec<&str> =
        manifests.iter().filter_map(|(folder, _)| folder.strip_prefix("engine-")).collect();
    assert!(engines.contains(&"cpu"), "{engines:?}");
    for package in ["bench-so", "sass"] {
        let (_, manifest) = manifests.iter().find(|(folder, _)| folder == package).unwrap();
        let features = manifest["dependencies"]["frazil"]["features"].as_array().unwrap();
        for engine in &engines {
            let by_feature = features.iter().any(|feature| feature.as_str() == Some(engine));
            let crate_name = format!("frazil-engine-{engine}");
            let by_name = dependencies(manifest).contains(&crate_name.as_str());
            assert!(by_feature || by_name, "crates/{package} does not link {engine}");
        }
    }
}

/// Core knows nobody.
#[test]
fn core_depends_on_no_crate_of_ours() {
    let (_, core) = manifests().into_iter().find(|(folder, _)| folder == "core").unwrap();
    assert!(dependencies(&core).iter().all(|name| !name.starts_with("frazil")));
}

/// A bundle's tests run where nothing lies at the paths of the machine that built them; see
/// `frazil_conformance::cargo_path!`.
#[test]
fn no_test_looks_where_it_was_built() {
    let is_built_in = |text: &str| {
        ["MANIFEST_DIR", "BIN_EXE_", "TARGET_TMPDIR"]
            .iter()
            .any(|path| text.contains(&format!("env!(\"CARGO_{path}")))
    };
    assert!(is_built_in("let data = Path::new(env!(\"CARGO_MANIFEST_DIR\")).join(\"data\");"));
    let files = rust_files(&["tests", "crates", "fuzz/targets", "xtask", "benches", "examples"]);
    assert!(files.len() > 200, "{}", files.len());
    for (path, text) in files {
        assert!(!is_built_in(&text), "{}", path.display());
    }
}

/// What runs PTX is of use to others, and safe whatever the text.
#[test]
fn the_simulator_depends_on_no_crate_of_ours() {
    let (_, simulator) = manifests().into_iter().find(|(folder, _)| folder == "ptx-sim").unwrap();
    assert!(dependencies(&simulator).iter().all(|name| !name.starts_with("frazil")));
    assert!(include_str!("../crates/ptx-sim/src/lib.rs").contains("#![forbid(unsafe_code)]"));
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for (folder, manifest) in manifests() {
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(lints.and_then(toml::Value::as_bool), Some(true), "{folder}");
    }
}

/// What crates.io shows and docs.rs builds: all features, since none needs CUDA to be documented.
#[test]
fn published_crates_can_be_found_read_and_documented() {
    let root = cargo_path!("CARGO_MANIFEST_DIR");
    let facade = ("..".to_owned(), read_toml(&root.join("Cargo.toml")));
    let mut published = 0;
    for (folder, manifest) in manifests().into_iter().chain([facade]) {
        let package = &manifest["package"];
        if package.get("publish").is_some() {
            continue;
        }
        published += 1;
        let fields = ["description", "license", "repository", "keywords", "categories", "readme"];
        for field in fields.into_iter().chain(["rust-version"]) {
            assert!(package.get(field).is_some(), "{folder}: {field}");
        }
        let keys = ["metadata", "docs", "rs", "all-features"];
        let all = keys.into_iter().try_fold(package, |table, key| table.get(key));
        assert_eq!(all.and_then(toml::Value::as_bool), Some(true), "{folder}");
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(root.join("crates").join(&folder).join(file).is_file(), "{folder}: {file}");
        }
    }
    assert!(published >= 6, "{published}");
}

/// `cargo xtask features` builds the benches with all features of the facade: candle, without CUDA,
/// and every engine then share one build and its versions of what both need.
#[test]
fn the_benches_stand_beside_candle_without_cuda() {
    let root = cargo_path!("CARGO_MANIFEST_DIR");
    let benches = read_toml(&root.join("benches/Cargo.toml"));
    let dependencies = &benches["dev-dependencies"];
    assert!(dependencies.get("frazil").is_some());
    for name in ["candle-core", "candle-nn"] {
        let defaults = dependencies[name].get("default-features");
        assert_eq!(defaults.and_then(toml::Value::as_bool), Some(false), "{name}");
        let features = dependencies[name].get("features").and_then(toml::Value::as_array);
        let cuda = |feature: &toml::Value| {
            feature.as_str().is_some_and(|name| name.contains("cuda") || name.contains("cudnn"))
        };
        assert!(!features.into_iter().flatten().any(cuda), "{name}");
    }
    let steps = include_str!("../xtask/src/features.rs");
    assert!(steps.contains("\"frazil-benches\"") && steps.contains("\"--all-features\""));
    assert!(include_str!("../.ci/run").contains("cargo xtask features"));
}

/// Core is unsafe where a caller promises something about a raw value, and where a checked call is
/// launched: each of these places is excused by name, and there are no others.
#[test]
fn core_is_unsafe_in_the_known_places_alone() {
    let mut excused = Vec::new();
    for (path, text) in rust_files(&["crates/core/src"]) {
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let count = text.matches("expect(unsafe_code").count();
        excused.extend(std::iter::repeat_n(file, count));
    }
    excused.sort();
    // `Buffer::from_raw`, `Stream::from_raw`, `Launch::launch`, and its one call.
    assert_eq!(excused, ["buffer", "device", "mod", "mod"]);
    let lib = include_str!("../crates/core/src/lib.rs");
    assert!(lib.contains("#![deny(unsafe_code)]"));
}
