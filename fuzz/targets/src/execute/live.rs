//! Which rows are live, and what must be reported, from the words of the contract.

use std::collections::BTreeSet;
use std::ops::Range;

use frazil::{ErrorWord, Role, SdpaFwdFacts, SideFacts, TensorId};

use super::Bound;
use super::values::{bound, int};

/// Live rows of a call, and the bits of its error word.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) q: LiveSide,
    pub(super) kv: LiveSide,
    /// Whether a device tensor steers the work.
    pub(super) steered: bool,
    /// Bits that must be set.
    pub(super) must: ErrorWord,
    /// Bits that may be set beside those: pages that no query sees need not be looked at.
    pub(super) may: ErrorWord,
}

/// Live rows of one side.
#[derive(Debug)]
pub(super) enum LiveSide {
    /// `[B, H, S, D]`, all of them.
    Dense,
    /// `[B, H, S, D]`, the first ones of each sequence.
    Padded(Vec<Range<u64>>),
    /// `[T, H, D]`, those of each sequence.
    Packed(Vec<Range<u64>>),
    /// Pages and their rows, of K and of V.
    Paged([BTreeSet<(u64, u64)>; 2]),
}

/// What a side needs.
struct Side<'a> {
    facts: SideFacts,
    /// Rows of a sequence (dense, padded, paged), or rows that are there (packed).
    capacity: u64,
    lengths: Option<&'a Bound>,
    prefix: Option<&'a Bound>,
    starts: Option<&'a Bound>,
    bad_length: ErrorWord,
    bad_rows: ErrorWord,
}

impl Live {
    pub(super) fn of(sdpa: &SdpaFwdFacts, roles: &[(Role, TensorId)], tensors: &[Bound]) -> Self {
        let find = |role| bound(role, roles, tensors);
        let extent =
            |role, axis| find(role).map_or(u64::MAX, |bound: &Bound| bound.geometry.extent(axis));
        let capacity = |facts: SideFacts, pair: [Role; 2]| match facts {
            SideFacts::Paged { page_size, .. } => {
                extent(Role::TableK, 1).min(extent(Role::TableV, 1)) * page_size
            }
            facts if facts.is_packed() => extent(pair[0], 0).min(extent(pair[1], 0)),
            _ => extent(pair[0], 2),
        };
        let q = Side {
            facts: sdpa.q_side(),
            capacity: capacity(sdpa.q_side(), [Role::Q, Role::O]),
            lengths: find(Role::QLengths),
            prefix: find(Role::QPrefix),
            starts: find(Role::QStarts),
            bad_length: ErrorWord::Q_LENGTH,
            bad_rows: ErrorWord::Q_ROWS,
        };
        let kv = Side {
            facts: sdpa.kv_side(),
            capacity: capacity(sdpa.kv_side(), [Role::K, Role::V]),
            lengths: find(Role::KvLengths),
            prefix: find(Role::KvPrefix),
            starts: find(Role::KvStarts),
            bad_length: ErrorWord::KV_LENGTH,
            bad_rows: ErrorWord::KV_ROWS,
        };
        let ((q_rows, on_q), (kv_rows, on_kv)) = (q.sequences(), kv.sequences());
        let mut may = ErrorWord::NONE;
        let kv = match kv.facts {
            SideFacts::Paged { page_size, .. } => {
                let lens: Vec<u64> = kv_rows.iter().map(|rows| rows.end - rows.start).collect();
                let mut pages = |table, pool, bit| {
                    let table = find(table).expect("paged rows have tables");
                    let (rows, outside) = paged_rows(table, &lens, page_size, extent(pool, 0));
                    may = if outside { may.with(bit) } else { may };
                    rows
                };
                LiveSide::Paged([
                    pages(Role::TableK, Role::K, ErrorWord::PAGE_K),
                    pages(Role::TableV, Role::V, ErrorWord::PAGE_V),
                ])
            }
            facts => LiveSide::of(facts, kv_rows),
        };
        Self {
            q: LiveSide::of(q.facts, q_rows),
            kv,
            steered: sdpa.has_device_lengths(),
            must: on_q.with(on_kv),
            may,
        }
    }

    /// Whether an element of Q, K or V belongs to a live row.
    pub(super) fn holds(&self, role: Role, index: &[u64]) -> bool {
        match (if role == Role::Q { &self.q } else { &self.kv }, index) {
            (LiveSide::Padded(rows), [b, _, row, _]) => {
                let at = usize::try_from(*b).expect("small");
                rows.get(at).is_some_and(|rows| rows.contains(row))
            }
            (LiveSide::Packed(rows), [row, ..]) => rows.iter().any(|rows| rows.contains(row)),
            (LiveSide::Paged(pages), [page, _, row, _]) => {
                pages[usize::from(role == Role::V)].contains(&(*page, *row))
            }
            _ => true,
        }
    }
}

impl LiveSide {
    fn of(facts: SideFacts, rows: Vec<Range<u64>>) -> Self {
        match facts {
            SideFacts::Dense => Self::Dense,
            SideFacts::Padded { .. } => Self::Padded(rows),
            _ => Self::Packed(rows),
        }
    }
}

impl Side<'_> {
    /// Rows of every sequence, clamped, and what is out of bounds.
    fn sequences(&self) -> (Vec<Range<u64>>, ErrorWord) {
        let Some(bounds) = self.facts.bounds() else { return (Vec::new(), ErrorWord::NONE) };
        let packed = self.facts.is_packed();
        let max_len = if packed { u64::MAX } else { self.capacity }.min(bounds.max.into());
        let limit = match self.facts {
            SideFacts::PackedLengths { max_total, .. }
            | SideFacts::PackedPrefix { max_total, .. }
            | SideFacts::PackedStarts { max_total, .. } => self.capacity.min(max_total.into()),
            _ => max_len,
        };
        let mut word = ErrorWord::NONE;
        let mut rows = Vec::new();
        for (start, len) in self.as_read() {
            let kept = u64::try_from(len).unwrap_or(0).min(max_len);
            if len < i64::from(bounds.min) || u64::try_from(len) != Ok(kept) {
                word = word.with(self.bad_length);
            }
            let first = u64::try_from(start).unwrap_or(0).min(limit);
            let end = first.saturating_add(kept).min(limit);
            if packed && (u64::try_from(start) != Ok(first) || end - first != kept) {
                word = word.with(self.bad_rows);
            }
            rows.push(first..end);
        }
        (rows, word)
    }

    /// First row and length of every sequence, as the device tensors say it.
    fn as_read(&self) -> Vec<(i64, i64)> {
        let list = |bound: &Bound| -> Vec<i64> {
            (0..bound.geometry.extent(0)).map(|at| int(bound, &[at])).collect()
        };
        if let Some(prefix) = self.prefix.map(list) {
            let sequences = prefix.windows(2);
            return sequences.map(|pair| (pair[0] - prefix[0], pair[1] - pair[0])).collect();
        }
        let lengths = self.lengths.map(list).unwrap_or_default();
        let starts: Vec<i64> = match self.starts.map(list) {
            Some(starts) => starts,
            None if self.facts.is_packed() => {
                let next = |sum: &mut i64, len: &i64| {
                    let start = *sum;
                    *sum += (*len).max(0);
                    Some(start)
                };
                lengths.iter().scan(0, next).collect()
            }
            None => vec![0; lengths.len()],
        };
        starts.into_iter().zip(lengths).collect()
    }
}

/// Pages and rows that sequences read, page ids moved into the pool, and whether one lay outside.
fn paged_rows(
    table: &Bound,
    lens: &[u64],
    page_size: u64,
    num_pages: u64,
) -> (BTreeSet<(u64, u64)>, bool) {
    let (mut rows, mut outside) = (BTreeSet::new(), false);
    for (b, len) in (0..).zip(lens) {
        for row in 0..*len {
            let entry = int(table, &[b, row / page_size]);
            let page = u64::try_from(entry).unwrap_or(0).min(num_pages.saturating_sub(1));
            outside |= u64::try_from(entry) != Ok(page) || num_pages == 0;
            rows.insert((page, row % page_size));
        }
    }
    (rows, outside)
}
