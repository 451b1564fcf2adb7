//! What compiling a plan has made.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A kernel that a plan needs, compiled: made now, or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its symbol, as [`Launches`](crate::Launches) names it.
    pub kernel: Cow<'static, str>,
    /// What it is compiled for: `sm_90a`.
    pub target: String,
    /// Names the artifact among all: two plans with one key share it.
    pub key: String,
    /// Where it came from.
    pub origin: Origin,
    /// How long that took.
    pub took: Duration,
    /// Size of its image, in bytes.
    pub image_bytes: u64,
    /// What a thread and a block of it take, where the compiler says it.
    pub resources: Option<Resources>,
}

/// Where an artifact came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The compiler, now.
    Compiled,
    /// The cache on disk: an earlier process compiled it.
    Disk,
    /// This process, which had it already.
    Memory,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Compiled => "compiled",
            Self::Disk => "disk",
            Self::Memory => "memory",
        })
    }
}

/// What a kernel takes, as `ptxas` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread's stack frame.
    pub stack_bytes: u32,
    /// Bytes of registers that a thread stores to local memory.
    pub spill_store_bytes: u32,
    /// Bytes of registers that a thread loads back.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory of a block.
    pub static_smem_bytes: u32,
}
