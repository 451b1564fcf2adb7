//! Scratch memory: one layout both sizes and carves it.

use crate::{Buffer, Device, DeviceId, Error, WorkspaceError};

/// Alignment of every workspace and of every region in it, in bytes.
pub const WORKSPACE_ALIGN: u64 = 256;

/// Regions of a workspace. Sizes only grow, so the layout of a plan holds for every execute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    regions: Vec<(&'static str, Region)>,
    bytes: u64,
}

/// A part of a workspace, found again at execute by [`Call::region`](crate::Call::region).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    offset: u64,
    bytes: u64,
}

impl Region {
    /// From the start of the workspace, in bytes; a multiple of [`WORKSPACE_ALIGN`].
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Size, in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

impl Layout {
    /// A workspace of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region. A total past `u64` saturates, and no buffer then is large enough.
    pub fn region(&mut self, name: &'static str, bytes: u64) -> Region {
        let offset = self.bytes;
        let region = Region { offset, bytes };
        let end = offset.saturating_add(bytes);
        self.bytes = end.checked_next_multiple_of(WORKSPACE_ALIGN).unwrap_or(u64::MAX);
        self.regions.push((name, region));
        region
    }

    /// Size of the whole, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Name and place of every region.
    pub fn regions(&self) -> impl ExactSizeIterator<Item = (&'static str, Region)> {
        self.regions.iter().copied()
    }
}

/// Scratch memory handed to one execute: undefined before, free after the work.
#[derive(Debug)]
pub struct Workspace<'a> {
    pub(crate) buffer: Buffer<'a>,
}

impl<'a> Workspace<'a> {
    /// Scratch in a buffer that may be written, aligned to [`WORKSPACE_ALIGN`].
    pub fn new(buffer: Buffer<'a>) -> Self {
        Self { buffer }
    }

    /// As [`Bindings::verify`](crate::Bindings::verify), for the scratch memory.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Buffer`]; [`Error::Driver`] where the device cannot be asked.
    pub fn verify(&self, device: &Device) -> Result<(), Error> {
        Ok(self.buffer.verify(device)?.map_err(WorkspaceError::Buffer)?)
    }

    /// No scratch on that device, for plans that need none.
    pub fn empty(device: DeviceId) -> Self {
        Self { buffer: Buffer::empty(device) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_aligned_and_disjoint() {
        let mut layout = Layout::new();
        let regions = [1, 0, 256, 300].map(|bytes| layout.region("part", bytes));
        assert_eq!(regions.map(Region::offset), [0, 256, 256, 512]);
        assert_eq!(layout.bytes(), 1024);
    }

    #[test]
    fn a_huge_layout_saturates() {
        let mut layout = Layout::new();
        layout.region("huge", u64::MAX - 1);
        layout.region("more", 10);
        assert_eq!(layout.bytes(), u64::MAX);
    }
}
