//! The contract of the driver's calls, on the first GPU of this computer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod contract;

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use contract::{Current, contract_tests};
use frazil_cuda::Driver;

/// Captures of one test forbid calls to the others, so that they run one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn with_driver(body: &dyn Fn(&Arc<Driver>)) {
    let driver = match frazil_cuda::driver() {
        Ok(driver) => driver,
        Err(error) => return frazil_conformance::skip::because(format_args!("no GPU: {error}")),
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let current = Current::new(driver);
    body(&current.0);
}

contract_tests!(with_driver);

/// Each in a process of its own, since it stops the context for good.
#[test]
fn a_fault_stops_the_context() {
    with_driver(&|_| {
        for contract::fault::Fault { name, .. } in &contract::fault::FAULTS {
            let test = format!("reexecuted::{name}_stops_the_context");
            let program = std::env::current_exe().unwrap();
            let ran = Command::new(program).args(["--ignored", "--exact", &test]).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && said.contains("1 passed"), "{name}:\n{said}");
        }
    });
}

mod reexecuted {
    use super::*;

    fn fault(name: &str) {
        let fault = contract::fault::FAULTS.iter().find(|fault| fault.name == name).unwrap();
        let driver = frazil_cuda::driver().unwrap();
        // The context stays current: a pop would answer with the fault.
        let current = std::mem::ManuallyDrop::new(Current::new(driver));
        contract::fault::fault(&current.0, fault);
    }

    #[test]
    #[ignore = "run by a_fault_stops_the_context"]
    fn null_stops_the_context() {
        fault("null");
    }

    #[test]
    #[ignore = "run by a_fault_stops_the_context"]
    fn misaligned_stops_the_context() {
        fault("misaligned");
    }

    #[test]
    #[ignore = "run by a_fault_stops_the_context"]
    fn trap_stops_the_context() {
        fault("trap");
    }
}
