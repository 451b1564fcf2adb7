//! The rules of execute on the GPU of this computer: every detector finds nothing on packed-length
//! setup, and on each violation what the table says.
//!
//! One test, since the detectors capture and count for the whole process. Driver calls are counted
//! in a process of their own (`contract_gpu_driver_calls.rs`).

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;
#[path = "common/here.rs"]
mod here;

use std::sync::Arc;

use detectors::{Place, Tested};
use frazil_conformance::alloc::CountingAllocator;
use frazil_conformance::detectors::{Detector, Effort, Violation};
use frazil_core::Device;
use frazil_cuda::{Artifacts, CudaDevice};
use here::or_skip;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn every_rule_is_kept_and_every_violation_is_found() {
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
    let blind = place.look(&Tested::setup(), &Violation::ALL, &detectors);
    assert_eq!(blind, [], "all of them can look here");
}
