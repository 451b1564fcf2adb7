//! One shape.

use std::fmt;

use frazil::DType;

/// Which keys are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    Full,
    Causal,
}

/// Attention of one sequence `[1, heads, rows, head_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) dtype: DType,
    pub(crate) heads: usize,
    pub(crate) q_rows: usize,
    pub(crate) kv_rows: usize,
    pub(crate) head_dim: usize,
    pub(crate) mask: Mask,
}

impl Cell {
    /// Floating-point operations of both products over the visible pairs, counted exactly.
    pub(crate) fn flops(&self) -> u64 {
        let hidden = self.kv_rows - self.q_rows;
        let pairs: usize = match self.mask {
            Mask::Full => self.q_rows * self.kv_rows,
            // From the bottom right.
            Mask::Causal => (0..self.q_rows).map(|query| query + hidden + 1).sum(),
        };
        (4 * self.heads * self.head_dim * pairs) as u64
    }

    /// Bytes of K and V.
    pub(crate) fn kv_bytes(&self) -> usize {
        2 * self.heads * self.kv_rows * self.head_dim * self.element_bytes()
    }

    pub(crate) fn element_bytes(&self) -> usize {
        if self.dtype == DType::F32 { 4 } else { 2 }
    }

    /// Standard normal enough for timing: never zeros, never all alike.
    pub(crate) fn numbers(&self, rows: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
        };
        // The sum of twelve uniform numbers has the variance 1.
        (0..self.heads * rows * self.head_dim).map(|_| (0..12).map(|_| uniform()).sum()).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dtype, heads, q_rows, kv_rows, head_dim, mask } = self;
        let mask = if *mask == Mask::Full { "full" } else { "causal" };
        let rows =
            if q_rows == kv_rows { q_rows.to_string() } else { format!("{q_rows}x{kv_rows}") };
        write!(f, "{dtype}/h{heads}/d{head_dim}/{rows}/{mask}")
    }
}
