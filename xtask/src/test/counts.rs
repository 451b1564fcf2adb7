//! What came of a tier, read from what its test programs print.

use std::collections::{BTreeMap, BTreeSet};

/// What `frazil_conformance::skip` begins the line of a skip with; a test compares the two.
pub(super) const SKIP_MARK: &str = "SKIPPED test ";

/// Modules of tests that another test runs in a process of its own, to see how they end: they are
/// marked as ignored, belong to no tier, and are not counted.
pub(super) const REEXECUTED: &str = "reexecuted::";

/// What came of the tests of a tier.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tests that ran and ended well; those that only said that they cannot run are not among them.
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// Why tests were skipped, and how many for each reason.
    pub(crate) skipped: BTreeMap<String, usize>,
    /// Skips that no test answers for: said off the thread of a test, so that none is taken out.
    pub(crate) strays: Vec<String>,
    /// Whether every program ended well.
    pub(crate) success: bool,
    /// The program whose lines are being read.
    pub(super) program: Program,
}

/// What the lines of one test program said before its closing line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    tests: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// Reason by test, so that a test that says it twice is one skip.
    skipped: BTreeMap<String, String>,
    /// Tests that libtest calls ignored, since another test runs them.
    reexecuted: usize,
}

impl Counts {
    /// Takes in a line of a test program:
    ///
    /// - `running 3 tests`: another program begins;
    /// - `test engine::builds ... ok`, or without the verdict where tests run one by one;
    /// - `SKIPPED test engine::builds: no NVRTC`, alone or after such a beginning;
    /// - `    engine::builds` in the list of those that failed;
    /// - `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished …`.
    pub(crate) fn read(&mut self, line: &str) {
        if line.starts_with("running ") && (line.ends_with(" test") || line.ends_with(" tests")) {
            self.program = Program::default();
        }
        if let Some(closing) = line.trim_start().strip_prefix("test result: ") {
            self.close(closing);
            return;
        }
        if let Some((test, _)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(' ')) {
            self.program.tests.insert(test.to_owned());
            if line.ends_with("... FAILED") {
                self.program.failed.insert(test.to_owned());
            }
            if test.contains(REEXECUTED) && line.contains("... ignored") {
                self.program.reexecuted += 1;
            }
        } else if let Some(test) = line.strip_prefix("    ") {
            self.program.failed.insert(test.to_owned());
        }
        if let Some((_, skip)) = line.split_once(SKIP_MARK) {
            let (test, reason) = skip.split_once(": ").unwrap_or((skip, "no reason was given"));
            self.program.skipped.insert(test.to_owned(), reason.to_owned());
        }
    }

    /// Adds the counts of a closing line, less the skips, which libtest takes for passed.
    fn close(&mut self, closing: &str) {
        let words: Vec<&str> =
            closing.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<usize>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
        let Program { tests, failed, skipped, reexecuted } = std::mem::take(&mut self.program);
        self.ignored = self.ignored.saturating_sub(reexecuted);
        for (test, reason) in skipped {
            // A skip that failed as well is no passed test.
            if failed.contains(&test) {
                continue;
            }
            match self.passed.checked_sub(1).filter(|_| tests.contains(&test)) {
                Some(passed) => {
                    self.passed = passed;
                    *self.skipped.entry(reason).or_default() += 1;
                }
                None => self.strays.push(test),
            }
        }
    }

    pub(crate) fn num_skipped(&self) -> usize {
        self.skipped.values().sum()
    }

    /// Whether nothing was shown by a test of the tier.
    pub(crate) fn is_skipped(&self) -> bool {
        self.passed + self.failed == 0
    }

    /// Whether all is well, as far as tests ran.
    pub(crate) fn is_clean(&self) -> bool {
        self.success && self.strays.is_empty()
    }

    pub(crate) fn verdict(&self, long: bool) -> String {
        let mut notes = String::new();
        if self.num_skipped() > 0 {
            notes.push_str(&format!("; {} SKIPPED", self.num_skipped()));
        }
        match self.ignored {
            0 => {}
            ignored if long => notes.push_str(&format!("; {ignored} ignored")),
            ignored => notes.push_str(&format!("; {ignored} left out, --long runs them")),
        }
        let reasons: Vec<&str> = self.skipped.keys().map(String::as_str).collect();
        match (self.success, self.is_skipped()) {
            (true, _) if !self.strays.is_empty() => {
                format!("FAILED: a skip outside a test's own thread: {}", self.strays.join(", "))
            }
            (true, false) => format!("passed{notes}"),
            (true, true) if reasons.is_empty() => format!("SKIPPED: no test ran{notes}"),
            (true, true) => format!("SKIPPED: {}", reasons.join("; ")),
            (false, true) => "FAILED: no test ran".into(),
            (false, false) if self.failed == 0 => "FAILED: a test program ended early".into(),
            (false, false) => "FAILED".into(),
        }
    }
}

#[cfg(test)]
mod tests;
