//! Memory of the device, as the calls see it.

use super::State;
use super::capture::Fate;
use super::code::{Code, Outcome};
use super::graph::Work;
use crate::MemoryInfo;

impl State {
    pub(super) fn mem_alloc(&mut self, bytes: u64) -> Outcome<u64> {
        self.unsafe_under_capture()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.machine.alloc(bytes).ok_or(Code::OUT_OF_MEMORY)
    }

    /// Frees an allocation by its first address; any other is an error.
    pub(super) fn mem_free(&mut self, address: u64) -> Outcome<()> {
        self.unsafe_under_capture()?;
        if self.machine.free(address) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    /// Whether bytes lie in one allocation. None lie anywhere.
    fn allocated(&self, address: u64, bytes: u64) -> Outcome<()> {
        let inside = |(base, size): (u64, u64)| address - base + bytes <= size;
        let fits = bytes == 0
            || self
                .machine
                .allocation(address)
                .is_some_and(|found| bytes <= found.1 && inside(found));
        if fits { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    /// The part of a copy before the wait for it. A copy that is captured needs no node: the wait
    /// breaks the capture.
    pub(super) fn copy_to_device(
        &mut self,
        address: u64,
        bytes: &[u8],
        stream: u64,
    ) -> Outcome<()> {
        self.allocated(address, bytes.len() as u64)?;
        let stream = self.stream(stream)?;
        if matches!(self.fate(stream)?, Fate::Run) && self.fault.is_none() {
            self.machine.write(address, bytes).map_err(|_| Code::INVALID_VALUE)?;
        }
        Ok(())
    }

    /// As [`State::copy_to_device`]. Bytes that nobody wrote hold 0xff.
    pub(super) fn copy_to_host(
        &mut self,
        bytes: &mut [u8],
        address: u64,
        stream: u64,
    ) -> Outcome<()> {
        self.allocated(address, bytes.len() as u64)?;
        let stream = self.stream(stream)?;
        if matches!(self.fate(stream)?, Fate::Run) && self.fault.is_none() {
            self.machine.read(address, bytes).map_err(|_| Code::INVALID_VALUE)?;
        }
        Ok(())
    }

    pub(super) fn fill(&mut self, address: u64, value: u8, bytes: u64, stream: u64) -> Outcome<()> {
        self.allocated(address, bytes)?;
        self.put(stream, Work::Fill { address, value, bytes })
    }

    /// What an address lies in; `None` where it is not in device memory.
    pub(super) fn pointer_attributes(&self, address: u64) -> Option<MemoryInfo> {
        let (base, bytes) = self.machine.allocation(address)?;
        Some(MemoryInfo { ordinal: Some(0), base, bytes })
    }
}
