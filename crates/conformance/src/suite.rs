//! The whole suite in one call, for authors of engines elsewhere.

use std::fmt;

use frazil_router::Router;

use crate::memory::DeviceMemory;
use crate::run::{Entry, Status, Totals, Verdict, check_entry};

/// Every verdict of a suite.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// In the order of the cases, then of the router's engines.
    pub verdicts: Vec<Verdict>,
    /// Counted.
    pub totals: Totals,
}

/// Runs all cases through all engines, whatever fails on the way.
pub fn run_suite<E: Into<Entry>>(
    router: &Router,
    memory: &dyn DeviceMemory,
    cases: impl IntoIterator<Item = E>,
) -> Report {
    let mut report = Report::default();
    for entry in cases {
        let verdicts = check_entry(&entry.into(), router, memory);
        verdicts.iter().for_each(|verdict| report.totals.add(verdict.status));
        report.verdicts.extend(verdicts);
    }
    report
}

impl Report {
    /// Verdicts that say an engine, or a case, is at fault.
    pub fn failures(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts
            .iter()
            .filter(|v| matches!(v.status, Status::Wrong | Status::Error | Status::Invalid))
    }

    /// Ends a test.
    ///
    /// # Panics
    ///
    /// With all failures, when there is one.
    pub fn assert_right(&self) {
        assert!(self.failures().next().is_none(), "{self}");
    }
}

/// The counts, then for each failure a line, and the line that runs it again.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { right, wrong, declined, invalid, error, skipped } = self.totals;
        write!(
            f,
            "{right} right, {wrong} wrong, {declined} declined, {invalid} invalid, {error} error, \
             {skipped} skipped"
        )?;
        for verdict in self.failures() {
            let Verdict { id, engine, status, reason, repro, .. } = verdict;
            write!(f, "\n{id} {engine}: {status:?}")?;
            if let Some(reason) = reason {
                write!(f, ": {reason}")?;
            }
            if let Some(repro) = repro {
                write!(f, "\n    {repro}")?;
            }
        }
        Ok(())
    }
}
