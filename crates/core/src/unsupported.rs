//! Why an engine says no.

use crate::{ComputeCapability, DType, Feature, Version};

/// Why an engine does not serve some facts on a target.
///
/// An answer, not a fault: the router reads it, asks the next engine and keeps every reason. Tests
/// match variants, never text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The graph uses a feature that the engine does not name.
    #[error("feature {0}")]
    Feature(Feature),
    /// The engine serves other operations.
    #[error("operation {found}")]
    Operation {
        /// Name of the operation asked for.
        found: &'static str,
    },
    /// The engine runs on another kind of device.
    #[error("{found}, need {need}")]
    Device {
        /// The device asked about.
        found: String,
        /// The kind that is served.
        need: &'static str,
    },
    /// The GPU is older or newer than the kernels.
    #[error("compute capability {found}, need {least} to {most}")]
    ComputeCapability {
        /// Of the GPU.
        found: ComputeCapability,
        /// Oldest served.
        least: ComputeCapability,
        /// Newest served.
        most: ComputeCapability,
    },
    /// No kernel takes this type in this place.
    #[error("`{tensor}` is {found}, served: {served}")]
    DType {
        /// Role of the tensor.
        tensor: &'static str,
        /// Its type.
        found: DType,
        /// The types that are.
        served: &'static str,
    },
    /// An extent outside what the kernels cover.
    #[error("{dim} = {found}, served: {served}")]
    Dim {
        /// Name of the extent.
        dim: &'static str,
        /// Its value.
        found: u64,
        /// The values that are.
        served: &'static str,
    },
    /// A number outside what the kernels cover.
    #[error("{what} = {found}, served: {served}")]
    Value {
        /// Name of the number.
        what: &'static str,
        /// Its value.
        found: f32,
        /// The values that are.
        served: &'static str,
    },
    /// A stride that the kernels cannot address without copying.
    #[error("`{tensor}` has stride {found} on axis {axis}, served: {served}")]
    Stride {
        /// Role of the tensor.
        tensor: &'static str,
        /// Position of the axis.
        axis: usize,
        /// The stride, in elements.
        found: u64,
        /// The strides that are.
        served: &'static str,
    },
    /// A promised alignment below what the kernels need.
    #[error("`{tensor}` is aligned to {found} bytes, need {need}")]
    Alignment {
        /// Role of the tensor.
        tensor: &'static str,
        /// The alignment declared, in bytes.
        found: u32,
        /// The alignment needed, in bytes.
        need: u32,
    },
    /// The smallest tile does not fit a block's shared memory.
    #[error("needs {need} bytes of shared memory a block, the device has {found}")]
    SharedMemory {
        /// Bytes of the device.
        found: u32,
        /// Bytes of the smallest tile.
        need: u32,
    },
    /// A tool is absent or too old.
    #[error("{what} {}, need {need}", found.map_or("not found".into(), |v| v.to_string()))]
    Toolchain {
        /// Name of the tool.
        what: &'static str,
        /// Its version, where it was found.
        found: Option<Version>,
        /// The version, or the property, needed.
        need: String,
    },
    /// The graph is marked as overridable and no config of the engine takes other extents and
    /// strides at execute.
    #[error("takes no other extents and strides at execute")]
    Overrides,
    /// Every plan needs more scratch than the caller allows.
    #[error("needs {found} bytes of workspace, the limit set is {limit}")]
    WorkspaceLimit {
        /// Bytes of the smallest plan.
        found: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A library that plans for itself refused.
    #[error("{library}: {reason}")]
    Foreign {
        /// Name of the library.
        library: &'static str,
        /// Its own words.
        reason: String,
    },
}

impl Unsupported {
    /// Name of the variant, used in case files and counts.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Feature(_) => "Feature",
            Self::Operation { .. } => "Operation",
            Self::Device { .. } => "Device",
            Self::ComputeCapability { .. } => "ComputeCapability",
            Self::DType { .. } => "DType",
            Self::Dim { .. } => "Dim",
            Self::Value { .. } => "Value",
            Self::Stride { .. } => "Stride",
            Self::Alignment { .. } => "Alignment",
            Self::SharedMemory { .. } => "SharedMemory",
            Self::Toolchain { .. } => "Toolchain",
            Self::Overrides => "Overrides",
            Self::WorkspaceLimit { .. } => "WorkspaceLimit",
            Self::Foreign { .. } => "Foreign",
        }
    }
}
