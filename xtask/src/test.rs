//! Test tiers: each runs, or says why not.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use crate::{Failure, cargo, root, say};

/// Tiers made of the files of `tests/` and `fuzz/targets/tests/` whose names begin so.
const BY_NAME: [(&str, &[&str]); 5] = [
    ("examples", &["examples"]),
    ("support", &["support"]),
    ("fuzz", &["fuzz"]),
    ("numerics-cpu", &["numerics_cpu", "generated"]),
    ("contract-cpu", &["contract_cpu", "no_allocation"]),
];

/// What to run, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    long: bool,
    require: Vec<String>,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let tiers = match arg {
                "--long" => {
                    options.long = true;
                    continue;
                }
                "--require" => args.next().copied(),
                _ => arg.strip_prefix("--require="),
            };
            let tiers =
                tiers.ok_or_else(|| format!("`{arg}` is no option of test, or lacks a value"))?;
            options.require.extend(tiers.split(',').map(|tier| tier.trim().to_owned()));
        }
        Ok(options)
    }
}

/// A tier: arguments to `cargo test` that choose its tests.
#[derive(Debug, PartialEq, Eq)]
struct Tier {
    name: &'static str,
    select: Vec<String>,
    /// Whether it has tests that only `--long` runs. In doc tests `ignore` means something else.
    has_long: bool,
}

/// What came of a tier.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Whether cargo ended well.
    success: bool,
}

/// Every tier in order. All choose among the targets of the whole workspace, so that features, and
/// with them builds, are the same for all.
fn tiers(root: &Path) -> Vec<Tier> {
    let mut rest = vec!["--lib".to_owned(), "--bins".to_owned()];
    let mut named: Vec<(&str, Vec<String>)> =
        BY_NAME.iter().map(|&(name, _)| (name, Vec::new())).collect();
    for (stem, at_root) in test_targets(root) {
        let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| stem.starts_with(prefix));
        let tier = BY_NAME.iter().position(|(_, prefixes)| at_root && is_of(prefixes));
        let select = tier.map_or(&mut rest, |tier| &mut named[tier].1);
        select.extend(["--test".to_owned(), stem]);
    }
    let tier = |name, select, has_long| Tier { name, select, has_long };
    let mut tiers = vec![tier("unit", rest, true), tier("doc", vec!["--doc".to_owned()], false)];
    let named = named.into_iter().filter(|(_, select)| !select.is_empty());
    tiers.extend(named.map(|(name, select)| tier(name, select, true)));
    tiers
}

/// Names of integration tests, and whether they may have a tier of their own.
fn test_targets(root: &Path) -> BTreeSet<(String, bool)> {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let folders = crates.map(|entry| (entry.path().join("tests"), false));
    let folders = folders.chain([
        (root.join("tests"), true),
        (root.join("fuzz/targets/tests"), true),
        (root.join("xtask/tests"), false),
    ]);
    let mut targets = BTreeSet::new();
    for (folder, at_root) in folders {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if let Some(stem) = stem.filter(|_| is_rust) {
                targets.insert((stem.to_owned(), at_root));
            } else if path.join("main.rs").is_file() {
                targets.extend(stem.map(|stem| (stem.to_owned(), at_root)));
            }
        }
    }
    targets
}

pub(crate) fn test(options: &Options) -> Result<(), Failure> {
    let tiers = tiers(&root());
    let names: Vec<&str> = tiers.iter().map(|tier| tier.name).collect();
    for required in &options.require {
        if !names.contains(&required.as_str()) {
            let names = names.join(", ");
            return Err(format!(
                "tier `{required}` is required, and there is none; tiers: {names}"
            ));
        }
    }
    let mut results = Vec::new();
    for tier in &tiers {
        say(&format!("\n== tier {}", tier.name))?;
        results.push((tier, run(tier, options.long)?));
    }
    say(&format!("\n{:<14}{:>8}{:>8}{:>9}", "tier", "passed", "failed", "ignored"))?;
    let mut faults = Vec::new();
    for (tier, counts) in results {
        let verdict = counts.verdict(options.long);
        let (name, Counts { passed, failed, ignored, .. }) = (tier.name, &counts);
        say(&format!("{name:<14}{passed:>8}{failed:>8}{ignored:>9}  {verdict}"))?;
        if !counts.success {
            faults.push(format!("tier {name} failed"));
        } else if counts.is_skipped() && options.require.iter().any(|required| required == name) {
            faults.push(format!("tier {name} is required and was skipped"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Runs a tier, passing on what it prints, closing lines included.
fn run(tier: &Tier, long: bool) -> Result<Counts, Failure> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&tier.select);
    if long && tier.has_long {
        command.args(["--", "--include-ignored"]);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("tier {}: cargo test: {error}", tier.name))?;
    let mut counts = Counts::default();
    let mut out = std::io::stdout().lock();
    // Bytes, since a test may print what is no UTF-8.
    for line in child.stdout.take().into_iter().flat_map(|lines| BufReader::new(lines).split(b'\n'))
    {
        let line = line.map_err(|error| format!("tier {}: {error}", tier.name))?;
        counts.read(&String::from_utf8_lossy(&line));
        out.write_all(&[line.as_slice(), b"\n"].concat()).map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| format!("tier {}: {error}", tier.name))?;
    counts.success = status.success();
    Ok(counts)
}

impl Counts {
    /// Adds the counts of a closing line of a test program: `test result: ok. 3 passed; 0 failed;
    /// 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
    fn read(&mut self, line: &str) {
        let Some(counts) = line.trim_start().strip_prefix("test result: ") else { return };
        let words: Vec<&str> =
            counts.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<usize>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }

    fn is_skipped(&self) -> bool {
        self.passed + self.failed == 0
    }

    fn verdict(&self, long: bool) -> String {
        let ignored = match self.ignored {
            0 => String::new(),
            ignored if long => format!("; {ignored} ignored"),
            ignored => format!("; {ignored} skipped, --long runs them"),
        };
        match (self.success, self.is_skipped()) {
            (true, false) => format!("passed{ignored}"),
            (true, true) => format!("SKIPPED: no test ran{ignored}"),
            (false, true) => "FAILED: no test ran".into(),
            (false, false) if self.failed == 0 => "FAILED: a test program ended early".into(),
            (false, false) => "FAILED".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut counts = Counts::default();
        counts.read("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        counts.read("test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s");
        counts.read("test engine ... ok");
        assert_eq!(counts, Counts { passed: 15, failed: 2, ignored: 1, success: false });
    }

    #[test]
    fn nothing_run_is_never_passed() {
        let counts = Counts { success: true, ignored: 2, ..Counts::default() };
        assert!(counts.is_skipped());
        assert!(counts.verdict(false).starts_with("SKIPPED"));
    }

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--long", "--require", "unit,doc", "--require=support"]);
        let require = ["unit", "doc", "support"].map(String::from).to_vec();
        assert_eq!(options, Ok(Options { long: true, require }));
        assert!(Options::parse(&["--require"]).is_err());
        assert!(Options::parse(&["--short"]).is_err());
    }

    #[test]
    fn every_integration_test_is_in_a_tier() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let selected: Vec<String> = tiers(&root).into_iter().flat_map(|tier| tier.select).collect();
        for (stem, _) in test_targets(&root) {
            assert!(selected.contains(&stem), "{stem}");
        }
    }
}
