//! Launches: what is asked for, what is refused, what comes back.

use crate::execute;
use crate::finding::Finding;
use crate::memory::Memory;
use crate::module::{Kernel, SharedLayout};

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster; they divide the grid.
    pub cluster: [u32; 3],
    /// Bytes of shared memory beside those that the kernel declares.
    pub dynamic_shared_bytes: u32,
    /// The kernel's parameters, each at its offset.
    pub params: &'a [u8],
    /// Decides every choice of the run: the order of blocks, warps and lanes, and when asynchronous copies are made: at
    /// once, at random or as late as waits allow, for remainders 0, 1 and 2 of the seed by 3.
    pub seed: u64,
    /// What ends the launch.
    pub limits: Limits,
}

/// What a launch may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions of warps, of all blocks together.
    pub instructions: u64,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks that run at once at most. A block that waits for one that does not run waits in vain.
    pub resident_blocks: u32,
    /// Bytes of a thread, where calls that call themselves leave no bound. Otherwise a thread has
    /// what its calls need.
    pub stack_bytes: u32,
    /// Different findings that are kept; more are not counted.
    pub findings: usize,
}

impl Default for Limits {
    /// Two thousand million instructions; the shared memory of an H100, 227 KiB; 8 blocks; 16 KiB; 1000 findings.
    fn default() -> Self {
        Self {
            instructions: 2_000_000_000,
            shared_bytes: 227 << 10,
            resident_blocks: 8,
            stack_bytes: 16 << 10,
            findings: 1000,
        }
    }
}

impl<'a> Launch<'a> {
    /// A launch without clusters and without dynamic shared memory, of seed 0.
    pub fn new(grid: [u32; 3], block: [u32; 3], params: &'a [u8]) -> Self {
        Self {
            grid,
            block,
            cluster: [1; 3],
            dynamic_shared_bytes: 0,
            params,
            seed: 0,
            limits: Limits::default(),
        }
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Errors of the program, in the order in which they were met first.
    pub findings: Vec<Finding>,
    /// Instructions of warps.
    pub warp_instructions: u64,
    /// Instructions of threads: those whose guard holds, of every warp.
    pub thread_instructions: u64,
}

/// Why a launch did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It could not begin.
    #[error(transparent)]
    Refused(#[from] LaunchError),
    /// It was ended by what it found. Memory is as it was left.
    #[error("{finding}")]
    Stopped {
        /// What ended it.
        finding: Box<Finding>,
        /// What it did until then, without `finding`.
        report: Box<Report>,
    },
}

/// Why a launch cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An extent is 0, or the grid is larger than `[2^31 - 1, 65535, 65535]`.
    #[error("a grid of {0:?} blocks")]
    Grid([u32; 3]),
    /// An extent is 0, or the block is larger than `[1024, 1024, 64]` or has more than 1024 threads.
    #[error("a block of {0:?} threads")]
    Block([u32; 3]),
    /// The block is not as the kernel's directives say.
    #[error("a block of {block:?} threads for a kernel that allows {allowed:?}")]
    Directive {
        /// Threads of a block.
        block: [u32; 3],
        /// `.reqntid`, or `.maxntid` whose product bounds the number of threads.
        allowed: [u32; 3],
    },
    /// The cluster has an extent of 0, more than 16 blocks, does not divide the grid, or is not as the kernel requires.
    #[error("a cluster of {0:?} blocks")]
    Cluster([u32; 3]),
    /// The number of bytes is not that of the kernel's parameters.
    #[error("{given} bytes of parameters for {expected}")]
    Parameters {
        /// Bytes given.
        given: usize,
        /// Bytes that the kernel takes.
        expected: u32,
    },
    /// More shared memory than a block may have.
    #[error("{needed} bytes of shared memory where {limit} are allowed")]
    SharedMemory {
        /// Bytes needed, those of the kernel included.
        needed: u64,
        /// Bytes allowed.
        limit: u32,
    },
}

pub(crate) fn run(
    kernel: Kernel<'_>,
    memory: &mut Memory,
    launch: &Launch<'_>,
) -> Result<Report, Fault> {
    check_extents(kernel, launch)?;
    let entry = kernel.entry;
    if launch.params.len() != entry.parameter_bytes as usize {
        let given = launch.params.len();
        return Err(LaunchError::Parameters { given, expected: entry.parameter_bytes }.into());
    }
    let layout = SharedLayout::new(entry, kernel.image.module().program());
    let needed = layout.end(launch.dynamic_shared_bytes) - u64::from(SharedLayout::BEGIN);
    if needed > u64::from(launch.limits.shared_bytes) {
        let limit = launch.limits.shared_bytes;
        return Err(LaunchError::SharedMemory { needed, limit }.into());
    }
    execute::run(kernel, memory, launch, &layout)
}

fn check_extents(kernel: Kernel<'_>, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let Launch { grid, block, cluster, .. } = *launch;
    let within = |extents: [u32; 3], limits: [u32; 3]| {
        extents.iter().zip(limits).all(|(extent, limit)| (1..=limit).contains(extent))
    };
    let count = |extents: [u32; 3]| extents.map(u64::from).iter().product::<u64>();
    if !within(grid, [(1 << 31) - 1, 65_535, 65_535]) {
        return Err(LaunchError::Grid(grid));
    }
    if !within(block, [1024, 1024, 64]) || count(block) > 1024 {
        return Err(LaunchError::Block(block));
    }
    if let Some(allowed) = kernel.entry.required_threads
        && allowed != block
    {
        return Err(LaunchError::Directive { block, allowed });
    }
    // Only the product bounds a block (PTX ISA 11.4.2).
    if let Some(allowed) = kernel.entry.max_threads
        && count(block) > count(allowed)
    {
        return Err(LaunchError::Directive { block, allowed });
    }
    let divides = grid.iter().zip(cluster).all(|(grid, cluster)| grid % cluster.max(1) == 0);
    let as_required = kernel.entry.required_cluster.is_none_or(|required| required == cluster);
    if !within(cluster, [16; 3]) || count(cluster) > 16 || !divides || !as_required {
        return Err(LaunchError::Cluster(cluster));
    }
    Ok(())
}
