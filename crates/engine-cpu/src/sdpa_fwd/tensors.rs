//! The tensors of one call, whatever their storage, as views with the same four axes.

use std::sync::atomic::{AtomicU32, Ordering};

use frazil_core::{Call, ErrorWord, Role, SdpaFwdFacts, SideFacts};

use super::setup::Sequence;
use crate::memory::{Axes, Float, Input, Ints, Output, RowIndex};

/// `[B, H, S, D]`, `[pages, H, page_size, D]`.
const FOUR: Axes = [Some(0), Some(1), Some(2), Some(3)];
/// `[T, H, D]`.
const PACKED: Axes = [None, Some(1), Some(0), Some(2)];
/// `[B, H, S]`.
const BY_BATCH: Axes = [Some(0), Some(1), Some(2), None];
/// `[T, H]`.
const BY_ROW: Axes = [None, Some(1), Some(0), None];
/// `[B, H]`.
const BATCH_HEAD: Axes = [Some(0), Some(1), None, None];
/// `[H]`.
const HEAD: Axes = [None, Some(0), None, None];

/// One value for each row of Q and head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowOutput {
    pub(crate) output: Output,
    /// `[T, H]`: rows are found as those of packed Q.
    pub(crate) packed: bool,
}

impl RowOutput {
    fn of(call: &Call<'_>, facts: &SdpaFwdFacts, role: Role) -> Option<Self> {
        let packed = call.view(role)?.geometry.rank() == 2;
        let axes = if packed { BY_ROW } else { BY_BATCH };
        let output = Output::of(call, role, facts.dtype(role), axes)?;
        Some(Self { output, packed })
    }
}

/// Everything that a call reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tensors {
    pub(crate) q: Input,
    pub(crate) k: Input,
    pub(crate) v: Input,
    pub(crate) o: Output,
    pub(crate) table_k: Option<Ints>,
    pub(crate) table_v: Option<Ints>,
    pub(crate) bias: Option<Input>,
    pub(crate) alibi_slopes: Option<Input>,
    pub(crate) sink: Option<Input>,
    pub(crate) lse: Option<RowOutput>,
    pub(crate) max: Option<RowOutput>,
    pub(crate) sum_exp: Option<RowOutput>,
    /// Sequences.
    pub(crate) batch: u64,
    q_packed: bool,
    /// Rows of a page, where K and V are paged.
    page_size: Option<u64>,
}

impl Tensors {
    pub(crate) fn of(call: &Call<'_>, facts: &SdpaFwdFacts) -> Self {
        let axes = |side: &SideFacts| if side.is_packed() { PACKED } else { FOUR };
        let (on_q, on_kv) = (axes(&facts.q_side()), axes(&facts.kv_side()));
        let input = |role, axes| Input::of(call, role, facts.dtype(role), axes);
        let rows = |role, axes| match input(role, axes) {
            Some(tensor) => tensor,
            None => unreachable!("core binds q, k and v, and `check_support` saw their types"),
        };
        let Some(o) = Output::of(call, Role::O, facts.dtype(Role::O), on_q) else {
            unreachable!("core binds o, and `check_support` saw its type");
        };
        let slopes_axes = match call.view(Role::AlibiSlopes) {
            Some(view) if view.geometry.rank() == 2 => BATCH_HEAD,
            _ => HEAD,
        };
        let q = rows(Role::Q, on_q);
        let count = |role| Ints::vector(call, role).map(|ints| ints.len());
        let batch = count(Role::QLengths)
            .or_else(|| count(Role::QPrefix).map(|entries| entries.saturating_sub(1)))
            .unwrap_or(q.extents()[0]);
        let page_size = match facts.kv_side() {
            SideFacts::Paged { page_size, .. } => Some(page_size),
            _ => None,
        };
        Self {
            q,
            k: rows(Role::K, on_kv),
            v: rows(Role::V, on_kv),
            o,
            table_k: Ints::table(call, Role::TableK),
            table_v: Ints::table(call, Role::TableV),
            bias: input(Role::Bias, FOUR),
            alibi_slopes: input(Role::AlibiSlopes, slopes_axes),
            sink: input(Role::Sink, HEAD),
            lse: RowOutput::of(call, facts, Role::Lse),
            max: RowOutput::of(call, facts, Role::Max),
            sum_exp: RowOutput::of(call, facts, Role::SumExp),
            batch,
            q_packed: facts.q_side().is_packed(),
            page_size,
        }
    }

    fn row_outputs(&self) -> impl Iterator<Item = RowOutput> {
        [self.lse, self.max, self.sum_exp].into_iter().flatten()
    }

    /// Rows that every tensor of Q's side has: of each sequence, or in all where packed.
    pub(crate) fn q_rows(&self) -> u64 {
        let rows = self.q.extents()[2].min(self.o.extents()[2]);
        let packed = self.row_outputs().filter(|row_output| row_output.packed);
        packed.fold(rows, |rows, row_output| rows.min(row_output.output.extents()[2]))
    }

    /// Rows that K and V both have: of each sequence, or in all where packed.
    pub(crate) fn kv_rows(&self) -> u64 {
        match (self.page_size, self.table_k, self.table_v) {
            (Some(page_size), Some(table_k), Some(table_v)) => {
                table_k.len().min(table_v.len()) * page_size
            }
            _ => self.k.extents()[2].min(self.v.extents()[2]),
        }
    }

    /// Rows of a sequence that some output has a place for, the `len` live ones first.
    pub(crate) fn rows_to_write(&self, len: u64) -> u64 {
        if !self.q_packed {
            return self.q_rows();
        }
        let by_batch = self.row_outputs().filter(|row_output| !row_output.packed);
        by_batch.fold(len, |rows, row_output| rows.max(row_output.output.extents()[2]))
    }

    /// Whether O has rows past a sequence's length.
    pub(crate) fn o_has_dead_rows(&self) -> bool {
        !self.q_packed
    }

    /// Where row `row` of a sequence lies in Q and O, given its first packed row.
    pub(crate) fn q_row(&self, batch_idx: u64, head: u64, start: u64, row: u64) -> RowIndex {
        if self.q_packed { [0, head, start + row] } else { [batch_idx, head, row] }
    }

    /// How the rows of K of one sequence and head are found.
    pub(crate) fn keys(&self, sequence: &Sequence, head: u64) -> Rows<'_> {
        let pages = self.pages(self.table_k, self.k, ErrorWord::PAGE_K);
        let Sequence { batch_idx, kv_start: start, kv_len: len, .. } = *sequence;
        Rows { tensor: &self.k, pages, batch_idx, head, start, len }
    }

    /// How the rows of V of one sequence and head are found.
    pub(crate) fn values(&self, sequence: &Sequence, head: u64) -> Rows<'_> {
        let pages = self.pages(self.table_v, self.v, ErrorWord::PAGE_V);
        let Sequence { batch_idx, kv_start: start, kv_len: len, .. } = *sequence;
        Rows { tensor: &self.v, pages, batch_idx, head, start, len }
    }

    fn pages(&self, table: Option<Ints>, pool: Input, error: ErrorWord) -> Option<Pages> {
        let (table, page_size) = (table?, self.page_size?);
        Some(Pages { table, page_size, num_pages: pool.extents()[0], error })
    }
}

/// Rows of K or V of one sequence and head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) tensor: &'a Input,
    pages: Option<Pages>,
    batch_idx: u64,
    head: u64,
    /// First row where packed. Packed tensors have an outer extent of 1.
    start: u64,
    /// Live rows.
    pub(crate) len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pages {
    table: Ints,
    page_size: u64,
    num_pages: u64,
    error: ErrorWord,
}

impl Rows<'_> {
    /// The type of the elements, where every live row lies somewhere (a pool may have no page at
    /// all) and its columns together.
    pub(crate) fn contiguous(&self) -> Option<Float> {
        let has_rows = self.pages.is_none_or(|pages| pages.num_pages > 0);
        self.tensor.contiguous().filter(|_| has_rows)
    }

    /// Where a live row lies, and how many rows from it on lie one after another; `None` when the
    /// pool has no page at all. A page id outside the pool is clamped and leaves its bit in
    /// `errors`.
    pub(crate) fn find(&self, row: u64, errors: &AtomicU32) -> Option<(RowIndex, u64)> {
        let Some(pages) = &self.pages else {
            let outer = if self.tensor.extents()[0] == 1 { 0 } else { self.batch_idx };
            let row = self.start + row;
            return Some(([outer, self.head, row], self.tensor.extents()[2] - row));
        };
        let id = pages.table.get(self.batch_idx, row / pages.page_size);
        let page = u64::try_from(id).unwrap_or(0).min(pages.num_pages.saturating_sub(1));
        if u64::try_from(id) != Ok(page) || pages.num_pages == 0 {
            errors.fetch_or(pages.error.0, Ordering::Relaxed);
        }
        let within = row % pages.page_size;
        (pages.num_pages > 0).then_some(([page, self.head, within], pages.page_size - within))
    }
}
