//! Test tiers: each runs, or says why not.

mod counts;
mod run;
mod tiers;

use std::path::PathBuf;

use crate::prebuilt::Prebuilt;
use crate::{Failure, root, say};
use counts::Counts;

/// What to run, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    long: bool,
    /// These tiers alone; every tier where it is empty.
    tiers: Vec<String>,
    require: Vec<String>,
    /// The folder of programs that are built, in the place of cargo.
    prebuilt: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            if arg == "--long" {
                options.long = true;
                continue;
            }
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (arg, args.next().copied()),
            };
            let no_option = || format!("`{arg}` is no option of test, or lacks a value");
            let value = value.ok_or_else(no_option)?;
            let tiers = value.split(',').map(|tier| tier.trim().to_owned());
            match name {
                "--tier" => options.tiers.extend(tiers),
                "--require" => options.require.extend(tiers),
                "--prebuilt" => options.prebuilt = Some(value.into()),
                _ => return Err(no_option()),
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Whether every tier that is named is one, and every one that is required runs.
    fn check(&self) -> Result<(), Failure> {
        for named in self.named() {
            if !tiers::names().any(|name| name == named) {
                let names = tiers::names().collect::<Vec<_>>().join(", ");
                return Err(format!("there is no tier `{named}`; tiers: {names}"));
            }
        }
        match self.require.iter().find(|required| !self.runs(required)) {
            Some(left_out) => Err(format!("tier {left_out} is required, and --tier leaves it out")),
            None => Ok(()),
        }
    }

    fn named(&self) -> impl Iterator<Item = &String> {
        self.tiers.iter().chain(&self.require)
    }

    fn runs(&self, tier: &str) -> bool {
        self.tiers.is_empty() || self.tiers.iter().any(|named| named == tier)
    }
}

pub(crate) fn test(options: &Options) -> Result<(), Failure> {
    let prebuilt = options.prebuilt.as_deref().map(Prebuilt::read).transpose()?;
    let mut tiers = match &prebuilt {
        None => tiers::of_workspace(&root()),
        Some(prebuilt) => tiers::of_programs(prebuilt),
    };
    let has_tests = |named: &String| tiers.iter().any(|tier| tier.name == named);
    if let Some(absent) = options.named().find(|named| !has_tests(named)) {
        return Err(format!("tier {absent} is asked for, and has no tests"));
    }
    tiers.retain(|tier| options.runs(tier.name));
    let mut results = Vec::new();
    for tier in &tiers {
        say(&format!("\n== tier {}", tier.name))?;
        results.push((tier.name, run::run(tier, options.long)?));
    }
    report(&results, options)
}

/// The table of all tiers, and every reason for a skip.
fn report(results: &[(&str, Counts)], options: &Options) -> Result<(), Failure> {
    let row = |cells: [&dyn std::fmt::Display; 5]| {
        let [tier, passed, failed, skipped, ignored] = cells;
        format!("{tier:<14}{passed:>8}{failed:>8}{skipped:>9}{ignored:>9}")
    };
    say(&format!("\n{}", row([&"tier", &"passed", &"failed", &"skipped", &"ignored"])))?;
    for (name, counts) in results {
        let Counts { passed, failed, ignored, .. } = counts;
        let cells = row([name, passed, failed, &counts.num_skipped(), ignored]);
        say(&format!("{cells}  {}", counts.verdict(options.long)))?;
    }
    let reasons = results.iter().filter(|(_, counts)| counts.num_skipped() > 0);
    for (index, (name, counts)) in reasons.enumerate() {
        say(if index == 0 { "\nskipped:" } else { "" }).and_then(|()| {
            counts.skipped.iter().try_for_each(|(reason, num)| {
                say(&format!("  {name}: {num} test{}: {reason}", if *num == 1 { "" } else { "s" }))
            })
        })?;
    }
    let faults = faults(results, &options.require);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Why the run as a whole failed.
fn faults(results: &[(&str, Counts)], require: &[String]) -> Vec<String> {
    let fault = |(name, counts): &(&str, Counts)| {
        let required = require.iter().any(|required| required == name);
        if !counts.is_clean() {
            Some(format!("tier {name} failed"))
        } else if required && counts.is_skipped() {
            Some(format!("tier {name} is required and was skipped"))
        } else if required && counts.num_skipped() > 0 {
            let num = counts.num_skipped();
            Some(format!("tier {name} is required and {num} of its tests were skipped"))
        } else {
            None
        }
    };
    results.iter().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let args =
            ["--long", "--require", "unit,doc", "--require=support", "--tier", "unit,doc,support"];
        let options = Options::parse(&[&args[..], &["--prebuilt=some/folder"]].concat());
        let expected = Options {
            long: true,
            tiers: ["unit", "doc", "support"].map(String::from).to_vec(),
            require: ["unit", "doc", "support"].map(String::from).to_vec(),
            prebuilt: Some("some/folder".into()),
        };
        assert_eq!(options, Ok(expected));
        for wrong in [&["--require"][..], &["--short"], &["--short", "unit"], &["--long=1"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn tiers_that_are_named_are_there_and_those_required_run() {
        for (args, fault) in [
            (&[][..], None),
            (&["--tier", "unit", "--require", "unit"], None),
            (&["--require", "unit,compile"], None),
            (&["--require", "numerics-gpu"], None),
            (&["--require", "nonsense"], Some("there is no tier `nonsense`; tiers: unit, doc, ")),
            (&["--tier", "unit,"], Some("there is no tier ``; tiers: ")),
            (
                &["--tier", "unit", "--require", "unit,compile"],
                Some("tier compile is required, and --tier leaves it out"),
            ),
        ] {
            let found = Options::parse(args).err();
            let is_told = match (&found, fault) {
                (Some(found), Some(fault)) => found.starts_with(fault),
                (found, fault) => found.is_none() && fault.is_none(),
            };
            assert!(is_told, "{args:?}: {found:?}");
        }
    }

    #[test]
    fn a_required_tier_must_run_whole() {
        let ran = |passed, skipped| {
            let mut counts = Counts { success: true, passed, ..Counts::default() };
            if skipped > 0 {
                counts.skipped.insert("no NVRTC".into(), skipped);
            }
            counts
        };
        for (passed, skipped, fault) in [
            (3, 0, None),
            (3, 1, Some("tier compile is required and 1 of its tests were skipped")),
            (0, 4, Some("tier compile is required and was skipped")),
            (0, 0, Some("tier compile is required and was skipped")),
        ] {
            let results = [("compile", ran(passed, skipped)), ("simulate", ran(0, 2))];
            let found = faults(&results, &["compile".to_owned()]);
            assert_eq!(found, Vec::from_iter(fault.map(str::to_owned)), "{passed} {skipped}");
            assert!(faults(&results, &[]).is_empty(), "what is not required may be skipped");
        }
        let failed = Counts { failed: 1, ..Counts::default() };
        assert_eq!(faults(&[("unit", failed)], &[]), ["tier unit failed"]);
    }
}
