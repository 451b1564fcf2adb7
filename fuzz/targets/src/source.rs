//! Choices out of bytes.

/// Reads choices from the input of a fuzzer. Past the end every choice is the first one, which is the
/// plain one, so that cutting an input off makes it simpler.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
}

/// Numbers at which int32 code goes wrong.
const INT32_EDGES: [i32; 12] =
    [0, 1, -1, 2, 127, 128, 129, i32::MAX, i32::MIN, i32::MAX - 1, i32::MIN + 1, 1 << 30];

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                first
            }
            None => 0,
        }
    }

    pub(crate) fn word(&mut self) -> u64 {
        let bytes: [u8; 8] = std::array::from_fn(|_| self.byte());
        u64::from_le_bytes(bytes)
    }

    /// Below `limit`; 0 where that is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        match limit {
            0 | 1 => 0,
            2..=256 => u64::from(self.byte()) % limit,
            _ => self.word() % limit,
        }
    }

    /// From 0 to `most`, both included.
    pub(crate) fn up_to(&mut self, most: i64) -> i64 {
        let limit = u64::try_from(most).unwrap_or(0).saturating_add(1);
        i64::try_from(self.below(limit)).unwrap_or(0)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// True for about one input in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }

    /// Something, for about one input in `n`.
    pub(crate) fn maybe<T>(&mut self, n: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(n).then(|| make(self))
    }

    /// Any int32, often one at an edge.
    pub(crate) fn int32(&mut self) -> i32 {
        if self.flag() {
            return self.pick(&INT32_EDGES);
        }
        #[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
        let word = self.word() as u32;
        word.cast_signed()
    }
}
