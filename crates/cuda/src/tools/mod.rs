//! Device memory, streams, events and graphs as values, for those who have no allocator of their
//! own: tests, benches, the command line. Engines use none of it, since they own no device memory.
//!
//! Everything waits: a transfer and a free come after all work that was queued on streams made here,
//! so that whoever holds a value may use it at any time. What was queued on a stream of other origin
//! is waited for by whoever queued it, and by the driver's own free.
//!
//! Nothing here breaks a capture, of whichever thread and mode, and no wait is for captured work.

mod graph;
mod memory;
mod stream;

pub use graph::{Capture, Graph, GraphExec};
pub use memory::{DeviceMemory, TransferError};
pub(crate) use stream::Streams;
pub use stream::{Event, OwnedStream};

#[cfg(test)]
mod tests;
