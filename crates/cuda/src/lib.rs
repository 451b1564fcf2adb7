//! The one door to the CUDA driver and NVRTC.
//!
//! Nothing here is linked against CUDA: the driver's library and the compiler are opened at run
//! time, each symbol by its exact name, so that a build needs no toolkit, a machine without a GPU
//! gets a typed answer, and a symbol that an old driver lacks is an error instead of a panic.

mod artifact;
mod artifacts;
mod band;
mod cache;
mod capture;
pub mod combine;
pub mod compile;
mod context;
mod device;
mod divide;
mod driver;
pub mod find;
#[cfg(feature = "cudarc")]
pub mod interop;
mod loader;
mod module;
pub mod nvrtc;
pub mod sdpa_fwd;
pub mod seqlens;
#[cfg(feature = "sim")]
pub mod sim;
pub mod sources;
mod tensor_map;
pub mod tools;
pub mod work_list;

pub use artifact::{Artifact, Key};
pub use artifacts::{Artifacts, Counts, Fetched, artifacts};
pub use cache::{DiskCache, Distrust, Lookup, NoFolder, Refusal, StoreError, StoreStep, Untrusted};
pub use capture::RelaxedCapture;
pub use context::{Current, Queue};
pub use device::{CudaDevice, OpenError, device, devices, driver};
pub use divide::Divisor;
pub use driver::{
    CaptureMode, CaptureStatus, ContextHandle, DeviceAttribute, Driver, DriverCalls, DriverError,
    EventHandle, FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle, GraphNode,
    ImageKind, L2Promotion, LaunchShape, MemoryInfo, ModuleHandle, NoDriver, NodeKind,
    OLDEST_DRIVER, RealDriver, Swizzle, TensorMap, TensorMapElement, TensorMapSpec,
};
pub use frazil_core::Resources;
pub use module::{Kernel, KernelResources, LoadError};
#[cfg(feature = "sim")]
pub use sim::simulated;
pub use tensor_map::TensorMapError;
