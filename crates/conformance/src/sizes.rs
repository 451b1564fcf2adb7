//! Extents of a case: those it runs with and those it is declared with.

use frazil_core::LengthBounds;

use crate::case::{Case, SideCase};
use crate::declare::CaseError;

/// Extents of all tensors of a case, in rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) batch: u64,
    pub(crate) q: SideSizes,
    pub(crate) kv: SideSizes,
}

/// Extents of one side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SideSizes {
    /// Rows of a sequence: the extent, or the greatest length.
    pub(crate) seqlen: u64,
    /// Rows of the buffers where they are packed, pages of the pools where they are paged, else
    /// `seqlen`.
    pub(crate) rows: u64,
    /// Entries of a row of a page table; 0 without one.
    pub(crate) pages: u64,
    /// Rows that one sequence can have at most.
    pub(crate) max_len: u64,
}

impl Sizes {
    /// Those the case runs with.
    pub(crate) fn of_run(case: &Case) -> Self {
        let (bound_q, bound_kv) = bounds(case);
        let side = |side: &SideCase, seqlen, bound: u64| {
            let sizes = of_side(side, case.batch, seqlen, bound);
            // Bounds are host numbers of the declaration: only an extent can be below them.
            let rows = match side {
                SideCase::Paged { page_size, .. } => sizes.pages.saturating_mul(*page_size),
                side if side.is_packed() => u64::MAX,
                _ => seqlen,
            };
            SideSizes { max_len: rows.min(bound), ..sizes }
        };
        Self {
            batch: case.batch,
            q: side(&case.q, case.seqlen_q, bound_q),
            kv: side(&case.kv, case.seqlen_kv, bound_kv),
        }
    }

    /// Those of the declaration: larger ones, where the case runs overridden.
    pub(crate) fn of_declaration(case: &Case) -> Self {
        let run = Self::of_run(case);
        let Some(declared) = case.declared else { return run };
        let side = |side: &SideCase, run: SideSizes, seqlen: u64| {
            let rows = declared.batch.saturating_mul(seqlen);
            let sizes = of_side(side, declared.batch, seqlen, seqlen);
            match side {
                SideCase::Dense | SideCase::Padded { .. } => sizes,
                SideCase::Paged { .. } => SideSizes { rows: sizes.rows.max(run.rows), ..sizes },
                _ => SideSizes { rows: rows.max(run.rows), ..sizes },
            }
        };
        Self {
            batch: declared.batch,
            q: side(&case.q, run.q, declared.seqlen_q),
            kv: side(&case.kv, run.kv, declared.seqlen_kv),
        }
    }
}

/// Greatest lengths of Q, and of K and V, that the declaration states.
fn bounds(case: &Case) -> (u64, u64) {
    case.declared
        .map_or((case.seqlen_q, case.seqlen_kv), |declared| (declared.seqlen_q, declared.seqlen_kv))
}

fn of_side(side: &SideCase, batch: u64, seqlen: u64, bound: u64) -> SideSizes {
    let clamped = |length: i32| u64::try_from(length).unwrap_or(0).min(bound);
    let sum = |lengths: &[i32]| lengths.iter().copied().map(clamped).sum();
    let (rows, pages) = match side {
        SideCase::Dense | SideCase::Padded { .. } => (seqlen, 0),
        SideCase::PackedLengths { lengths, capacity, .. }
        | SideCase::PackedPrefix { lengths, capacity, .. } => {
            (capacity.unwrap_or_else(|| sum(lengths)), 0)
        }
        SideCase::PackedStarts { starts, lengths, capacity, .. } => {
            let ends = starts.iter().zip(lengths);
            let ends = ends.map(|(&start, &len)| u64::try_from(start).unwrap_or(0) + clamped(len));
            (capacity.unwrap_or_else(|| ends.max().unwrap_or(0)), 0)
        }
        SideCase::Paged { page_size, num_pages, .. } => {
            let pages = seqlen.div_ceil((*page_size).max(1));
            (num_pages.unwrap_or_else(|| batch.saturating_mul(pages)), pages)
        }
    };
    SideSizes { seqlen, rows, pages, max_len: seqlen }
}

impl SideCase {
    /// Limits of a length as they are declared, for a greatest length.
    pub(crate) fn bounds(&self, max: u64, case: &Case) -> Result<LengthBounds, CaseError> {
        let max = u32::try_from(max).map_err(|_| {
            CaseError::Case(format!("{}: seqlen {max} is above the limit 2^32", case.name))
        })?;
        let min = if let Self::Padded { min_len, .. } = self { *min_len } else { 0 };
        Ok(LengthBounds { min, max })
    }

    /// Limit of the rows of packed sequences, where the case states one.
    pub(crate) fn max_total(&self) -> Option<u32> {
        match self {
            Self::PackedLengths { max_total, .. }
            | Self::PackedPrefix { max_total, .. }
            | Self::PackedStarts { max_total, .. } => *max_total,
            _ => None,
        }
    }
}
