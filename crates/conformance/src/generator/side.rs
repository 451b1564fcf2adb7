//! Storage of one side, hostile data included.

use proptest::prelude::*;

use super::{MAX_BATCH, capacity};
use crate::case::{PageOrder, PoolOrder, SideCase, TableOrder};

/// A storage form.
#[derive(Clone, Copy, Debug)]
enum Form {
    Dense,
    Padded,
    Lengths,
    Prefix,
    Starts,
    Paged,
}

/// How the device tensors break their promises.
#[derive(Clone, Copy, Debug)]
enum Hostile {
    /// The length of one sequence is that negative number.
    Negative(usize, i32),
    /// The last length is above its bound, by that much.
    Above(i32),
    /// The buffers end one row before the last sequence does.
    Short,
    /// Page ids outside the pool.
    Pages,
}

/// The choices of one side.
#[derive(Clone, Debug)]
pub(super) struct SideDraw {
    form: Form,
    /// Shares of the greatest length, in thousandths.
    lengths: [u64; MAX_BATCH],
    gaps: [i32; MAX_BATCH],
    reversed: bool,
    shared: bool,
    base: i32,
    slack: u64,
    has_max_total: bool,
    promises_min: bool,
    page_size: u64,
    one_table: bool,
    table: TableOrder,
    pool: PoolOrder,
    pages: PageOrder,
    hostile: Option<Hostile>,
}

/// What a side is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideForm {
    pub(super) batch: u64,
    pub(super) seqlen: u64,
    pub(super) is_q: bool,
    /// Whether device tensors may be.
    pub(super) hostile: bool,
}

/// Both sides; that of Q is never paged.
pub(super) fn sides() -> impl Strategy<Value = (SideDraw, SideDraw)> {
    let q = prop_oneof![
        4 => Just(Form::Dense), 3 => Just(Form::Padded), 3 => Just(Form::Lengths),
        2 => Just(Form::Prefix), 1 => Just(Form::Starts)
    ];
    let kv = prop_oneof![
        4 => Just(Form::Dense), 3 => Just(Form::Padded), 2 => Just(Form::Lengths),
        2 => Just(Form::Prefix), 1 => Just(Form::Starts), 4 => Just(Form::Paged)
    ];
    (side(q), side(kv))
}

fn side(form: impl Strategy<Value = Form>) -> impl Strategy<Value = SideDraw> {
    let share = || prop_oneof![1 => Just(0_u64), 2 => Just(1000_u64), 4 => 0..=1000_u64];
    let lengths = [share(), share(), share(), share()];
    let gap = || prop_oneof![Just(0), 0..6_i32];
    let rows = ([gap(), gap(), gap(), gap()], any::<bool>(), any::<bool>());
    let base = prop_oneof![2 => Just(0), 1 => Just(1000), 1 => -50..2_000_000_000_i32];
    let limits = (prop_oneof![Just(0_u64), 0..70_u64], any::<bool>(), any::<bool>());
    let page_size = prop_oneof![Just(1_u64), Just(7), Just(16), Just(64), 1..=20_u64];
    let table = prop_oneof![Just(TableOrder::RowMajor), Just(TableOrder::ColumnMajor)];
    let pool = prop_oneof![Just(PoolOrder::Hnd), Just(PoolOrder::Nhd)];
    let pages = prop_oneof![2 => Just(PageOrder::Shuffled), 1 => Just(PageOrder::Interleaved)];
    let paging = (page_size, any::<bool>(), table, pool, pages);
    (form, lengths, rows, base, limits, paging, hostile()).prop_map(
        |(form, lengths, rows, base, limits, paging, hostile)| SideDraw {
            form,
            lengths,
            gaps: rows.0,
            reversed: rows.1,
            shared: rows.2,
            base,
            slack: limits.0,
            has_max_total: limits.1,
            promises_min: limits.2,
            page_size: paging.0,
            one_table: paging.1,
            table: paging.2,
            pool: paging.3,
            pages: paging.4,
            hostile,
        },
    )
}

fn hostile() -> impl Strategy<Value = Option<Hostile>> {
    let negative = prop_oneof![Just(-1), Just(-1000), Just(i32::MIN)];
    let above = prop_oneof![Just(1), Just(50), Just(i32::MAX)];
    prop_oneof![
        24 => Just(None),
        1 => (0..MAX_BATCH, negative).prop_map(|(at, length)| Some(Hostile::Negative(at, length))),
        1 => above.prop_map(|by| Some(Hostile::Above(by))),
        1 => Just(Some(Hostile::Short)),
        1 => Just(Some(Hostile::Pages)),
    ]
}

impl SideDraw {
    pub(super) fn side(&self, of: SideForm) -> SideCase {
        let hostile = self.hostile.filter(|_| of.hostile);
        let batch = usize::try_from(of.batch).unwrap_or(0).min(MAX_BATCH);
        let mut lengths: Vec<i32> =
            self.lengths[..batch].iter().map(|share| int32(share * of.seqlen / 1000)).collect();
        self.spoil(&mut lengths, of.seqlen, hostile);
        let known = |length: &i32| u64::try_from(*length).unwrap_or(0).min(of.seqlen);
        let sum: u64 = lengths.iter().map(known).sum();
        match self.form {
            Form::Dense => SideCase::Dense,
            Form::Padded => {
                let least = lengths.iter().copied().min().unwrap_or(0).max(0);
                let min_len = if self.promises_min { least.unsigned_abs() } else { 0 };
                let min_len = min_len.min(u32::try_from(of.seqlen).unwrap_or(u32::MAX));
                SideCase::Padded { lengths, min_len }
            }
            Form::Lengths => {
                let (max_total, capacity) = self.limits(sum, hostile);
                SideCase::PackedLengths { lengths, max_total, capacity }
            }
            Form::Prefix => {
                let (max_total, capacity) = self.limits(sum, hostile);
                SideCase::PackedPrefix {
                    lengths,
                    base: self.base,
                    prefix: None,
                    max_total,
                    capacity,
                }
            }
            Form::Starts => {
                let starts = self.starts(&lengths, of);
                let ends = starts.iter().zip(&lengths);
                let ends = ends.map(|(&start, len)| u64::try_from(start).unwrap_or(0) + known(len));
                let (max_total, capacity) = self.limits(ends.max().unwrap_or(0), hostile);
                SideCase::PackedStarts { starts, lengths, max_total, capacity }
            }
            Form::Paged => {
                let pages = of.seqlen.div_ceil(self.page_size) * of.batch;
                let outside = matches!(hostile, Some(Hostile::Pages)) && pages > 0;
                SideCase::Paged {
                    lengths,
                    page_size: self.page_size,
                    num_pages: Some(pages + self.slack % 5),
                    one_table: self.one_table,
                    table: self.table,
                    pool: self.pool,
                    pages: if outside { PageOrder::OutsideFirst } else { self.pages },
                }
            }
        }
    }

    /// Makes a length hostile. A negative one in a prefix would move the rows of its neighbours
    /// over one another, so prefixes are left alone there.
    fn spoil(&self, lengths: &mut [i32], seqlen: u64, hostile: Option<Hostile>) {
        let is_prefix = matches!(self.form, Form::Prefix);
        match hostile {
            Some(Hostile::Negative(at, length)) if !is_prefix => {
                if let Some(known) = lengths.get_mut(at) {
                    *known = length;
                }
            }
            Some(Hostile::Above(by)) => {
                let by = if is_prefix { by.min(50) } else { by };
                if let Some(last) = lengths.last_mut() {
                    *last = int32(seqlen).saturating_add(by);
                }
            }
            _ => {}
        }
    }

    /// First rows, with gaps; those of K and V may be shared.
    fn starts(&self, lengths: &[i32], of: SideForm) -> Vec<i32> {
        if self.shared && !of.is_q {
            return vec![self.gaps[0]; lengths.len()];
        }
        let mut starts = vec![0; lengths.len()];
        let mut next = 0;
        for at in 0..lengths.len() {
            let at = if self.reversed { lengths.len() - 1 - at } else { at };
            starts[at] = next + self.gaps[at];
            next = starts[at] + lengths[at].clamp(0, int32(of.seqlen));
        }
        starts
    }

    /// Limit of the total and rows of the buffers, for sequences that reach `end`. A prefix above
    /// the greatest int32 has wrapped, so its slack does not matter.
    fn limits(&self, end: u64, hostile: Option<Hostile>) -> (Option<u32>, Option<u64>) {
        let short = matches!(hostile, Some(Hostile::Short));
        let total = if short { end.saturating_sub(1) } else { end };
        let capacity = total + self.slack;
        let max_total = self.has_max_total || (short && self.slack > 0);
        (max_total.then(|| u32::try_from(total).unwrap_or(u32::MAX)), Some(capacity))
    }
}

/// Whether some sequence has live rows of both sides; Q is never short of rows here.
pub(super) fn meet(q: &SideCase, kv: &SideCase, seqlen_q: u64) -> bool {
    let Some(kv) = kv.live_lengths() else { return seqlen_q > 0 };
    let q = q.live_lengths().unwrap_or_else(|| vec![seqlen_q; kv.len()]);
    q.iter().zip(kv).any(|(&q, kv)| q > 0 && kv > 0)
}

/// A page that no query sees need not be read, and an id that is not read sets no bit: whether one
/// outside the pool is reported is then the engine's to choose.
pub(super) fn keep_pages_inside(kv: &mut SideCase) {
    if let SideCase::Paged { pages, .. } = kv
        && *pages == PageOrder::OutsideFirst
    {
        *pages = PageOrder::Shuffled;
    }
}

fn int32(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Adds the bits that the data of a side imply, from the definition of each.
pub(super) fn bits(
    side: &SideCase,
    seqlen: u64,
    [length, rows]: [&str; 2],
    word: &mut Vec<String>,
) {
    let bound = int32(seqlen);
    let (lengths, min) = match side {
        SideCase::Dense => return,
        SideCase::Padded { lengths, min_len } => (lengths, i32::try_from(*min_len).unwrap_or(0)),
        SideCase::PackedLengths { lengths, .. }
        | SideCase::PackedPrefix { lengths, .. }
        | SideCase::PackedStarts { lengths, .. }
        | SideCase::Paged { lengths, .. } => (lengths, 0),
    };
    if lengths.iter().any(|len| !(min..=bound).contains(len)) {
        word.push(length.into());
    }
    let known = lengths.iter().map(|&len| u64::try_from(len.clamp(0, bound)).unwrap_or(0));
    let (end, max_total) = match side {
        SideCase::PackedLengths { max_total, .. } | SideCase::PackedPrefix { max_total, .. } => {
            (known.sum(), max_total)
        }
        SideCase::PackedStarts { starts, max_total, .. } => {
            let ends = starts.iter().zip(known);
            let ends = ends.map(|(&start, len)| u64::try_from(start).unwrap_or(0) + len);
            (ends.max().unwrap_or(0), max_total)
        }
        SideCase::Paged { pages: PageOrder::OutsideFirst, .. } => {
            if known.max() > Some(0) {
                word.extend(["page_k".into(), "page_v".into()]);
            }
            return;
        }
        _ => return,
    };
    if end > max_total.map_or(capacity(side), |total| capacity(side).min(total.into())) {
        word.push(rows.into());
    }
}
