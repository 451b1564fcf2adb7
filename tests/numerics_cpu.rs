//! The CPU engine against the f64 reference: every case of ours, the bug log, and the peer's own
//! configurations.

mod common;

use frazil_conformance::case::Case;
use frazil_conformance::run::{Entry, check_entry};
use frazil_conformance::suite::{Report, run_suite};
use rayon::prelude::*;

use common::{host, own_cases, peer_entries, router};

/// Work on live rows up to which a configuration of the peer runs every time. Those of at most this
/// much are most of the file and a small part of its work.
const FAST_FLOPS: u64 = 500_000_000;

fn run_own(file: &str) {
    let (_, cases) =
        own_cases().into_iter().find(|(name, _)| *name == file).expect("one of our files");
    assert!(!cases.is_empty());
    let is_served = |case: &&Case| case.answers["sdpa_fwd_cpu"] == "served";
    let served = cases.iter().filter(is_served).count();
    let report = run_suite(&router(), &host(), cases);
    report.assert_right();
    assert_eq!(report.totals.right, served, "{file}: {report}");
}

#[test]
fn plain_cases_are_right() {
    run_own("sdpa_fwd");
}

#[test]
fn storage_cases_are_right() {
    run_own("sdpa_fwd_storage");
}

#[test]
fn few_rows_against_many_keys_are_right() {
    run_own("sdpa_fwd_decode");
}

#[test]
fn edge_cases_are_right() {
    run_own("sdpa_fwd_edges");
}

#[test]
fn bug_log_cases_are_right() {
    run_own("sdpa_fwd_buglog");
}

/// Configurations that the CPU engine is expected to serve, those of little work apart.
fn served_by_work() -> (Vec<Entry>, Vec<Entry>) {
    let is_served = |entry: &Entry| {
        let expect = entry.expect.as_ref().expect("the file has rules");
        expect["sdpa_fwd_cpu"] == "served"
    };
    let is_fast = |entry: &Entry| entry.runs[0].live_flops() <= FAST_FLOPS;
    peer_entries(&router()).into_iter().filter(is_served).partition(is_fast)
}

/// Several at a time: much of a run (drawing, comparing) is one thread's work.
fn run_peer(entries: &[Entry]) {
    let verdicts = entries.par_iter().map(|entry| check_entry(entry, &router(), &host()));
    let mut report = Report::default();
    report.verdicts = verdicts.flatten_iter().collect();
    report.totals = report.verdicts.iter().collect();
    report.assert_right();
    assert_eq!(report.totals.right, entries.len(), "{report}");
}

#[test]
fn the_peers_smaller_configurations_are_right() {
    let (fast, long) = served_by_work();
    eprintln!("{} configurations run, {} left to the long run", fast.len(), long.len());
    assert_eq!((fast.len(), long.len()), (613, 237));
    run_peer(&fast);
}

#[test]
#[ignore = "long run: cargo xtask test --long"]
fn the_peers_larger_configurations_are_right() {
    let (_, long) = served_by_work();
    run_peer(&long);
}
