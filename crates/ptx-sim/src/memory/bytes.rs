//! Bytes that know which of them were written.

/// A block of bytes with one bit for each: whether anybody wrote it.
///
/// Untouched pages cost nothing where the allocator gives zeroed pages on demand.
#[derive(Clone, Debug)]
pub(crate) struct TrackedBytes {
    data: Vec<u8>,
    /// Bit `n % 64` of word `n / 64` for byte `n`.
    written: Vec<u64>,
}

impl TrackedBytes {
    /// Bytes that nobody wrote.
    pub(crate) fn new(len: usize) -> Self {
        Self { data: vec![0; len], written: vec![0; len.div_ceil(64)] }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Up to 8 bytes, the lowest first. They must not cross the end, nor a multiple of 64.
    #[inline]
    pub(crate) fn load(&self, at: usize, len: usize) -> u64 {
        let mut bytes = [0; 8];
        match len {
            4 => bytes[..4].copy_from_slice(&self.data[at..at + 4]),
            8 => bytes.copy_from_slice(&self.data[at..at + 8]),
            _ => bytes[..len].copy_from_slice(&self.data[at..at + len]),
        }
        u64::from_le_bytes(bytes)
    }

    #[inline]
    pub(crate) fn store(&mut self, at: usize, len: usize, value: u64) {
        let bytes = value.to_le_bytes();
        match len {
            4 => self.data[at..at + 4].copy_from_slice(&bytes[..4]),
            8 => self.data[at..at + 8].copy_from_slice(&bytes),
            _ => self.data[at..at + len].copy_from_slice(&bytes[..len]),
        }
        self.written[at / 64] |= low_bits(len) << (at % 64);
    }

    /// Which of up to 32 aligned bytes nobody wrote, a bit for each.
    #[inline]
    pub(crate) fn unwritten(&self, at: usize, len: usize) -> u64 {
        !(self.written[at / 64] >> (at % 64)) & low_bits(len)
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        self.mark(at, bytes.len(), true);
    }

    pub(crate) fn fill(&mut self, at: usize, len: usize, value: u8) {
        self.data[at..at + len].fill(value);
        self.mark(at, len, true);
    }

    /// Sets or clears "written" of a range.
    pub(crate) fn mark(&mut self, at: usize, len: usize, written: bool) {
        let end = at + len;
        let mut next = at;
        while next < end {
            let count = (64 - next % 64).min(end - next);
            let mask = low_bits(count) << (next % 64);
            let word = &mut self.written[next / 64];
            *word = if written { *word | mask } else { *word & !mask };
            next += count;
        }
    }

    /// The first byte of a range that nobody wrote.
    pub(crate) fn first_unwritten(&self, at: usize, len: usize) -> Option<usize> {
        (at..at + len).find(|byte| self.written[byte / 64] >> (byte % 64) & 1 == 0)
    }

    /// Copies bytes inside, with what is known of them; the ranges must not overlap.
    pub(crate) fn copy_within(&mut self, from: usize, to: usize, len: usize) {
        self.data.copy_within(from..from + len, to);
        for byte in 0..len {
            let written = self.written[(from + byte) / 64] >> ((from + byte) % 64) & 1 == 1;
            self.mark(to + byte, 1, written);
        }
    }

    /// Copies bytes with what is known of them; the ranges must not overlap.
    pub(crate) fn copy_from(&mut self, at: usize, from: &Self, from_at: usize, len: usize) {
        self.data[at..at + len].copy_from_slice(&from.data[from_at..from_at + len]);
        for byte in 0..len {
            let written = from.written[(from_at + byte) / 64] >> ((from_at + byte) % 64) & 1 == 1;
            self.mark(at + byte, 1, written);
        }
    }
}

#[inline]
fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_knows_whether_it_was_written() {
        let mut bytes = TrackedBytes::new(200);
        assert_eq!(bytes.first_unwritten(0, 200), Some(0));
        bytes.write(60, &[1; 70]);
        assert_eq!(bytes.first_unwritten(60, 70), None);
        assert_eq!(bytes.first_unwritten(60, 71), Some(130));
        assert_eq!(bytes.unwritten(128, 4), 0b1100);
        bytes.mark(64, 64, false);
        assert_eq!(bytes.unwritten(60, 4), 0);
        assert_eq!(bytes.unwritten(64, 8), 0xff);
        bytes.store(64, 2, 0xabcd);
        assert_eq!((bytes.load(64, 2), bytes.unwritten(64, 4)), (0xabcd, 0b1100));
    }
}
