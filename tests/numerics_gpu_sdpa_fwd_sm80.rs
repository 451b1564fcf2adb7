//! The engine for compute capability 8.0 and later on a real GPU, against the f64 reference: every case
//! of ours, the bug log, the peer's own configurations, and cases drawn at random.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;
#[path = "common/here.rs"]
mod here;
#[path = "common/sdpa_fwd.rs"]
mod sdpa_fwd;

use std::sync::Arc;

use common::{own_cases, peer_entries};
use frazil_conformance::generator::{Aim, case_from_seed};
use frazil_conformance::run::Entry;
use frazil_cuda::{Artifacts, DiskCache};
use here::or_skip;
use sdpa_fwd::{Count, any_answer, run, sm80_router};

/// Threads that draw, compare and launch; the reference is most of the work.
fn num_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn try_here(name: &str, entries: Vec<Entry>) -> Result<Count, String> {
    let (nvrtc, device) = (here::nvrtc()?, here::gpu()?);
    // Shared by the tests of this program, which compile the same kernels.
    let folder = std::env::temp_dir().join(format!("frazil-numerics-{}", std::process::id()));
    let artifacts = Arc::new(Artifacts::new(nvrtc, Some(DiskCache::at(folder))));
    let entries: Vec<Entry> = entries.into_iter().map(any_answer).collect();
    let count = run(&device, &sm80_router(&artifacts), &entries, num_threads());
    eprintln!("{name}: {count:?}, kernels {:?}", artifacts.counts());
    assert!(count.right > 0 && count.right + count.declined <= entries.len());
    Ok(count)
}

fn run_here(name: &str, entries: Vec<Entry>) {
    or_skip!(try_here(name, entries));
}

fn own_entries(file: &str) -> Vec<Entry> {
    let (_, cases) = own_cases().into_iter().find(|(name, _)| *name == file).unwrap();
    cases.into_iter().map(Entry::from).collect()
}

fn run_own(file: &str) {
    run_here(file, own_entries(file));
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
    let count = or_skip!(try_here("sdpa_fwd_decode", own_entries("sdpa_fwd_decode")));
    // Most have too few units for any GPU, and keys enough.
    assert!(count.cut > 30, "{count:?}");
}

#[test]
fn edge_cases_are_right() {
    run_own("sdpa_fwd_edges");
}

#[test]
fn bug_log_cases_are_right() {
    run_own("sdpa_fwd_buglog");
}

#[test]
fn the_peers_configurations_are_right() {
    run_here("the peer's", peer_entries(&common::router()));
}

#[test]
fn generated_cases_are_right() {
    run_here("generated", (0..500).map(case_from_seed).map(Entry::from).collect());
    let for_matrix_units = (0..1000).map(|seed| Aim::MatrixUnits.case_from_seed(seed));
    run_here("generated for matrix units", for_matrix_units.map(Entry::from).collect());
}
