//! The contract of the driver's calls, on simulated GPUs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod contract;

use std::sync::Arc;

use contract::{Current, contract_tests};
use frazil_core::target::fixtures;
use frazil_core::{CudaProps, DeviceProps, Version};
use frazil_cuda::Driver;
use frazil_cuda::sim::SimulatedDriver;

/// GPUs of every generation that frazil knows.
fn gpus() -> Vec<CudaProps> {
    let cuda = |(_, make): &fixtures::Fixture| match make().device {
        DeviceProps::Cuda(props) => Some(props),
        _ => None,
    };
    fixtures::ALL.iter().filter_map(cuda).collect()
}

fn open(props: CudaProps) -> Arc<Driver> {
    Arc::new(SimulatedDriver::new(props, Version::new(13, 0, 0)).into())
}

/// Every test runs on every GPU.
fn with_driver(body: &dyn Fn(&Arc<Driver>)) {
    for props in gpus() {
        let current = Current::new(open(props));
        body(&current.0);
    }
}

contract_tests!(with_driver);

#[test]
fn a_fault_stops_the_context() {
    for props in gpus() {
        for fault in &contract::fault::FAULTS {
            let current = Current::new(open(props.clone()));
            contract::fault::fault(&current.0, fault);
        }
    }
}
