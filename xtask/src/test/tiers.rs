//! Which tests make up which tier.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

/// A tier: arguments to `cargo test` that choose its tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) select: Vec<String>,
    /// Whether it has tests that only `--long` runs. In doc tests `ignore` means something else.
    pub(crate) has_long: bool,
}

/// Every tier that has a test, in order. All choose among the targets of the whole workspace, so
/// that features, and with them builds, are the same for all.
pub(crate) fn tiers(root: &Path) -> Vec<Tier> {
    let mut rest = vec!["--lib".to_owned(), "--bins".to_owned()];
    let mut named: Vec<(&str, Vec<String>)> =
        BY_NAME.iter().map(|&(name, _)| (name, Vec::new())).collect();
    for stem in test_targets(root) {
        let select = named_tier(&stem).map_or(&mut rest, |tier| &mut named[tier].1);
        select.extend(["--test".to_owned(), stem]);
    }
    let tier = |name, select, has_long| Tier { name, select, has_long };
    let mut tiers = vec![tier("unit", rest, true), tier("doc", vec!["--doc".to_owned()], false)];
    let named = named.into_iter().filter(|(_, select)| !select.is_empty());
    tiers.extend(named.map(|(name, select)| tier(name, select, true)));
    tiers
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
    use super::*;

    #[test]
    fn every_integration_test_is_in_a_tier() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let selected: Vec<String> = tiers(&root).into_iter().flat_map(|tier| tier.select).collect();
        let targets = test_targets(&root);
        assert!(targets.contains("contract_cpu") && targets.contains("sensitivity"));
        for stem in targets {
            assert!(selected.contains(&stem), "{stem}");
        }
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
