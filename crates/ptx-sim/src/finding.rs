//! What a run found: errors of the program that it ran, as values.

use std::fmt;

use crate::program::Place;
use crate::types::Space;

/// An error of the program, where it happened first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What happened.
    pub kind: FindingKind,
    /// The instruction.
    pub place: Place,
    /// The first thread that it happened to.
    pub thread: Thread,
    /// How often it happened, over all threads.
    pub occurrences: u64,
}

/// A thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Thread {
    /// Index of its block in the grid, `x` first.
    pub block: [u32; 3],
    /// Index in its block, `x` first.
    pub thread: [u32; 3],
}

/// Kinds of errors. Those that `ends_the_launch` names end it, as they do on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// An access outside of every allocation, or of the space's extent.
    OutOfBounds {
        /// The space of the access; generic where the address falls into none.
        space: Space,
        /// The address, in that space.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// An access that is not aligned to its size.
    Misaligned {
        /// The space of the access.
        space: Space,
        /// The address, in that space.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// A write to constants or to the parameters of a kernel.
    ReadOnly {
        /// The space of the access.
        space: Space,
        /// The address, in that space.
        address: u64,
    },
    /// A read of bytes that nobody wrote.
    Unwritten {
        /// The space of the access.
        space: Space,
        /// Address of the first such byte, in that space.
        address: u64,
    },
    /// Two accesses of shared memory by different warps of a block, at least one of them a write, that no
    /// barrier orders; or by two lanes of a warp, which no barrier of the block or of the warp orders.
    SharedRace {
        /// Address of the first byte, in the shared space.
        address: u64,
        /// The earlier access.
        earlier: Place,
        /// Whether the earlier access wrote, and whether the later one did.
        writes: [bool; 2],
    },
    /// An access of shared memory that an asynchronous copy writes, before the thread that began the copy has
    /// waited for it.
    CopyUnderWay {
        /// Address of the first byte, in the shared space.
        address: u64,
        /// The copy.
        copy: Place,
        /// Whether the access writes.
        writes: bool,
    },
    /// A write to global memory that an asynchronous copy of the same block reads, before the thread that began the
    /// copy has waited for it.
    CopySource {
        /// Address of the first byte of the write, in the global space.
        address: u64,
        /// The copy.
        copy: Place,
    },
    /// An asynchronous copy that is to read more bytes than it writes.
    CopySize {
        /// Bytes to read.
        read: u32,
        /// Bytes that it writes.
        bytes: u32,
    },
    /// Threads wait for others of their warp, which cannot come.
    Divergence {
        /// Lanes that wait.
        waiting: u32,
        /// Lanes that they wait for.
        missing: u32,
        /// Where one of the missing lanes stands.
        stands_at: Place,
    },
    /// Threads execute an instruction that needs a warp of 32, some of which have exited or never were.
    PartialWarp {
        /// Lanes that are not there.
        missing: u32,
    },
    /// Threads execute an instruction whose mask of members leaves them out.
    NotMember {
        /// Lanes that execute it and are not members.
        lanes: u32,
    },
    /// A shuffle reads a lane that does not take part.
    InactiveLane {
        /// The lane that was read.
        lane: u32,
    },
    /// Every warp waits, and nothing that could wake one is left.
    Deadlock {
        /// The barrier that warps wait at, with how many threads came and how many were to come.
        barrier: u32,
        /// Threads that came.
        arrived: u32,
        /// Threads that were to come.
        expected: u32,
    },
    /// A barrier's operands contradict each other or those of other warps.
    Barrier {
        /// Number of the barrier.
        barrier: u64,
        /// The contradiction.
        why: &'static str,
    },
    /// `trap`.
    Trap,
    /// A failed `assert`.
    Assertion {
        /// The condition as written.
        message: String,
        /// File of the source.
        file: String,
        /// Line of the source.
        line: u32,
    },
    /// An index of `brx.idx` outside of its list.
    BranchIndex {
        /// The index.
        index: u32,
        /// Targets in the list.
        targets: u32,
    },
    /// Calls nest too deeply for the memory of a thread.
    StackOverflow {
        /// Bytes that a thread has.
        limit: u32,
    },
    /// More instructions than the launch allows.
    Budget {
        /// Instructions of warps that were allowed.
        limit: u64,
    },
}

impl FindingKind {
    /// Whether the launch ends here. What does not end it is reported, and the run goes on.
    pub fn ends_the_launch(&self) -> bool {
        !matches!(
            self,
            Self::Unwritten { .. }
                | Self::SharedRace { .. }
                | Self::CopyUnderWay { .. }
                | Self::CopySource { .. }
                | Self::CopySize { .. }
                | Self::InactiveLane { .. }
        )
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { space, address, bytes } => {
                write!(f, "{bytes} bytes at {space} address {address:#x} are out of bounds")
            }
            Self::Misaligned { space, address, bytes } => {
                write!(f, "{space} address {address:#x} is not aligned to {bytes} bytes")
            }
            Self::ReadOnly { space, address } => {
                write!(f, "a write to {space} address {address:#x}, which is only read")
            }
            Self::Unwritten { space, address } => {
                write!(f, "nobody wrote the byte at {space} address {address:#x} that is read")
            }
            Self::SharedRace { address, earlier, writes } => {
                let name = |write| if write { "write" } else { "read" };
                let [first, second] = writes.map(name);
                write!(
                    f,
                    "a {second} of shared address {address:#x} races with a {first}, {earlier}"
                )
            }
            Self::CopyUnderWay { address, copy, writes } => {
                let access = if *writes { "write" } else { "read" };
                write!(
                    f,
                    "a {access} of shared address {address:#x} while a copy into it is under "
                )?;
                write!(f, "way, {copy}: the thread of the copy has not waited for it")
            }
            Self::CopySource { address, copy } => {
                write!(f, "a write to global address {address:#x} while a copy from it is under ")?;
                write!(f, "way, {copy}: the thread of the copy has not waited for it")
            }
            Self::CopySize { read, bytes } => {
                write!(f, "a copy of {bytes} bytes is to read {read}")
            }
            Self::Divergence { waiting, missing, stands_at } => {
                write!(f, "lanes {waiting:#010x} wait for lanes {missing:#010x}, ")?;
                write!(f, "of which one stands at {stands_at}")
            }
            Self::PartialWarp { missing } => {
                write!(f, "lanes {missing:#010x} of the warp are not there, and all are needed")
            }
            Self::NotMember { lanes } => {
                write!(f, "lanes {lanes:#010x} are not in the mask of members")
            }
            Self::InactiveLane { lane } => write!(f, "lane {lane} is read and does not take part"),
            Self::Deadlock { barrier, arrived, expected } => {
                write!(f, "deadlock at barrier {barrier}: {arrived} of {expected} threads came")
            }
            Self::Barrier { barrier, why } => write!(f, "barrier {barrier}: {why}"),
            Self::Trap => f.write_str("trap"),
            Self::Assertion { message, file, line } => {
                write!(f, "assertion `{message}` failed, {file}:{line}")
            }
            Self::BranchIndex { index, targets } => {
                write!(f, "branch {index} of {targets}")
            }
            Self::StackOverflow { limit } => {
                write!(f, "calls need more than the {limit} bytes of a thread")
            }
            Self::Budget { limit } => write!(f, "more than {limit} instructions of warps"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Thread { block, thread } = self.thread;
        write!(f, "{}: {}; thread {thread:?} of block {block:?}", self.place, self.kind)?;
        if self.occurrences > 1 {
            write!(f, ", {} times in all", self.occurrences)?;
        }
        Ok(())
    }
}
