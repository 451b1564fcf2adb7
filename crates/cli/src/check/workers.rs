//! Cases on several threads, verdicts in the order of the cases.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use frazil::{Device, EngineId, Router};
use frazil_conformance::case::Case;
use frazil_conformance::memory::HostMemory;
use frazil_conformance::run::{Entry, Status, Verdict, check_entry};

use super::{PANICKED, not_judged};
use crate::failure::Failure;

/// What there is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jobs<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) router: &'a Router,
    pub(super) device: &'a Device,
    /// Most work of one run of an entry, in 10^9 floating-point operations.
    pub(super) limit: f64,
}

/// Calls `each` for every entry, in order. Stops at its first failure.
pub(super) fn run(
    jobs: &Jobs<'_>,
    num_threads: usize,
    mut each: impl FnMut(&Entry, &[Verdict]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..num_threads.min(jobs.entries.len()) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                let memory = HostMemory::new(jobs.device.clone());
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(entry) = jobs.entries.get(at)
                    && send.send((at, jobs.verdicts(entry, &memory))).is_ok()
                {}
            });
        }
        drop(send);
        let mut early = BTreeMap::new();
        let mut waited_for = 0;
        for (at, verdicts) in receive {
            early.insert(at, verdicts);
            while let Some(verdicts) = early.remove(&waited_for) {
                // Leaving drops the receiver, and every thread stops after its case.
                each(&jobs.entries[waited_for], &verdicts)?;
                waited_for += 1;
            }
        }
        Ok(())
    })
}

impl Jobs<'_> {
    fn verdicts(&self, entry: &Entry, memory: &HostMemory) -> Vec<Verdict> {
        let engines = || -> Vec<EngineId> {
            self.router.engines().map(|engine| engine.id().clone()).collect()
        };
        // A case can hold any numbers; one that breaks the runner must not end the others.
        catch_unwind(AssertUnwindSafe(|| {
            if self.limit.is_finite() {
                let gflop = |case: &Case| case.live_flops() as f64 / 1e9;
                let work = entry.runs.iter().map(gflop).fold(0.0, f64::max);
                if work > self.limit {
                    let reason = format!("{work:.3} GFLOP, the limit set is {}", self.limit);
                    return not_judged(entry, &engines(), Status::Skipped, &reason);
                }
            }
            check_entry(entry, self.router, memory)
        }))
        .unwrap_or_else(|_| not_judged(entry, &engines(), Status::Error, PANICKED))
    }
}
