//! The rules of execute for attention forward on GPUs from 8.0 up, with no GPU: on a simulated device
//! every detector that can look there finds nothing on plans of every kind, in every storage form, and on
//! one of them with violations what the table says.
//!
//! What needs a GPU is looked at there: allocations and host costs, driver calls by name.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;
#[path = "common/here.rs"]
mod here;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use detectors::sm80_calls::{CALLS, WITH_VIOLATIONS, calls, launches};
use detectors::{Place, Tested};
use frazil::target::fixtures;
use frazil::{Device, DeviceProps};
use frazil_conformance::detectors::{Blind, Detector, Effort, Violation};
use frazil_cuda::sim::Simulation;
use frazil_cuda::{Artifacts, simulated};
use frazil_engine_sm80::Sm80Engine;
use here::or_skip;

/// Where nothing is to be found: a simulator takes a call of attention a thousand times as long as a GPU.
const LITTLE: Effort = Effort { repeats: 6, thread_repeats: 2 };

/// Violations that show in what a call leaves. The others are found whatever the engine
/// (`simulate_contract.rs`).
const IN_RESULTS: [Violation; 6] = [
    Violation::HostRead,
    Violation::MissingKernel,
    Violation::FirstCallsAddress,
    Violation::OneCallOfMany,
    Violation::SurvivingContent,
    Violation::PastTheWorkspace,
];

/// The store that all tests share, which compile the same kernels.
fn artifacts() -> Result<Arc<Artifacts>, String> {
    static ARTIFACTS: OnceLock<Arc<Artifacts>> = OnceLock::new();
    let nvrtc = here::nvrtc()?;
    Ok(Arc::clone(ARTIFACTS.get_or_init(|| Arc::new(Artifacts::new(nvrtc, None)))))
}

/// A GPU of so few multiprocessors that a block has several units, and a unit several blocks.
fn open() -> Device {
    // Where kernels start early behind a list.
    let mut target = fixtures::sm90();
    let DeviceProps::Cuda(gpu) = &mut target.device else { unreachable!("a fixture of a GPU") };
    gpu.num_sms = 3;
    target.toolchain.nvrtc = Some(here::nvrtc().unwrap().props());
    simulated(&target).unwrap()
}

/// Looks by every detector that can look here; nothing is found by the simulator.
fn look_at(name: &str, position: usize, effort: Effort, violations: &[Violation]) {
    let artifacts = or_skip!(artifacts());
    let devices: Mutex<Vec<Device>> = Mutex::default();
    let open = || {
        let device = open();
        devices.lock().unwrap().push(device.clone());
        device
    };
    let place = Place { open: &open, artifacts, effort };
    let tested = Tested::sm80(calls(name), position);
    let blind = place.look(&tested, violations, &Detector::ALL);
    let counters = [Detector::HostAllocations, Detector::DriverCalls];
    assert_eq!(blind, counters.map(|counter| (counter, Blind::Simulated)));
    // The first device is that of the engine which keeps the rules.
    let device = devices.into_inner().unwrap().remove(0);
    let simulation = Simulation::of(&device).unwrap();
    assert_eq!(simulation.misuses(), [], "{name}, plan {position}");
    assert_eq!(simulation.findings(), [], "{name}, plan {position}");
    assert!(simulation.warp_instructions() > 0);
}

/// The same for every plan of a row.
fn look(name: &str) {
    (0..calls(name).plans.len()).for_each(|position| look_at(name, position, LITTLE, &[]));
}

/// What each of an engine's plans launches, of its own and nothing else.
#[test]
fn every_row_has_the_plans_that_it_names() {
    or_skip!(here::nvrtc());
    let target = Arc::new(open().target().clone());
    let engine = Arc::new(Sm80Engine::of_process().registered());
    let mut kinds: BTreeSet<&[&str]> = BTreeSet::new();
    for calls in &CALLS {
        let plans = engine.ask(calls.cases().facts(), &target).unwrap();
        let found: Vec<_> = plans.iter().map(launches).collect();
        assert_eq!(found, calls.plans, "{}", calls.name);
        kinds.extend(calls.plans);
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
}

#[test]
fn sequences_packed_by_lengths_keep_every_rule() {
    look(WITH_VIOLATIONS.0);
}

/// Detectors that look at O, seen red: at a plan whose workspace is scratch.
#[test]
fn violations_are_found_in_the_outputs() {
    let (name, position) = WITH_VIOLATIONS;
    look_at(name, position, Effort::SIMULATED, &IN_RESULTS);
}

#[test]
fn dense_sides_keep_every_rule() {
    look("dense");
}

#[test]
fn overridden_extents_keep_every_rule() {
    look("dense_overridden");
}

#[test]
fn sequences_packed_by_a_prefix_keep_every_rule() {
    look("packed_prefix");
}

#[test]
fn sequences_with_gaps_keep_every_rule() {
    look("packed_with_gaps");
}

#[test]
fn padded_sequences_keep_every_rule() {
    look("padded");
}

#[test]
fn overridden_extents_of_padded_sequences_keep_every_rule() {
    look("padded_overridden");
}

#[test]
fn pages_keep_every_rule() {
    look("paged");
}

#[test]
fn pages_outside_of_the_pool_keep_every_rule() {
    look("paged_outside_of_the_pool");
}

#[test]
fn units_that_are_cut_keep_every_rule() {
    look("cut");
}

#[test]
fn units_that_are_cut_without_a_list_keep_every_rule() {
    look("cut_dense");
}

#[test]
fn overridden_extents_of_units_that_are_cut_keep_every_rule() {
    look("cut_dense_overridden");
}

#[test]
fn units_that_are_cut_over_pages_keep_every_rule() {
    look("cut_pages");
}

#[test]
fn modified_scores_keep_every_rule() {
    look("modified");
}

#[test]
fn sequences_without_a_live_row_keep_every_rule() {
    look("nothing_is_live");
}

#[test]
fn a_batch_of_no_sequence_keeps_every_rule() {
    look("no_sequence");
}
