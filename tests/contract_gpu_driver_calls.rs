//! The driver calls of execute on the GPU of this computer, counted by name: launches, and looks at
//! the context and the stream.
//!
//! One test, since calls are counted for the whole process, and in a process of its own, whose
//! driver is the counting one.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;
#[path = "common/here.rs"]
mod here;

use std::sync::Arc;

use detectors::sm80_calls::CALLS;
use detectors::{Place, Tested};
use frazil_conformance::counting_driver::CountedProcess;
use frazil_conformance::detectors::{Detector, Effort, Violation};
use frazil_core::Device;
use frazil_cuda::{Artifacts, CudaDevice};
use here::or_skip;

#[test]
fn execute_calls_the_driver_to_launch_and_every_violation_is_found() {
    or_skip!(here::gpu());
    let nvrtc = or_skip!(here::nvrtc());
    let test = "execute_calls_the_driver_to_launch_and_every_violation_is_found";
    CountedProcess::new().unwrap().run_test(test, |_| {
        let artifacts = Arc::new(Artifacts::new(nvrtc.clone(), None));
        let driver = frazil_cuda::driver().unwrap();
        let open = || {
            let nvrtc = Some(nvrtc.props());
            Device::new(CudaDevice::open(driver.clone(), 0, nvrtc).unwrap())
        };
        let place = Place { open: &open, artifacts, effort: Effort::GPU };
        let blind = place.look(&Tested::setup(), &Violation::ALL, &[Detector::DriverCalls]);
        assert_eq!(blind, [], "calls are counted in this process");
        for calls in &CALLS {
            for position in 0..calls.plans.len() {
                let tested = Tested::sm80(calls, position);
                let blind = place.look(&tested, &[], &[Detector::DriverCalls]);
                assert_eq!(blind, [], "calls are counted in this process");
            }
        }
    });
}
