//! What a plan reports about device tensors that steer it.

/// Bits that an execute leaves in the workspace at [`Plan::error_word`](crate::Plan::error_word).
///
/// A set bit says that a value read on the device was outside its host bound. Memory stays safe:
/// lengths are clamped from above, starts and page ids into their buffer and pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorWord(pub u32);

impl ErrorWord {
    /// Nothing to report.
    pub const NONE: Self = Self(0);
    /// A length of Q below its least or above its greatest.
    pub const Q_LENGTH: Self = Self(1);
    /// A length of K and V below its least or above its greatest.
    pub const KV_LENGTH: Self = Self(1 << 1);
    /// Rows of Q reach past its total or its buffers, or a start lies outside them.
    pub const Q_ROWS: Self = Self(1 << 2);
    /// Rows of K and V reach past their total or buffers, or a start lies outside them.
    pub const KV_ROWS: Self = Self(1 << 3);
    /// A page id outside the pool of K, on a page that some query sees; of others it may be set.
    pub const PAGE_K: Self = Self(1 << 4);
    /// A page id outside the pool of V, on a page that some query sees; of others it may be set.
    pub const PAGE_V: Self = Self(1 << 5);

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
