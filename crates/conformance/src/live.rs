//! Which rows are live, where they lie, and what the error word must say.
//!
//! Written from the contract, for well-formed and hostile data alike: a length above its bound
//! becomes the bound, a negative one 0; packed sequences are cut to the rows that exist, which are
//! those below `max_total` and the capacity; page ids are moved to the nearest page of the pool.
//! Where starts are sums of lengths, what follows a length above its bound starts where the tensor
//! says, not where the bound would put it.

use frazil_core::{ErrorWord, Geometry, LengthBounds, Role};

use crate::case::{Case, SideCase};
use crate::declare::CaseError;
use crate::ints::SideInts;
use crate::sizes::{SideSizes, Sizes};

/// Live rows of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) q: LiveSide,
    pub(crate) kv: LiveSide,
    /// Bits for the data that are not as promised.
    pub(crate) error_word: ErrorWord,
}

/// Live rows of one side.
#[derive(Clone, Debug)]
pub(crate) struct LiveSide {
    /// Rows of each sequence.
    pub(crate) lens: Vec<u64>,
    rows: Rows,
}

/// Where rows lie, by storage form.
#[derive(Clone, Debug)]
enum Rows {
    /// `[B, H, S, D]`.
    Batch,
    /// `[T, H, D]`: first row of each sequence.
    Packed(Vec<u64>),
    /// Pools: the pages of each sequence, for K and for V.
    Paged { page_size: u64, k: Vec<Vec<u64>>, v: Vec<Vec<u64>> },
}

/// The bits of one side.
struct Bits {
    length: ErrorWord,
    rows: ErrorWord,
}

impl Live {
    /// # Errors
    ///
    /// [`CaseError::Case`] when the case states another error word.
    pub(crate) fn new(
        case: &Case,
        sizes: &Sizes,
        (q, kv): (&SideInts, &SideInts),
    ) -> Result<Self, CaseError> {
        let declared = Sizes::of_declaration(case);
        let q_bits = Bits { length: ErrorWord::Q_LENGTH, rows: ErrorWord::Q_ROWS };
        let kv_bits = Bits { length: ErrorWord::KV_LENGTH, rows: ErrorWord::KV_ROWS };
        let mut error_word = ErrorWord::NONE;
        let mut side = |side: &SideCase, sizes: SideSizes, seqlen, ints, bits: Bits| {
            let bounds = side.bounds(seqlen, case)?;
            let (live, word) = LiveSide::new(side, (case.batch, sizes), bounds, ints, &bits);
            error_word = error_word.with(word);
            Ok::<_, CaseError>(live)
        };
        let q = side(&case.q, sizes.q, declared.q.seqlen, q, q_bits)?;
        let kv = side(&case.kv, sizes.kv, declared.kv.seqlen, kv, kv_bits)?;
        let stated = stated_word(case)?;
        if stated != error_word {
            return Err(CaseError::Case(format!(
                "{}: error_word states {}, the data imply {}",
                case.name,
                word_names(stated),
                word_names(error_word)
            )));
        }
        Ok(Self { q, kv, error_word })
    }

    /// The side that a tensor belongs to.
    pub(crate) fn side(&self, role: Role) -> &LiveSide {
        if matches!(role, Role::K | Role::V) { &self.kv } else { &self.q }
    }
}

/// The bits of the error word by the names that cases give them.
const BITS: [(&str, ErrorWord); 6] = [
    ("q_length", ErrorWord::Q_LENGTH),
    ("kv_length", ErrorWord::KV_LENGTH),
    ("q_rows", ErrorWord::Q_ROWS),
    ("kv_rows", ErrorWord::KV_ROWS),
    ("page_k", ErrorWord::PAGE_K),
    ("page_v", ErrorWord::PAGE_V),
];

/// The bits set, by name; those without one as a number.
pub(crate) fn word_names(word: ErrorWord) -> String {
    let set = BITS.iter().filter(|(_, bit)| word.contains(*bit));
    let mut names: Vec<String> = set.map(|(name, _)| (*name).to_owned()).collect();
    let rest = BITS.iter().fold(word.0, |rest, (_, bit)| rest & !bit.0);
    if rest != 0 {
        names.push(format!("{rest:#x}"));
    }
    if names.is_empty() { "no bit".into() } else { names.join(", ") }
}

fn stated_word(case: &Case) -> Result<ErrorWord, CaseError> {
    let mut word = ErrorWord::NONE;
    for name in &case.error_word {
        let Some((_, bit)) = BITS.iter().find(|(known, _)| known == name) else {
            let text = format!("{}: error_word `{name}` is no bit", case.name);
            return Err(CaseError::Case(text));
        };
        word = word.with(*bit);
    }
    Ok(word)
}

impl LiveSide {
    fn new(
        side: &SideCase,
        (batch, sizes): (u64, SideSizes),
        bounds: LengthBounds,
        ints: &SideInts,
        bits: &Bits,
    ) -> (Self, ErrorWord) {
        let mut word = ErrorWord::NONE;
        let mut clamp = |length: i64| {
            if length < i64::from(bounds.min) || length > signed(sizes.max_len) {
                word = word.with(bits.length);
            }
            u64::try_from(length).unwrap_or(0).min(sizes.max_len)
        };
        let lengths = |clamp: &mut dyn FnMut(i64) -> u64| -> Vec<u64> {
            ints.lengths.iter().map(|&length| clamp(length.into())).collect()
        };
        match side {
            SideCase::Dense => {
                let count = usize::try_from(batch).unwrap_or(0);
                (Self { lens: vec![sizes.seqlen; count], rows: Rows::Batch }, word)
            }
            SideCase::Padded { .. } => {
                (Self { lens: lengths(&mut clamp), rows: Rows::Batch }, word)
            }
            SideCase::PackedLengths { .. } => {
                let lens = lengths(&mut clamp);
                let first = |next: &mut i64, &length: &i32| {
                    let start = *next;
                    *next += i64::from(length.max(0));
                    Some(start)
                };
                let starts = ints.lengths.iter().scan(0, first).collect();
                Self::packed(side, sizes, starts, lens, word, bits)
            }
            SideCase::PackedPrefix { .. } => {
                let prefix: Vec<i64> = ints.prefix.iter().map(|&row| row.into()).collect();
                let lens = prefix.windows(2).map(|pair| clamp(pair[1] - pair[0])).collect();
                let starts = prefix.iter().map(|row| row - prefix[0]).take(prefix.len() - 1);
                let starts = starts.collect();
                Self::packed(side, sizes, starts, lens, word, bits)
            }
            SideCase::PackedStarts { .. } => {
                let lens = lengths(&mut clamp);
                let starts = ints.starts.iter().map(|&row| row.into()).collect();
                Self::packed(side, sizes, starts, lens, word, bits)
            }
            SideCase::Paged { page_size, .. } => {
                let lens = lengths(&mut clamp);
                let page_size = (*page_size).max(1);
                let mut pages = |table: &[i32], bit| {
                    let (pages, outside) = live_pages(table, &lens, page_size, sizes);
                    word = if outside { word.with(bit) } else { word };
                    pages
                };
                let k = pages(&ints.table_k, ErrorWord::PAGE_K);
                let v = pages(&ints.table_v, ErrorWord::PAGE_V);
                (Self { lens, rows: Rows::Paged { page_size, k, v } }, word)
            }
        }
    }

    /// Cuts sequences to the rows that exist.
    fn packed(
        side: &SideCase,
        sizes: SideSizes,
        starts: Vec<i64>,
        mut lens: Vec<u64>,
        mut word: ErrorWord,
        bits: &Bits,
    ) -> (Self, ErrorWord) {
        let limit = side.max_total().map_or(sizes.rows, |total| sizes.rows.min(total.into()));
        let mut clamped = Vec::with_capacity(starts.len());
        for (start, len) in starts.into_iter().zip(&mut lens) {
            if start < 0 || start > signed(limit) || start + signed(*len) > signed(limit) {
                word = word.with(bits.rows);
            }
            let start = u64::try_from(start).unwrap_or(0).min(limit);
            *len = (*len).min(limit - start);
            clamped.push(start);
        }
        (Self { lens, rows: Rows::Packed(clamped) }, word)
    }

    /// Element at column 0 of a row of Q, K, V or O, and elements from column to column.
    pub(crate) fn row(
        &self,
        role: Role,
        geometry: &Geometry,
        b: u64,
        h: u64,
        i: u64,
    ) -> (u64, u64) {
        let at = usize::try_from(b).unwrap_or(usize::MAX);
        let stride = |axis| geometry.stride(axis);
        match &self.rows {
            Rows::Batch => (b * stride(0) + h * stride(1) + i * stride(2), stride(3)),
            Rows::Packed(starts) => ((starts[at] + i) * stride(0) + h * stride(1), stride(2)),
            Rows::Paged { page_size, k, v } => {
                let pages = if role == Role::V { v } else { k };
                let page = pages[at][usize::try_from(i / page_size).unwrap_or(usize::MAX)];
                let row = page * stride(0) + h * stride(1) + i % page_size * stride(2);
                (row, stride(3))
            }
        }
    }

    /// Element of a row in LSE, max or sum-exp.
    pub(crate) fn row_output(&self, geometry: &Geometry, b: u64, h: u64, i: u64) -> u64 {
        match &self.rows {
            Rows::Packed(starts) if geometry.rank() == 2 => {
                let at = usize::try_from(b).unwrap_or(usize::MAX);
                (starts[at] + i) * geometry.stride(0) + h * geometry.stride(1)
            }
            _ => b * geometry.stride(0) + h * geometry.stride(1) + i * geometry.stride(2),
        }
    }

    /// Whether the rows of an output past a length belong to it and get the no-visible-key answer.
    pub(crate) fn writes_dead_rows(&self, geometry: &Geometry) -> bool {
        match self.rows {
            Rows::Batch => true,
            // Padded row outputs `[B, H, S]`; O is `[T, H, D]`, whose rank is 3 as well, so callers
            // ask for O apart.
            Rows::Packed(_) => geometry.rank() == 3,
            Rows::Paged { .. } => false,
        }
    }

    /// Whether rows are `[T, H, D]`.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.rows, Rows::Packed(_))
    }

    /// Whether two live rows are one.
    pub(crate) fn rows_overlap(&self) -> bool {
        match &self.rows {
            Rows::Batch => false,
            Rows::Packed(starts) => {
                let spans = starts.iter().zip(&self.lens).filter(|(_, len)| **len > 0);
                let mut spans: Vec<_> = spans.map(|(&start, &len)| (start, start + len)).collect();
                spans.sort_unstable();
                spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
            }
            Rows::Paged { k, v, .. } => [k, v].into_iter().any(|pages| {
                let mut pages: Vec<u64> = pages.iter().flatten().copied().collect();
                pages.sort_unstable();
                pages.windows(2).any(|pair| pair[0] == pair[1])
            }),
        }
    }
}

/// The pages that each sequence reads, moved into the pool, and whether one lay outside.
fn live_pages(
    table: &[i32],
    lens: &[u64],
    page_size: u64,
    sizes: SideSizes,
) -> (Vec<Vec<u64>>, bool) {
    let last = signed(sizes.rows) - 1;
    let mut outside = false;
    let columns = usize::try_from(sizes.pages).unwrap_or(0);
    let rows = (0..lens.len()).map(|b| &table[b * columns..][..columns]);
    let pages = rows
        .zip(lens)
        .map(|(row, len)| {
            let live = usize::try_from(len.div_ceil(page_size)).unwrap_or(0);
            row[..live]
                .iter()
                .map(|&page| {
                    outside |= i64::from(page) < 0 || i64::from(page) > last;
                    u64::try_from(i64::from(page).min(last)).unwrap_or(0)
                })
                .collect()
        })
        .collect();
    (pages, outside)
}

/// Rows and lengths are far below 2^63.
fn signed(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
