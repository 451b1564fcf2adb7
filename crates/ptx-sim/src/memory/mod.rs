//! The memory of a simulated device.

mod bytes;
pub(crate) mod windows;

pub(crate) use bytes::TrackedBytes;

/// Where the first allocation lies: far from the windows of other spaces, and far from null.
const FIRST_ADDRESS: u64 = 0x7000_0000_0000;
/// No address reaches this one; those of GPUs have 49 bits at most.
const END_ADDRESS: u64 = 1 << 48;
/// Bytes after an allocation in which no other lies, so that an access past its end is found.
const GUARD_BYTES: u64 = 4096;
/// What `cuMemAlloc` aligns to at least.
pub(crate) const ALLOCATION_ALIGN: u64 = 256;

/// Device memory: allocations at addresses that are never used twice.
///
/// Every byte knows whether it was written, by a thread, by the host or by a fill. Allocations stand apart, so that
/// an address past the end of one falls into none. The addresses of a sequence of calls are always the same.
///
/// ```
/// use frazil_ptx_sim::Memory;
///
/// let mut memory = Memory::new(1 << 20);
/// let address = memory.alloc(64, 16)?;
/// memory.write(address, &[1, 2, 3])?;
/// let mut bytes = [0; 3];
/// memory.read(address, &mut bytes)?;
/// assert_eq!(bytes, [1, 2, 3]);
/// assert_eq!(memory.first_unwritten(address, 64)?, Some(address + 3));
/// memory.free(address)?;
/// assert!(memory.read(address, &mut bytes).is_err());
/// # Ok::<(), frazil_ptx_sim::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct Memory {
    /// In order of their addresses.
    allocations: Vec<Allocated>,
    next_address: u64,
    capacity: u64,
    used: u64,
}

#[derive(Debug)]
pub(crate) struct Allocated {
    pub(crate) base: u64,
    pub(crate) is_constant: bool,
    pub(crate) bytes: TrackedBytes,
}

/// An allocation, as its owner asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allocation {
    /// Its first address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why memory was not given, found or reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The device has not so many bytes left.
    #[error("{bytes} bytes are more than the {free} that are free")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// An alignment that is no power of two.
    #[error("an alignment of {0} is no power of two")]
    Alignment(u64),
    /// No allocation holds all of the range.
    #[error("{bytes} bytes at {address:#x} lie in no allocation")]
    OutOfBounds {
        /// First address of the range.
        address: u64,
        /// Bytes of the range.
        bytes: u64,
    },
    /// No allocation begins at this address.
    #[error("no allocation begins at {0:#x}")]
    NotAllocated(u64),
}

impl Memory {
    /// An empty memory that gives at most `capacity` bytes. They take room on the host as they are
    /// touched.
    pub fn new(capacity: u64) -> Self {
        Self { allocations: Vec::new(), next_address: FIRST_ADDRESS, capacity, used: 0 }
    }

    /// As `new`, with addresses from that one on, so that those of several devices differ. Addresses
    /// below 2^46 are for what is not memory of a device.
    pub fn beginning_at(first_address: u64, capacity: u64) -> Self {
        Self { next_address: first_address, ..Self::new(capacity) }
    }

    /// Bytes that nobody wrote yet, aligned to `align` and to 256 at least. An allocation of no bytes
    /// has an address of its own.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfMemory` past the capacity; `MemoryError::Alignment`.
    pub fn alloc(&mut self, bytes: u64, align: u64) -> Result<u64, MemoryError> {
        if !align.is_power_of_two() {
            return Err(MemoryError::Alignment(align));
        }
        let free = self.capacity - self.used;
        let refused = MemoryError::OutOfMemory { bytes, free };
        if bytes > free {
            return Err(refused);
        }
        let align = align.max(ALLOCATION_ALIGN);
        let base = self.next_address.checked_next_multiple_of(align).ok_or(refused)?;
        let end = base.checked_add(bytes).and_then(|end| end.checked_add(GUARD_BYTES));
        let end = end.filter(|end| *end <= END_ADDRESS).ok_or(refused)?;
        let len = usize::try_from(bytes).map_err(|_| refused)?;
        self.next_address = end;
        self.used += bytes;
        let bytes = TrackedBytes::new(len);
        self.allocations.push(Allocated { base, is_constant: false, bytes });
        Ok(base)
    }

    /// Gives an allocation back. Its addresses are not used again.
    ///
    /// # Errors
    ///
    /// `MemoryError::NotAllocated` where no allocation begins.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let at = self.allocations.binary_search_by_key(&address, |allocated| allocated.base);
        let at = at.map_err(|_| MemoryError::NotAllocated(address))?;
        let removed = self.allocations.remove(at);
        self.used -= removed.bytes.len() as u64;
        Ok(())
    }

    /// Copies bytes to the host, written or not.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfBounds` where no allocation holds the range.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, into.len() as u64)?;
        into.copy_from_slice(&self.allocations[index].bytes.data()[at..at + into.len()]);
        Ok(())
    }

    /// Copies bytes from the host.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfBounds` where no allocation holds the range.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, bytes.len() as u64)?;
        self.allocations[index].bytes.write(at, bytes);
        Ok(())
    }

    /// Writes one value to every byte of a range.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfBounds` where no allocation holds the range.
    pub fn fill(&mut self, address: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, bytes)?;
        // A range inside of an allocation fits the host.
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.allocations[index].bytes.fill(at, len, value);
        Ok(())
    }

    /// Forgets that anybody wrote a range; its bytes stay.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfBounds` where no allocation holds the range.
    pub fn mark_unwritten(&mut self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let (index, at) = self.range(address, bytes)?;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.allocations[index].bytes.mark(at, len, false);
        Ok(())
    }

    /// Copies from device to device, with what is known of each byte. The ranges may overlap.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfBounds` where no allocation holds one of the ranges.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<(), MemoryError> {
        let (to_index, to_at) = self.range(to, bytes)?;
        let (from_index, from_at) = self.range(from, bytes)?;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut between = TrackedBytes::new(len);
        between.copy_from(0, &self.allocations[from_index].bytes, from_at, len);
        self.allocations[to_index].bytes.copy_from(to_at, &between, 0, len);
        Ok(())
    }

    /// The first address of a range that nobody wrote.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfBounds` where no allocation holds the range.
    pub fn first_unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>, MemoryError> {
        let (index, at) = self.range(address, bytes)?;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let allocated = &self.allocations[index];
        let found = allocated.bytes.first_unwritten(at, len);
        Ok(found.map(|byte| allocated.base + byte as u64))
    }

    /// The allocation that an address lies in. An allocation of no bytes holds its own address.
    pub fn allocation_of(&self, address: u64) -> Option<Allocation> {
        let allocated = &self.allocations[self.index_of(address)?];
        let bytes = allocated.bytes.len() as u64;
        let inside = address - allocated.base < bytes.max(1);
        inside.then_some(Allocation { address: allocated.base, bytes })
    }

    /// Bytes given and not given back.
    pub fn used_bytes(&self) -> u64 {
        self.used
    }

    /// Bytes that may be given at most.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn set_constant(&mut self, address: u64) {
        if let Some(index) = self.index_of(address) {
            self.allocations[index].is_constant = true;
        }
    }

    pub(crate) fn allocated(&self, index: usize) -> Option<&Allocated> {
        self.allocations.get(index)
    }

    pub(crate) fn allocated_mut(&mut self, index: usize) -> Option<&mut Allocated> {
        self.allocations.get_mut(index)
    }

    /// The last allocation that begins at or before an address.
    pub(crate) fn index_of(&self, address: u64) -> Option<usize> {
        self.allocations.partition_point(|allocated| allocated.base <= address).checked_sub(1)
    }

    /// The allocation that holds a range, and where the range begins in it.
    fn range(&self, address: u64, bytes: u64) -> Result<(usize, usize), MemoryError> {
        let outside = MemoryError::OutOfBounds { address, bytes };
        let index = self.index_of(address).ok_or(outside)?;
        let allocated = &self.allocations[index];
        let at = address - allocated.base;
        let end = at.checked_add(bytes).ok_or(outside)?;
        if end > allocated.bytes.len() as u64 {
            return Err(outside);
        }
        Ok((index, usize::try_from(at).map_err(|_| outside)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_apart_and_bounded() {
        let mut memory = Memory::new(4096);
        let a = memory.alloc(100, 1).unwrap();
        let b = memory.alloc(0, 4096).unwrap();
        assert_eq!((a % 256, b % 4096), (0, 0));
        assert!(b >= a + 100 + GUARD_BYTES);
        assert_eq!(memory.allocation_of(a + 99), Some(Allocation { address: a, bytes: 100 }));
        assert_eq!(memory.allocation_of(a + 100), None);
        assert_eq!(memory.allocation_of(b), Some(Allocation { address: b, bytes: 0 }));
        let error = memory.alloc(3997, 1).unwrap_err();
        assert_eq!(error, MemoryError::OutOfMemory { bytes: 3997, free: 3996 });
        assert_eq!(memory.alloc(1, 3), Err(MemoryError::Alignment(3)));
        memory.free(a).unwrap();
        assert_eq!(memory.free(a), Err(MemoryError::NotAllocated(a)));
        assert_eq!(memory.used_bytes(), 0);
        assert_ne!(memory.alloc(100, 1).unwrap(), a);
    }

    #[test]
    fn a_range_lies_in_one_allocation_whole() {
        let mut memory = Memory::new(4096);
        let a = memory.alloc(100, 1).unwrap();
        for (address, bytes) in [(a + 99, 2), (a - 1, 1), (0, 1), (a, u64::MAX)] {
            let expected = MemoryError::OutOfBounds { address, bytes };
            assert_eq!(memory.fill(address, bytes, 0), Err(expected));
        }
        memory.fill(a + 100, 0, 0).unwrap();
    }

    #[test]
    fn a_copy_carries_what_is_known_of_each_byte() {
        let mut memory = Memory::new(4096);
        let a = memory.alloc(16, 1).unwrap();
        memory.write(a, &[1, 2, 3, 4]).unwrap();
        memory.copy(a + 2, a, 6).unwrap();
        let mut bytes = [0; 6];
        memory.read(a, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 1, 2, 3, 4]);
        assert_eq!(memory.first_unwritten(a, 16).unwrap(), Some(a + 6));
        memory.mark_unwritten(a + 1, 1).unwrap();
        assert_eq!(memory.first_unwritten(a, 16).unwrap(), Some(a + 1));
    }
}
