//! The driver calls of execute on the GPU of this computer, counted by name: launches, and looks at
//! the context and the stream.
//!
//! One test, since calls are counted for the whole process, and in a process of its own, whose
//! driver is the counting one.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/detectors.rs"]
mod detectors;

use std::sync::Arc;

use detectors::Place;
use frazil_conformance::counting_driver::CountedProcess;
use frazil_conformance::detectors::Detector;
use frazil_conformance::skip;
use frazil_core::Device;
use frazil_cuda::{Artifacts, CudaDevice};

#[test]
fn execute_calls_the_driver_to_launch_and_every_violation_is_found() {
    if let Err(error) = frazil_cuda::device(0) {
        return skip::because(format_args!("no GPU: {error}"));
    }
    let nvrtc = match frazil_cuda::nvrtc::nvrtc() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return skip::because(format_args!("no NVRTC: {error}")),
    };
    let test = "execute_calls_the_driver_to_launch_and_every_violation_is_found";
    CountedProcess::new().unwrap().run_test(test, |_| {
        let artifacts = Arc::new(Artifacts::new(nvrtc.clone(), None));
        let driver = frazil_cuda::driver().unwrap();
        let open = || {
            let nvrtc = Some(nvrtc.props());
            Device::new(CudaDevice::open(driver.clone(), 0, nvrtc).unwrap())
        };
        let blind = Place { open: &open, artifacts }.look(&[Detector::DriverCalls]);
        assert_eq!(blind, [], "calls are counted in this process");
    });
}
