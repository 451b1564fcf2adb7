//! Which rows are live and what must be reported, from the words of the contract.

use std::ops::Range;

use frazil::{ErrorWord, Geometry, Role, SdpaFwdFacts, SideFacts, TensorId};

use super::Bound;
use super::memory::POISON;
use super::values::{bound, for_each_element, int};

/// Live rows of packed Q, and the bits of the error word.
#[derive(Debug)]
pub(super) struct Live {
    /// Rows of packed Q and O; `None` where they are `[B, H, S, D]` and all are written.
    rows: Option<Vec<Range<u64>>>,
    steered: bool,
    must: ErrorWord,
    /// Beside those that must be set.
    may: ErrorWord,
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
        let ((rows, on_q), (kv_rows, on_kv)) = (q.sequences(), kv.sequences());
        let mut may = ErrorWord::NONE;
        if let SideFacts::Paged { page_size, .. } = kv.facts {
            let lens: Vec<u64> = kv_rows.iter().map(|rows| rows.end - rows.start).collect();
            for (table, pool, bit) in [
                (Role::TableK, Role::K, ErrorWord::PAGE_K),
                (Role::TableV, Role::V, ErrorWord::PAGE_V),
            ] {
                let table = find(table).expect("paged rows have tables");
                if names_page_outside(table, &lens, page_size, extent(pool, 0)) {
                    may = may.with(bit);
                }
            }
        }
        Self {
            rows: sdpa.q_side().is_packed().then_some(rows),
            steered: sdpa.has_device_lengths(),
            must: on_q.with(on_kv),
            may,
        }
    }

    /// # Panics
    ///
    /// When a bit is set that the data do not imply, or one is missing.
    pub(super) fn check_word(&self, word: Option<ErrorWord>) {
        assert_eq!(word.is_some(), self.steered, "an error word is there where one is needed");
        let Some(word) = word else { return };
        let most = self.must.with(self.may);
        assert!(
            word.contains(self.must) && most.contains(word),
            "error word {:#b}, the data imply {:#b} and allow {:#b}",
            word.0,
            self.must.0,
            self.may.0
        );
    }

    /// # Panics
    ///
    /// When something was written that is not a live row's, or a live row was not.
    pub(super) fn check_memory(&self, roles: &[(Role, TensorId)], tensors: &[Bound]) {
        for tensor in tensors {
            let name = &tensor.draft.name;
            let of_tensor = |(role, id): &(Role, TensorId)| (*id == tensor.id).then_some(*role);
            let role = roles.iter().find_map(of_tensor).expect("each tensor has a role");
            if !role.is_output() {
                assert!(tensor.memory.is_unchanged(), "input `{name}` was written");
                continue;
            }
            assert!(tensor.memory.is_whole_outside(), "bytes around `{name}` were written");
            let owed = self.owed(role, tensor);
            let (after, before) = (tensor.memory.bytes(), tensor.memory.kept_bytes());
            let width = usize::try_from(tensor.draft.dtype.bytes()).expect("small");
            for (at, owed) in owed.iter().enumerate() {
                let bytes = at * width..(at + 1) * width;
                let element = &after[bytes.clone()];
                if *owed {
                    let poison = element.chunks(2).all(|pair| pair == POISON);
                    assert!(!poison, "element {at} of `{name}` was not written");
                } else {
                    let same = *element == before[bytes];
                    assert!(same, "element {at} of `{name}` is no live row's and was written");
                }
            }
        }
    }

    /// For every element of an output's span, whether it must be written. Others must not.
    fn owed(&self, role: Role, tensor: &Bound) -> Vec<bool> {
        let geometry: &Geometry = &tensor.geometry;
        let mut owed = vec![false; usize::try_from(geometry.span()).expect("small")];
        // `[B, H, S]` belongs to the output as a whole, O `[T, H, D]` row by row.
        let by_rows = self.rows.as_ref().filter(|_| role == Role::O || geometry.rank() == 2);
        for_each_element(geometry, &mut |index, at| {
            owed[at] = by_rows.is_none_or(|rows| rows.iter().any(|rows| rows.contains(&index[0])));
        });
        owed
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

/// Whether a live entry of a page table is no page of the pool.
fn names_page_outside(table: &Bound, lens: &[u64], page_size: u64, num_pages: u64) -> bool {
    (0..).zip(lens).any(|(b, len)| {
        (0..len.div_ceil(page_size)).any(|page| {
            let entry = u64::try_from(int(table, &[b, page]));
            entry.map_or(true, |entry| entry >= num_pages)
        })
    })
}
