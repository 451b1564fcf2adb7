//! The rules of execute for attention forward on the GPU of this computer: every detector finds nothing on
//! plans of every kind, in every storage form, and on one of them with each violation what the table says.
//!
//! One test, since the detectors capture and count for the whole process. Driver calls are counted in a
//! process of their own (`contract_gpu_driver_calls.rs`).

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;
#[path = "common/here.rs"]
mod here;

use std::sync::Arc;

use detectors::sm80_calls::{CALLS, WITH_VIOLATIONS};
use detectors::{Place, Tested};
use frazil_conformance::alloc::CountingAllocator;
use frazil_conformance::detectors::{Detector, Effort, Violation};
use frazil_core::Device;
use frazil_cuda::{Artifacts, CudaDevice};
use here::or_skip;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn every_plan_keeps_every_rule_and_every_violation_is_found() {
    or_skip!(here::gpu());
    let nvrtc = or_skip!(here::nvrtc());
    let driver = frazil_cuda::driver().unwrap();
    let artifacts = Arc::new(Artifacts::new(nvrtc.clone(), None));
    let open = || {
        let nvrtc = Some(nvrtc.props());
        Device::new(CudaDevice::open(driver.clone(), 0, nvrtc).unwrap())
    };
    let detectors = Detector::ALL.into_iter().filter(|&it| it != Detector::DriverCalls);
    let detectors: Vec<Detector> = detectors.collect();
    let place = Place { open: &open, artifacts, effort: Effort::GPU };
    for calls in &CALLS {
        for position in 0..calls.plans.len() {
            let has_violations = (calls.name, position) == WITH_VIOLATIONS;
            let violations = if has_violations { &Violation::ALL[..] } else { &[] };
            let blind = place.look(&Tested::sm80(calls, position), violations, &detectors);
            assert_eq!(blind, [], "all of them can look here");
        }
    }
}
