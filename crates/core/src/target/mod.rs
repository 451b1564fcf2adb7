//! What a plan is made for: a device and the tools at hand. Plain values; no driver is asked here.

pub mod fixtures;

use std::fmt;
use std::path::PathBuf;

/// A device and the tools that can make kernels for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The device.
    pub device: DeviceProps,
    /// Driver, compiler and libraries, each where it was found.
    pub toolchain: Toolchain,
}

/// A kind of device, with the numbers that decide what runs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceProps {
    /// This computer's processor.
    Host(HostProps),
    /// A CUDA GPU.
    Cuda(CudaProps),
}

/// The host processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProps {
    /// Threads that may work on one execute.
    pub num_threads: u32,
}

/// A CUDA GPU, as the driver's device attributes describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaProps {
    /// Product name.
    pub name: String,
    /// Compute capability.
    pub compute_capability: ComputeCapability,
    /// Streaming multiprocessors.
    pub num_sms: u32,
    /// Shared memory that one block may opt in to, in bytes.
    pub smem_per_block_bytes: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub smem_per_sm_bytes: u32,
    /// Second-level cache, in bytes.
    pub l2_bytes: u64,
}

/// Compute capability of a GPU: `9.0` is written `sm_90`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// Before the dot.
    pub major: u32,
    /// After the dot.
    pub minor: u32,
}

impl ComputeCapability {
    /// `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Version of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl Version {
    /// `major.minor.patch`.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Tools found at hand; `None` where one is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// CUDA version of the driver.
    pub driver: Option<Version>,
    /// The run-time compiler.
    pub nvrtc: Option<Nvrtc>,
    /// NVIDIA's deep learning library.
    pub cudnn: Option<Cudnn>,
}

/// The run-time compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvrtc {
    /// Its version.
    pub version: Version,
    /// Targets it compiles for: `sm_80`, `sm_90a`, ….
    pub targets: Vec<String>,
}

/// NVIDIA's deep learning library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cudnn {
    /// Its version.
    pub version: Version,
    /// The file that was opened.
    pub path: PathBuf,
}

impl Target {
    /// This computer's processor with as many threads as the system grants.
    pub fn host() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let num_threads = u32::try_from(threads).unwrap_or(u32::MAX);
        Self {
            device: DeviceProps::Host(HostProps { num_threads }),
            toolchain: Toolchain::default(),
        }
    }
}

/// `host, 2 threads` or `NVIDIA H200 (compute capability 9.0)`.
impl fmt::Display for DeviceProps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => {
                let plural = if host.num_threads == 1 { "" } else { "s" };
                write!(f, "host, {} thread{plural}", host.num_threads)
            }
            Self::Cuda(cuda) => {
                write!(f, "{} (compute capability {})", cuda.name, cuda.compute_capability)
            }
        }
    }
}
