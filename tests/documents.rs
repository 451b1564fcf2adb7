//! What the documents say of the repository is so.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::path::PathBuf;

use frazil_conformance::cargo_path;

const DOCUMENTS: [&str; 7] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/BENCHMARKS.md",
    "docs/GLOSSARY.md",
    "docs/KERNELS.md",
    "docs/SUPPORT.md",
];

fn root() -> PathBuf {
    cargo_path!("CARGO_MANIFEST_DIR")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Rows of the table under a heading, as cells, without its head.
fn table<'a>(document: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What stands between backticks.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Why a place `file::test` is none: the file is missing, or the test.
fn missing(place: &str) -> Option<String> {
    let (file, test) = place.split_once("::")?;
    let Ok(text) = std::fs::read_to_string(root().join(file)) else {
        return Some(format!("{place}: no such file"));
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let named = format!("fn {test}(");
    let is_test = |attribute: &&&str| ["#[test]", "#[rstest::rstest]"].contains(*attribute);
    let found = lines.iter().enumerate().any(|(at, line)| {
        let before = lines[..at].iter().rev().take_while(|line| !line.is_empty());
        line.starts_with(&named) && before.filter(is_test).count() > 0
    });
    (!found).then(|| format!("{place}: no such test"))
}

/// Each invariant names at least one test, and each test that is named exists.
#[test]
fn every_invariant_names_the_tests_that_hold_it() {
    let document = read("docs/ARCHITECTURE.md");
    let [rules, invariants] =
        ["Rules of execute", "Invariants"].map(|heading| table(&document, heading));
    assert!(rules.len() >= 12 && invariants.len() >= 15, "{rules:?} {invariants:?}");
    let mut wrong = Vec::new();
    for row in rules.iter().chain(&invariants) {
        let ([invariant, held_by] | [invariant, _, held_by]) = row[..] else { panic!("{row:?}") };
        let places: Vec<&str> = code(held_by).filter(|place| place.contains("::")).collect();
        if places.is_empty() {
            wrong.push(format!("{invariant}: names no test"));
        }
        wrong.extend(places.into_iter().filter_map(missing));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The test above in red.
#[test]
fn a_test_that_is_not_there_is_noticed() {
    assert_eq!(missing("tests/documents.rs::a_test_that_is_not_there_is_noticed"), None);
    assert!(missing("tests/documents.rs::missing").is_some(), "a function, but no test");
    assert!(missing("tests/documents.rs::renamed").is_some());
    assert!(missing("tests/moved.rs::missing").is_some());
}

/// Lines of the shell blocks of a section.
fn commands<'a>(document: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).collect()
}

/// What a newcomer tries first is what a submission must pass, in the same order.
#[test]
fn the_first_commands_of_the_readme_are_run_in_ci() {
    let (readme, ci) = (read("README.md"), read(".ci/run"));
    let commands = commands(&readme, "Try it");
    let steps: Vec<&str> = ci.lines().filter_map(|line| line.strip_prefix("step ")).collect();
    assert!(commands.len() >= 2, "{commands:?}");
    let run: Vec<&str> = steps.into_iter().filter(|step| commands.contains(step)).collect();
    assert_eq!(run, commands);
}

/// Targets of Markdown links within the repository.
fn links(document: &str) -> impl Iterator<Item = &str> {
    let targets = document.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#'))
}

#[test]
fn every_link_leads_to_a_file() {
    let mut wrong = Vec::new();
    let mut followed = 0;
    for name in DOCUMENTS {
        let folder = root().join(name).parent().unwrap().to_owned();
        for target in links(&read(name)) {
            followed += 1;
            let path = target.split('#').next().unwrap();
            if !folder.join(path).exists() {
                wrong.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(followed > 10, "{followed}");
    assert_eq!(
        links("[a](b.md) [c](https://d) [e](#f) [g](h/i#j)").collect::<Vec<_>>(),
        ["b.md", "h/i#j"]
    );
}

/// The README and the facade's own page list every cargo feature of the facade.
#[test]
fn every_feature_of_the_facade_is_listed() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let features = manifest["features"].as_table().unwrap();
    // A feature that a default one needs is on as well.
    let needs = |feature: &str| features[feature].as_array().unwrap().iter();
    let direct = || needs("default").filter_map(toml::Value::as_str);
    let defaults: Vec<&str> =
        direct().chain(direct().flat_map(needs).filter_map(toml::Value::as_str)).collect();
    for feature in features.keys().filter(|feature| *feature != "default") {
        let is_default = defaults.contains(&feature.as_str());
        let row = format!("| `{feature}` | {} |", if is_default { "yes" } else { "no" });
        for page in ["README.md", "src/lib.rs"] {
            assert!(read(page).contains(&row), "{page}: {row}");
        }
    }
    let oldest = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(read("README.md").contains(&format!("Rust {oldest} or newer")), "{oldest}");
}

/// Files and folders that the map and the entry points name.
#[test]
fn every_path_of_the_architecture_is_there() {
    let document = read("docs/ARCHITECTURE.md");
    let is_path = |text: &&str| text.contains('/') && !text.contains([' ', '<', '*', ':', '(']);
    let paths: Vec<&str> = code(&document).filter(is_path).collect();
    assert!(paths.len() > 15, "{paths:?}");
    // Within the section of a crate, folders are named from its source.
    let sources = ["core", "router", "conformance", "cli", "ptx-sim"];
    let sources = sources.map(|name| format!("crates/{name}/src"));
    for path in paths {
        let places = [root()].into_iter().chain(sources.iter().map(|source| root().join(source)));
        let found = places.map(|place| place.join(path)).any(|place| place.exists());
        assert!(found, "{path}");
    }
}
