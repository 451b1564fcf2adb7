//! Cases of attention forward through an engine for GPUs, on whatever device: simulated or real.
// Each test binary uses its part of this.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use frazil::{Device, Launches, Router, Target};
use frazil_conformance::case::Case;
use frazil_conformance::cuda::CudaMemory;
use frazil_conformance::declare::declare;
use frazil_conformance::run::{Entry, Status, Verdict, check_entry};
use frazil_cuda::{Artifacts, combine};
use frazil_engine_sm80::Sm80Engine;

/// How many cases an engine has served, how many it has declined, and of how many its best plan cuts units
/// into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) right: usize,
    pub(crate) declined: usize,
    pub(crate) cut: usize,
}

/// A router of the engine for compute capability 8.0 and later alone.
pub(crate) fn sm80_router(artifacts: &Arc<Artifacts>) -> Router {
    let engine = Sm80Engine::with_artifacts(Arc::clone(artifacts)).registered();
    Router::over([engine]).unwrap()
}

/// Runs entries on a device, `num_threads` at a time, each thread with memory of its own. What is
/// served must be right; what is declined is counted.
pub(crate) fn run(
    device: &Device,
    router: &Router,
    entries: &[Entry],
    num_threads: usize,
) -> Count {
    let next = AtomicUsize::new(0);
    let work = || {
        let memory = CudaMemory::new(device.clone()).unwrap();
        let mut verdicts = Vec::new();
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            verdicts.extend(check_entry(entry, router, &memory));
        }
        verdicts
    };
    let verdicts: Vec<Verdict> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let is_bad = |verdict: &&Verdict| matches!(verdict.status, Status::Wrong | Status::Error);
    let bad: Vec<String> = verdicts.iter().filter(is_bad).take(12).map(line).collect();
    let num_bad = verdicts.iter().filter(is_bad).count();
    assert!(
        bad.is_empty(),
        "{num_bad} of {} went wrong; the first:\n{}",
        verdicts.len(),
        bad.join("\n")
    );
    let count = |status| verdicts.iter().filter(|verdict| verdict.status == status).count();
    let target = Arc::new(device.target().clone());
    let cut = entries.iter().filter(|entry| is_cut(&entry.runs[0], router, &target)).count();
    Count { right: count(Status::Right), declined: count(Status::Declined), cut }
}

fn line(verdict: &Verdict) -> String {
    let reason = verdict.reason.as_deref().unwrap_or_default();
    format!("{}: {:?} {reason}", verdict.id, verdict.status)
}

/// Without what is expected of other engines.
pub(crate) fn any_answer(mut entry: Entry) -> Entry {
    entry.expect = None;
    entry
}

/// Whether the best plan of a case cuts units into pieces, and so has them merged.
pub(crate) fn is_cut(case: &Case, router: &Router, target: &Arc<Target>) -> bool {
    let facts = declare(case).unwrap().facts;
    let plans = router.plans(&facts, target).unwrap_or_default();
    let merges = |launches: &Launches| match launches {
        Launches::Own(kernels) => kernels.iter().any(|kernel| *kernel == combine::KERNEL),
        _ => false,
    };
    plans.first().is_some_and(|plan| merges(plan.launches()))
}
