//! The rules of execute on the GPU of this computer: every detector finds nothing on packed-length
//! setup, and on each violation what the table says.
//!
//! One test, since the detectors capture and count for the whole process. Driver calls are counted
//! in a process of their own (`contract_gpu_driver_calls.rs`).

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;

use std::sync::Arc;

use detectors::Place;
use frazil_conformance::alloc::CountingAllocator;
use frazil_conformance::detectors::Detector;
use frazil_conformance::skip;
use frazil_core::Device;
use frazil_cuda::{Artifacts, CudaDevice};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn every_rule_is_kept_and_every_violation_is_found() {
    let driver = match frazil_cuda::driver() {
        Ok(driver) => driver,
        Err(error) => return skip::because(format_args!("no GPU: {error}")),
    };
    let nvrtc = match frazil_cuda::nvrtc::nvrtc() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return skip::because(format_args!("no NVRTC: {error}")),
    };
    if let Err(error) = frazil_cuda::device(0) {
        return skip::because(format_args!("no GPU: {error}"));
    }
    let artifacts = Arc::new(Artifacts::new(nvrtc.clone(), None));
    let open = || {
        let nvrtc = Some(nvrtc.props());
        Device::new(CudaDevice::open(driver.clone(), 0, nvrtc).unwrap())
    };
    let detectors = Detector::ALL.into_iter().filter(|&it| it != Detector::DriverCalls);
    let detectors: Vec<Detector> = detectors.collect();
    let blind = Place { open: &open, artifacts }.look(&detectors);
    assert_eq!(blind, [], "all of them can look here");
}
