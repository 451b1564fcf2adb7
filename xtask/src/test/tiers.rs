//! Which tests make up which tier.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::prebuilt::{Kind, Prebuilt, Program};

/// Tiers made of the integration tests whose names begin so, of any package.
const BY_NAME: [(&str, &[&str]); 9] = [
    ("examples", &["examples"]),
    ("support", &["support"]),
    ("fuzz", &["fuzz"]),
    ("numerics-cpu", &["numerics_cpu", "generated"]),
    ("contract-cpu", &["contract_cpu", "no_allocation"]),
    // NVRTC and no GPU.
    ("compile", &["compile"]),
    ("simulate", &["simulate"]),
    // A GPU.
    ("numerics-gpu", &["numerics_gpu"]),
    ("contract-gpu", &["contract_gpu"]),
];

/// Names of all tiers, whether they have tests or not, in order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ["unit", "doc"].into_iter().chain(BY_NAME.map(|(name, _)| name))
}

/// A tier, and its tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tier<'a> {
    pub(crate) name: &'static str,
    pub(crate) tests: Tests<'a>,
    /// Whether it has tests that only `--long` runs. In doc tests `ignore` means something else.
    pub(crate) has_long: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tests<'a> {
    /// Arguments to `cargo test` that choose them.
    Chosen(Vec<String>),
    /// Programs that are built.
    Built(&'a Prebuilt, Vec<&'a Program>),
    /// None that could run here, and why.
    Absent(&'static str),
}

/// Every tier that has a test in the workspace, in order. All choose among the targets of the whole
/// workspace, so that features, and with them builds, are the same for all.
pub(crate) fn of_workspace(root: &Path) -> Vec<Tier<'static>> {
    let stems: Vec<String> = test_targets(root).into_iter().collect();
    let (unit, named) = sorted(stems, |stem| Some(stem.as_str()));
    let chosen = |stems: Vec<String>| {
        stems.into_iter().flat_map(|stem| ["--test".to_owned(), stem]).collect::<Vec<_>>()
    };
    let unit = ["--lib".to_owned(), "--bins".to_owned()].into_iter().chain(chosen(unit)).collect();
    tiers(
        Tests::Chosen(unit),
        Tests::Chosen(vec!["--doc".to_owned()]),
        named.into_iter().map(|(name, stems)| (name, Tests::Chosen(chosen(stems)))),
    )
}

/// Every tier that has a test among built programs, in the same order.
pub(crate) fn of_programs(prebuilt: &Prebuilt) -> Vec<Tier<'_>> {
    let is_test = |program: &&Program| matches!(program.kind, Kind::Unit | Kind::Integration);
    let tests: Vec<&Program> = prebuilt.programs.iter().filter(is_test).collect();
    let (unit, named) = sorted(tests, |program| {
        (program.kind == Kind::Integration).then_some(program.target.as_str())
    });
    tiers(
        Tests::Built(prebuilt, unit),
        Tests::Absent("tests in documentation are built as they run, and there is no cargo here"),
        named.into_iter().map(|(name, programs)| (name, Tests::Built(prebuilt, programs))),
    )
}

fn tiers<'a>(
    unit: Tests<'a>,
    doc: Tests<'a>,
    named: impl Iterator<Item = (&'static str, Tests<'a>)>,
) -> Vec<Tier<'a>> {
    let tier = |name, tests, has_long| Tier { name, tests, has_long };
    let mut tiers = vec![tier("unit", unit, true), tier("doc", doc, false)];
    tiers.extend(named.map(|(name, tests)| tier(name, tests, true)));
    tiers
}

/// Tests with the name of their tier.
type Named<T> = Vec<(&'static str, Vec<T>)>;

/// Unit tests, and the tiers of [`BY_NAME`] that have tests. `stem` is the name of an integration
/// test.
fn sorted<T>(tests: Vec<T>, stem: impl Fn(&T) -> Option<&str>) -> (Vec<T>, Named<T>) {
    let mut unit = Vec::new();
    let mut named: Named<T> = BY_NAME.iter().map(|&(name, _)| (name, Vec::new())).collect();
    for test in tests {
        let tier = stem(&test).and_then(named_tier);
        tier.map_or(&mut unit, |tier| &mut named[tier].1).push(test);
    }
    named.retain(|(_, tests)| !tests.is_empty());
    (unit, named)
}

/// Position in [`BY_NAME`] of the tier of an integration test; `None` where it is a unit test.
fn named_tier(stem: &str) -> Option<usize> {
    let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| stem.starts_with(prefix));
    BY_NAME.iter().position(|(_, prefixes)| is_of(prefixes))
}

/// Names of all integration tests.
fn test_targets(root: &Path) -> BTreeSet<String> {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let folders = crates.map(|entry| entry.path().join("tests"));
    let folders = folders
        .chain(["tests", "fuzz/targets/tests", "xtask/tests"].map(|folder| root.join(folder)));
    let mut targets = BTreeSet::new();
    for path in folders.flat_map(fs::read_dir).flatten().flatten().map(|entry| entry.path()) {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if is_rust || path.join("main.rs").is_file() {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            targets.extend(stem.map(str::to_owned));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use frazil_conformance::cargo_path;

    use super::*;

    /// Tier and integration test, of all.
    fn chosen(tiers: Vec<Tier<'_>>) -> BTreeSet<(String, &'static str)> {
        let chosen = tiers.into_iter().flat_map(|tier| {
            let tests = match tier.tests {
                Tests::Chosen(args) => args,
                Tests::Built(_, tests) => tests.iter().map(|test| test.target.clone()).collect(),
                Tests::Absent(_) => Vec::new(),
            };
            tests.into_iter().map(move |test| (test, tier.name))
        });
        chosen.filter(|(test, _)| !test.starts_with("--")).collect()
    }

    #[test]
    fn every_integration_test_is_in_one_tier_and_in_a_bundle_in_the_same() {
        let root = cargo_path!("CARGO_MANIFEST_DIR").join("..");
        let targets = test_targets(&root);
        assert!(targets.contains("contract_cpu") && targets.contains("sensitivity"));
        let here = chosen(of_workspace(&root));
        let stems: Vec<&String> = here.iter().map(|(stem, _)| stem).collect();
        assert_eq!(stems, Vec::from_iter(&targets));
        let program = |stem: &String| Program {
            kind: Kind::Integration,
            package: String::new(),
            target: stem.clone(),
            file: stem.clone(),
        };
        let prebuilt = Prebuilt::new("/b".into(), targets.iter().map(program).collect());
        assert_eq!(chosen(of_programs(&prebuilt)), here);
    }

    #[test]
    fn programs_that_are_no_tests_are_in_no_tier() {
        let program = |kind, target: &str| Program {
            kind,
            package: "crates/cli".into(),
            target: target.into(),
            file: target.into(),
        };
        // A library may have the name of a tier.
        let unit = program(Kind::Unit, "support");
        let programs = vec![
            unit.clone(),
            program(Kind::Binary, "frazil"),
            program(Kind::Bench, "generated"),
            program(Kind::Library, "compile"),
        ];
        let prebuilt = Prebuilt::new("/b".into(), programs);
        let tiers = of_programs(&prebuilt);
        assert_eq!(tiers.len(), 2, "unit and doc");
        assert_eq!(tiers[0].tests, Tests::Built(&prebuilt, vec![&unit]));
    }

    #[test]
    fn what_a_test_needs_chooses_its_tier() {
        let tier = |stem| named_tier(stem).map(|tier| BY_NAME[tier].0);
        for (stem, name) in [
            ("compile_targets", Some("compile")),
            ("simulate", Some("simulate")),
            ("contract_gpu_capture", Some("contract-gpu")),
            ("contract_cpu", Some("contract-cpu")),
            ("numerics_gpu", Some("numerics-gpu")),
            ("router", None),
        ] {
            assert_eq!(tier(stem), name, "{stem}");
        }
    }
}
