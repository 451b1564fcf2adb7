//! The one door to the CUDA driver and NVRTC.
//!
//! Nothing here is linked against CUDA: the driver's library and the compiler are opened at run
//! time, each symbol by its exact name, so that a build needs no toolkit, a machine without a GPU
//! gets a typed answer, and a symbol that an old driver lacks is an error instead of a panic.

mod artifact;
mod cache;
mod driver;

pub use artifact::{Artifact, Key, Resources};
pub use cache::{DiskCache, Distrust, Lookup, NoFolder, Refusal, StoreError, StoreStep, Untrusted};
pub use driver::{
    CaptureMode, CaptureStatus, ContextHandle, DeviceAttribute, DriverCalls, DriverError,
    EventHandle, FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle, GraphNode,
    ImageKind, L2Promotion, LaunchShape, MemoryInfo, ModuleHandle, NodeKind, Swizzle, TensorMap,
    TensorMapElement, TensorMapSpec,
};
