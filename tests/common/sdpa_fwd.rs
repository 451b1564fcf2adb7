//! Cases of attention forward through an engine for GPUs, on whatever device: simulated or real.
// Each test binary uses its part of this.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use frazil::{Device, Launches, Plan, Router, Target};
use frazil_conformance::case::Case;
use frazil_conformance::cuda::CudaMemory;
use frazil_conformance::declare::declare;
use frazil_conformance::run::{Entry, Status, Verdict, check_entry};
use frazil_cuda::{Artifacts, combine, work_list};
use frazil_engine_sm80::Sm80Engine;

/// How many cases an engine has served, how many it has declined, of how many its best plan cuts units into
/// pieces, and of how many it has device lengths and no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) right: usize,
    pub(crate) declined: usize,
    pub(crate) cut: usize,
    pub(crate) without_list: usize,
}

/// A router of the engine for compute capability 8.0 and later alone.
pub(crate) fn sm80_router(artifacts: &Arc<Artifacts>) -> Router {
    let engine = Sm80Engine::with_artifacts(Arc::clone(artifacts)).registered();
    Router::over([engine]).unwrap()
}

/// Runs entries on a device, `num_threads` at a time, each thread with memory of its own.
pub(crate) fn verdicts(
    device: &Device,
    router: &Router,
    entries: &[Entry],
    num_threads: usize,
) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let work = || {
        let memory = CudaMemory::new(device.clone()).unwrap();
        let mut verdicts = Vec::new();
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            verdicts.extend(check_entry(entry, router, &memory));
        }
        verdicts
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Ends a test with the first of what went wrong, each with the line that repeats it.
pub(crate) fn assert_none_is_bad(verdicts: &[Verdict]) {
    let is_bad = |verdict: &&Verdict| matches!(verdict.status, Status::Wrong | Status::Error);
    let bad: Vec<String> = verdicts.iter().filter(is_bad).take(12).map(line).collect();
    let num_bad = verdicts.iter().filter(is_bad).count();
    assert!(
        bad.is_empty(),
        "{num_bad} of {} went wrong; the first:\n{}",
        verdicts.len(),
        bad.join("\n")
    );
}

/// The same, where what is served must be right; what is declined is counted.
pub(crate) fn run(
    device: &Device,
    router: &Router,
    entries: &[Entry],
    num_threads: usize,
) -> Count {
    let verdicts = verdicts(device, router, entries, num_threads);
    assert_none_is_bad(&verdicts);
    let count = |status| verdicts.iter().filter(|verdict| verdict.status == status).count();
    let target = Arc::new(device.target().clone());
    let of_kind = |is_kind: fn(&Plan) -> bool| {
        let plan = |entry: &Entry| best_plan(&entry.runs[0], router, &target);
        entries.iter().filter_map(plan).filter(&is_kind).count()
    };
    let (right, declined) = (count(Status::Right), count(Status::Declined));
    Count { right, declined, cut: of_kind(is_cut), without_list: of_kind(is_without_list) }
}

fn line(verdict: &Verdict) -> String {
    let reason = verdict.reason.as_deref().unwrap_or_default();
    let repro = verdict.repro.as_ref().map(|repro| format!("\n    {repro}")).unwrap_or_default();
    format!("{}: {:?} {reason}{repro}", verdict.id, verdict.status)
}

/// Without what is expected of other engines.
pub(crate) fn any_answer(mut entry: Entry) -> Entry {
    entry.expect = None;
    entry
}

/// None where a case means nothing.
fn best_plan(case: &Case, router: &Router, target: &Arc<Target>) -> Option<Plan> {
    let facts = declare(case).ok()?.facts;
    router.plans(&facts, target).unwrap_or_default().into_iter().next()
}

/// Whether a plan cuts units into pieces, and so has them merged.
fn is_cut(plan: &Plan) -> bool {
    kernels(plan).any(|kernel| kernel == combine::KERNEL)
}

/// Whether device lengths steer a plan that makes no list of the work.
fn is_without_list(plan: &Plan) -> bool {
    plan.error_word().is_some() && !kernels(plan).any(|kernel| kernel == work_list::KERNEL)
}

fn kernels(plan: &Plan) -> impl Iterator<Item = &str> {
    let kernels = match plan.launches() {
        Launches::Own(kernels) => kernels.as_slice(),
        _ => &[],
    };
    kernels.iter().map(AsRef::as_ref)
}
