//! The rules of execute with no GPU: on a simulated device every detector that can look there finds
//! nothing on packed-length setup, and on each violation what the table says, as on a GPU
//! (`contract_gpu.rs`, the same body).
//!
//! Allocations and driver calls are counted on a GPU alone: a simulated driver is part of the
//! program. Captures of one simulated device forbid nothing on another, so that tests run at once.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;
#[path = "common/here.rs"]
mod here;

use std::sync::{Arc, Mutex};

use detectors::{Place, Tested};
use frazil::target::fixtures;
use frazil_conformance::detectors::{Blind, Detector, Effort, Violation};
use frazil_conformance::skip;
use frazil_core::{Device, Target};
use frazil_cuda::compile::Arch;
use frazil_cuda::sim::Simulation;
use frazil_cuda::{Artifacts, simulated};
use here::or_skip;

/// Looks on a GPU of one generation, with the compiler of this computer.
fn look(fixture: fn() -> Target) {
    let nvrtc = or_skip!(here::nvrtc());
    let mut target = fixture();
    let arch = Arch::of(&target).unwrap();
    let version = nvrtc.build().version;
    if version < arch.since() {
        return skip::because(format_args!("NVRTC {version} does not know {arch}"));
    }
    target.toolchain.nvrtc = Some(nvrtc.props());
    let devices: Mutex<Vec<Device>> = Mutex::default();
    let open = || {
        let device = simulated(&target).unwrap();
        devices.lock().unwrap().push(device.clone());
        device
    };
    let artifacts = Arc::new(Artifacts::new(nvrtc, None));
    let place = Place { open: &open, artifacts, effort: Effort::SIMULATED };
    let blind = place.look(&Tested::setup(), &Violation::ALL, &Detector::ALL);
    let counters = [Detector::HostAllocations, Detector::DriverCalls];
    assert_eq!(blind, counters.map(|counter| (counter, Blind::Simulated)));
    // The first device is that of the engine which keeps the rules.
    let devices = devices.into_inner().unwrap();
    let simulation = Simulation::of(&devices[0]).unwrap();
    assert_eq!(simulation.misuses(), []);
    assert_eq!(simulation.findings(), []);
    assert!(simulation.warp_instructions() > 0);
}

#[test]
fn every_rule_is_kept_and_every_violation_is_found_on_sm80() {
    look(fixtures::sm80);
}

#[test]
fn every_rule_is_kept_and_every_violation_is_found_on_sm90() {
    look(fixtures::sm90);
}

#[test]
fn every_rule_is_kept_and_every_violation_is_found_on_sm100() {
    look(fixtures::sm100);
}

#[test]
fn every_rule_is_kept_and_every_violation_is_found_on_sm120() {
    look(fixtures::sm120);
}
