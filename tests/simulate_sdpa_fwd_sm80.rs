//! The engine for compute capability 8.0 and later with no GPU: small cases of ours on simulated ones,
//! against the f64 reference, with nothing found by the simulator.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;
#[path = "common/here.rs"]
mod here;
#[path = "common/sdpa_fwd.rs"]
mod sdpa_fwd;

use std::sync::Arc;

use common::own_cases;
use frazil::Target;
use frazil::target::fixtures;
use frazil_conformance::run::Entry;
use frazil_conformance::skip;
use frazil_cuda::compile::Arch;
use frazil_cuda::sim::Simulation;
use frazil_cuda::{Artifacts, simulated};
use here::or_skip;
use sdpa_fwd::{any_answer, run, sm80_router};

/// Work on live rows of the largest case that is run every time.
const MAX_FLOPS: u64 = 600_000;

/// Every `stride`-th of the small cases, from the `first` on.
fn look(fixture: fn() -> Target, first: usize, stride: usize) {
    let nvrtc = or_skip!(here::nvrtc());
    let mut target = fixture();
    let arch = Arch::of(&target).unwrap();
    let version = nvrtc.build().version;
    if version < arch.since() {
        return skip::because(format_args!("NVRTC {version} does not know {arch}"));
    }
    target.toolchain.nvrtc = Some(nvrtc.props());
    let device = simulated(&target).unwrap();
    let artifacts = Arc::new(Artifacts::new(nvrtc, None));
    let cases = own_cases().into_iter().flat_map(|(_, cases)| cases);
    let small = cases.filter(|case| case.live_flops() <= MAX_FLOPS);
    let entries: Vec<Entry> =
        small.skip(first).step_by(stride).map(Entry::from).map(any_answer).collect();
    let count = run(&device, &sm80_router(&artifacts), &entries, 1);
    eprintln!("{arch}: {count:?} of {} small cases", entries.len());
    let simulation = Simulation::of(&device).unwrap();
    assert_eq!(simulation.misuses(), []);
    assert_eq!(simulation.findings(), []);
    assert!(count.right > 0, "{count:?}");
}

#[test]
fn small_cases_are_right_on_sm80() {
    look(fixtures::sm80, 0, 4);
}

#[test]
fn small_cases_are_right_on_sm90() {
    look(fixtures::sm90, 1, 8);
}
