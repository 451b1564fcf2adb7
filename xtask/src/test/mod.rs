//! Test tiers: each runs, or says why not.

mod counts;
mod tiers;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use counts::Counts;
use tiers::Tier;

use crate::{Failure, cargo, root, say};

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

pub(crate) fn test(options: &Options) -> Result<(), Failure> {
    let tiers = tiers::tiers(&root());
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
        results.push((tier.name, run(tier, options.long)?));
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

/// Runs a tier, passing on what it prints, closing lines included.
fn run(tier: &Tier, long: bool) -> Result<Counts, Failure> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&tier.select);
    if long && tier.has_long {
        command.args(["--", "--include-ignored", "--skip", counts::REEXECUTED]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--long", "--require", "unit,doc", "--require=support"]);
        let require = ["unit", "doc", "support"].map(String::from).to_vec();
        assert_eq!(options, Ok(Options { long: true, require }));
        assert!(Options::parse(&["--require"]).is_err());
        assert!(Options::parse(&["--short"]).is_err());
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
