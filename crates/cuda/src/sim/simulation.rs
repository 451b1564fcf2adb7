//! Simulated devices, and what only they can say.

use std::fmt;
use std::sync::Arc;

use frazil_core::{Device, DeviceProps, Target, Version};

use frazil_ptx_sim::{Finding, LoadError};

use super::{Misuse, SimulatedDriver};
use crate::{CudaDevice, Driver, OpenError};

/// An error of a kernel, where it happened first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFinding {
    /// The kernel's symbol.
    pub kernel: String,
    /// What the simulator saw.
    pub finding: Finding,
}

impl fmt::Display for KernelFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.finding)
    }
}

/// Why a target cannot be simulated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSimulated {
    /// It is no CUDA GPU.
    #[error("{0} is not simulated: only CUDA GPUs are")]
    NotCuda(DeviceProps),
    /// It has no driver.
    #[error("a target without a driver cannot be simulated, since drivers are what is simulated")]
    NoDriver,
    /// The simulated driver was asked and failed.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// A GPU of that target, simulated. Every call makes another one, with memory and modules of its
/// own, named `sim:0`, `sim:1`, ….
///
/// Driver version and compiler are the target's: put `toolchain.nvrtc` there as it was found, or as
/// a test wants it to be. A device has no cuDNN.
///
/// # Errors
///
/// [`NotSimulated`] for a target that is no CUDA GPU, or has no driver.
pub fn simulated(target: &Target) -> Result<Device, NotSimulated> {
    let DeviceProps::Cuda(props) = &target.device else {
        return Err(NotSimulated::NotCuda(target.device.clone()));
    };
    let version: Version = target.toolchain.driver.ok_or(NotSimulated::NoDriver)?;
    let driver = Arc::new(SimulatedDriver::new(props.clone(), version).into());
    Ok(Device::new(CudaDevice::open(driver, 0, target.toolchain.nvrtc.clone())?))
}

/// What a simulated GPU has seen, and how it runs what comes.
///
/// Nothing of this is of the driver's calls: engines cannot reach it without saying so.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'d>(&'d SimulatedDriver);

impl<'d> Simulation<'d> {
    /// That of a device; `None` where it is not simulated.
    pub fn of(device: &'d Device) -> Option<Self> {
        Self::of_driver(CudaDevice::of(device).ok()?.driver())
    }

    /// That of a driver; `None` where it is not simulated.
    pub fn of_driver(driver: &'d Driver) -> Option<Self> {
        match driver {
            Driver::Real(_) => None,
            Driver::Simulated(simulated) => Some(Self(simulated)),
        }
    }

    /// Uses of the driver that it leaves undefined, in order.
    pub fn misuses(self) -> Vec<Misuse> {
        self.0.state().misuses.clone()
    }

    /// Errors of kernels, launch by launch, those that ended one included. A test that asserts that
    /// there are none asserts what a GPU would not have told it.
    pub fn findings(self) -> Vec<KernelFinding> {
        self.0.state().machine.findings.clone()
    }

    /// Why modules were refused whose text the simulator does not read: instructions without a model
    /// are named.
    pub fn load_errors(self) -> Vec<LoadError> {
        self.0.state().machine.load_errors.clone()
    }

    /// Forgets misuses, findings and load errors.
    pub fn forget(self) {
        let mut state = self.0.state();
        state.misuses.clear();
        state.machine.findings.clear();
        state.machine.load_errors.clear();
    }

    /// Instructions of warps of all launches so far.
    pub fn warp_instructions(self) -> u64 {
        self.0.state().machine.instructions
    }

    /// Seed of the next launch, 0 at first; launches after it count up from there. A seed decides
    /// every order that a GPU leaves open.
    pub fn set_seed(self, seed: u64) {
        self.0.state().machine.seed = seed;
    }

    /// Instructions of warps that one launch may take; more end it as a timeout.
    pub fn set_instruction_limit(self, warp_instructions: u64) {
        self.0.state().machine.set_instruction_limit(warp_instructions);
    }
}
