//! The values that cross frazil, and the checks that stand between its stages.
//!
//! ```text
//!  declare        read         ask                    build          launch
//!  Graph   ──►  Facts  ──►  RegisteredEngine::ask ──► Plan::build ──► Executable::execute
//! ```
//!
//! Each stage takes a value that only the stage before can make. A decline ([`Unsupported`]) is an
//! answer; a fault ([`Error`]) is not a reason to ask the next engine. This crate makes no CUDA
//! call, and every check of a caller's input stands here, once, so that no engine repeats one.

#![deny(unsafe_code)]

mod bindings;
mod buffer;
mod compiled;
mod device;
mod dtype;
mod engine;
mod error;
mod error_word;
mod execute;
mod facts;
mod geometry;
mod graph;
mod invalid;
pub mod target;
mod tensor;
mod unsupported;
mod workspace;

pub use bindings::{BindingError, Bindings, MAX_BINDINGS, WorkspaceError};
pub use buffer::{Buffer, BufferError, HostBuffer};
pub use compiled::{Compiled, Origin, Resources};
pub use device::{Device, DeviceHandle, DeviceId, MemoryAt, Stream};
pub use dtype::{DType, Element};
pub use engine::{
    Candidate, Config, Engine, EngineId, EngineRegistration, Launch, Launches, Maturity,
    OWN_ENGINES, OverrideRules, ParseConfigError, ParseEngineIdError, Plan, PlanName,
    RegisteredEngine, StrideRule, Support,
};
pub use error::{BuildError, Error, NoEngine};
pub use error_word::ErrorWord;
pub use execute::{Call, Executable, View};
pub use facts::{
    Facts, Feature, FeatureSet, Port, Ports, Role, SdpaFwdFacts, SdpaFwdShape, SideFacts, SideShape,
};
pub use geometry::{Geometry, GeometryError, MAX_EXTENT, MAX_RANK};
pub use graph::{
    Align, Band, BlockMask, Dropout, Graph, GraphBuilder, LengthBounds, LseForm, Node, SdpaFwd,
    Sequences, Storage, alibi_slopes,
};
pub use invalid::InvalidGraph;
pub use target::{
    ComputeCapability, CudaProps, Cudnn, DeviceProps, HostProps, Nvrtc, Target, Toolchain, Version,
};
pub use tensor::{DEFAULT_ALIGN, TensorDesc, TensorId, TensorSpec};
pub use unsupported::Unsupported;
pub use workspace::{Layout, Region, WORKSPACE_ALIGN, Workspace};

/// For engine crates, which submit an [`EngineRegistration`] through it.
pub use inventory;
