//! Device memory, streams, events and graphs as values, for those who have no allocator of their
//! own: tests, benches, the command line. Engines use none of it, since they own no device memory.
//!
//! Everything waits: a transfer and a free come after all work of the device, so that whoever holds
//! a value may use it at any time.

mod graph;
mod memory;
mod stream;

pub use graph::{Capture, Graph, GraphExec};
pub use memory::{DeviceMemory, TransferError};
pub(crate) use stream::IdleStreams;
pub use stream::{Event, OwnedStream};

#[cfg(test)]
mod tests;
