//! Structures of `cuda.h` as the driver reads them, sizes and offsets checked at compile time.
//!
//! Pointers and handles are `u64`: drivers exist for 64-bit hosts alone. Sizes and offsets are those
//! that a C compiler gives for the headers of CUDA 12.0 to 13.5.

use std::mem::offset_of;

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct LaunchConfig {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_smem_bytes: u32,
    pub(super) stream: u64,
    pub(super) attributes: *const LaunchAttribute,
    pub(super) num_attributes: u32,
}

const _: () = {
    assert!(size_of::<*const ()>() == 8);
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(offset_of!(LaunchConfig, block) == 12);
    assert!(offset_of!(LaunchConfig, dynamic_smem_bytes) == 24);
    assert!(offset_of!(LaunchConfig, stream) == 32);
    assert!(offset_of!(LaunchConfig, attributes) == 40);
    assert!(offset_of!(LaunchConfig, num_attributes) == 48);
};

/// `CUlaunchAttribute`. Its union has 64 bytes in every version; of its members those used here
/// are `clusterDim` (three numbers) and `programmaticStreamSerializationAllowed` (one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct LaunchAttribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

const _: () = {
    assert!(size_of::<LaunchAttribute>() == 72);
    assert!(offset_of!(LaunchAttribute, value) == 8);
};

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_IGNORE`.
    pub(super) const IGNORE: Self = Self::new(0, [0; 3]);

    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
    pub(crate) const fn cluster(blocks: [u32; 3]) -> Self {
        Self::new(4, blocks)
    }

    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed.
    pub(crate) const fn programmatic() -> Self {
        Self::new(6, [1, 0, 0])
    }

    const fn new(id: u32, [x, y, z]: [u32; 3]) -> Self {
        Self { id, pad: 0, value: [x, y, z, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }
    }
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Default)]
#[repr(C)]
pub(super) struct KernelNodeParams {
    pub(super) function: u64,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_smem_bytes: u32,
    pub(super) params: u64,
    pub(super) extra: u64,
    /// A `CUkernel`, where the function is null.
    pub(super) kernel: u64,
    pub(super) context: u64,
}

const _: () = {
    assert!(size_of::<KernelNodeParams>() == 72);
    assert!(offset_of!(KernelNodeParams, grid) == 8);
    assert!(offset_of!(KernelNodeParams, block) == 20);
    assert!(offset_of!(KernelNodeParams, dynamic_smem_bytes) == 32);
    assert!(offset_of!(KernelNodeParams, params) == 40);
    assert!(offset_of!(KernelNodeParams, kernel) == 56);
    assert!(offset_of!(KernelNodeParams, context) == 64);
};

/// `CUgraphEdgeData`, read by nobody here.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct GraphEdgeData([u8; 8]);
