//! Simulated GPUs: the contract of the driver's calls, and what only a simulation has.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "../contract/mod.rs"]
mod contract;
mod devices;
mod misuse;
mod threads;

use std::sync::Arc;

use contract::{Current, contract_tests};
use frazil_core::target::fixtures;
use frazil_core::{CudaProps, DeviceProps, Version};
use frazil_cuda::Driver;
use frazil_cuda::sim::{SimulatedDriver, Simulation};

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

/// A driver with an H200, whose context is current on this thread.
fn h200() -> Current {
    let DeviceProps::Cuda(props) = fixtures::sm90().device else { panic!("a GPU") };
    Current::new(open(props))
}

fn simulation(driver: &Driver) -> Simulation<'_> {
    Simulation::of_driver(driver).unwrap()
}

/// Every test runs on every GPU, and keeps to what the driver defines.
fn with_driver(body: &dyn Fn(&Arc<Driver>)) {
    for props in gpus() {
        let current = Current::new(open(props));
        body(&current.0);
        assert_eq!(simulation(&current.0).misuses(), []);
        assert_eq!(simulation(&current.0).findings(), []);
    }
}

contract_tests!(with_driver);

#[test]
fn a_fault_stops_the_context() {
    for props in gpus() {
        for fault in &contract::fault::FAULTS {
            let current = Current::new(open(props.clone()));
            contract::fault::fault(&current.0, fault);
            let findings = simulation(&current.0).findings();
            assert_eq!(findings.len(), 1, "{}: {findings:?}", fault.name);
            assert_eq!(findings[0].kernel, fault.kernel);
        }
    }
}
