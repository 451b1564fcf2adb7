//! What calls take and give.

/// What a driver loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// Machine code for one target.
    Cubin,
    /// PTX text for one target.
    Ptx,
}

/// Attributes of a device: `CUdevice_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum DeviceAttribute {
    /// Streaming multiprocessors.
    MultiprocessorCount = 16,
    /// Bytes of the second-level cache.
    L2CacheSize = 38,
    /// Compute capability, before the dot.
    ComputeCapabilityMajor = 75,
    /// Compute capability, after the dot.
    ComputeCapabilityMinor = 76,
    /// Bytes of shared memory of one multiprocessor.
    MaxSharedMemoryPerMultiprocessor = 81,
    /// Bytes of shared memory that a block may opt in to.
    MaxSharedMemoryPerBlockOptin = 97,
}

/// Attributes of a function: `CUfunction_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum FunctionAttribute {
    /// Threads that one block of it may have.
    MaxThreadsPerBlock = 0,
    /// Bytes of static shared memory.
    SharedSizeBytes = 1,
    /// Bytes of local memory of a thread.
    LocalSizeBytes = 3,
    /// Registers of a thread.
    NumRegs = 4,
    /// Bytes of dynamic shared memory that a launch may ask for; may be set.
    MaxDynamicSharedSizeBytes = 8,
}

/// How far a capture forbids what could break it: `CUstreamCaptureMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CaptureMode {
    /// Unsafe calls of every thread.
    Global = 0,
    /// Unsafe calls of the capturing thread.
    ThreadLocal = 1,
    /// Nothing but calls on the capturing stream itself.
    Relaxed = 2,
}

/// State of a stream: `CUstreamCaptureStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// Not capturing.
    None,
    /// Capturing.
    Active,
    /// A capture that something forbidden has broken, and that was not ended yet.
    Invalidated,
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along x, y and z; at least 1 each.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y and z; `[1, 1, 1]` where there are no clusters.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_smem_bytes: u32,
    /// Whether it may start before the kernel queued before it is done
    /// (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`); it then waits by
    /// `griddepcontrol.wait`.
    pub programmatic: bool,
}

/// An allocation as the driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Ordinal of the device whose memory it is; `None` for host memory.
    pub ordinal: Option<i32>,
    /// First address.
    pub base: u64,
    /// Size, in bytes.
    pub bytes: u64,
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// What it does.
    pub kind: NodeKind,
    /// Symbol of the kernel, where it is one.
    pub kernel: Option<String>,
}

/// Kinds of nodes: `CUgraphNodeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// A launch.
    Kernel,
    /// A copy.
    Memcpy,
    /// A fill.
    Memset,
    /// A call of the host.
    Host,
    /// Another graph.
    ChildGraph,
    /// Nothing; holds dependencies.
    Empty,
    /// An allocation.
    MemAlloc,
    /// The end of an allocation.
    MemFree,
    /// Another kind, by its number.
    Other(i32),
}

impl NodeKind {
    pub(super) fn from_raw(kind: i32) -> Self {
        match kind {
            0 => Self::Kernel,
            1 => Self::Memcpy,
            2 => Self::Memset,
            3 => Self::Host,
            4 => Self::ChildGraph,
            5 => Self::Empty,
            10 => Self::MemAlloc,
            11 => Self::MemFree,
            other => Self::Other(other),
        }
    }
}
