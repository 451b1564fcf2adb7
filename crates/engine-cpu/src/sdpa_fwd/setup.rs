//! Where each sequence lies and how much work it is, read from the device tensors.

use std::cmp::Reverse;

use frazil_core::{Band, Call, ErrorWord, Role, SdpaFwdFacts, SideFacts};

use super::band::Visible;
use super::tensors::Tensors;
use crate::memory::{Ints, Plain};

/// One sequence of a call, every number within its bounds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Position in the batch.
    pub(crate) batch_idx: u64,
    /// First row in packed Q; 0 otherwise.
    pub(crate) q_start: u64,
    /// Live rows of Q.
    pub(crate) q_len: u64,
    /// First row in packed K and V; 0 otherwise.
    pub(crate) kv_start: u64,
    /// Live rows of K and V.
    pub(crate) kv_len: u64,
    /// Units of this sequence and of all that are worked on before it.
    pub(crate) units_end: u64,
}

// SAFETY: six numbers of one size, every bit pattern of which is a value.
unsafe impl Plain for Sequence {}

/// One tile of rows of Q against one head of K and V.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) sequence: Sequence,
    /// Head of K and V.
    pub(crate) kv_head: u64,
    /// Which tile of rows of Q.
    pub(crate) tile_idx: u64,
}

impl Unit {
    /// The unit of that number, in the order of the work: the longest first.
    pub(crate) fn find(sequences: &[Sequence], number: u64, work: &WorkShape) -> Self {
        let at = sequences.partition_point(|sequence| sequence.units_end <= number);
        let sequence = sequences[at];
        let begin = at.checked_sub(1).map_or(0, |before| sequences[before].units_end);
        let num_tiles = (sequence.units_end - begin) / work.num_kv_heads;
        let tile_idx = (number - begin) / work.num_kv_heads;
        let kv_head = (number - begin) % work.num_kv_heads;
        // Under a causal band the last tiles are the longest, under its mirror image the first.
        let [of_first, of_last] = work.costs(&sequence);
        let tile_idx = if of_first < of_last { num_tiles - 1 - tile_idx } else { tile_idx };
        Self { sequence, kv_head, tile_idx }
    }
}

/// What the cost of a unit follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkShape {
    pub(crate) band: Option<Band>,
    pub(crate) num_kv_heads: u64,
    /// Heads of Q that share one of K and V.
    pub(crate) group: u64,
    /// Rows of a tile, the heads of a group counted as rows.
    pub(crate) block_m: u64,
}

impl WorkShape {
    /// Keys that the first tile of a sequence sees, and the last.
    pub(crate) fn costs(&self, sequence: &Sequence) -> [u64; 2] {
        let (len_q, len_kv) = (sequence.q_len.cast_signed(), sequence.kv_len.cast_signed());
        if len_q == 0 {
            return [0, 0];
        }
        let visible = Visible::new(self.band, len_q, len_kv);
        let rows = self.block_m.div_ceil(self.group).cast_signed().min(len_q);
        [0..rows, len_q - rows..len_q].map(|queries| {
            let keys = visible.of(queries);
            keys.end.abs_diff(keys.start)
        })
    }
}

/// Fills in `sequences`, one for each of the call's batch, in the order of the work, and says what
/// was out of bounds.
pub(crate) fn place_all(
    call: &Call<'_>,
    facts: &SdpaFwdFacts,
    tensors: &Tensors,
    work: &WorkShape,
    sequences: &mut [Sequence],
) -> ErrorWord {
    let mut q = Side::of(call, &facts.q_side(), &Q_ROLES, tensors.q_rows());
    let mut kv = Side::of(call, &facts.kv_side(), &KV_ROLES, tensors.kv_rows());
    let mut errors = ErrorWord::NONE;
    for (batch_idx, sequence) in (0..).zip(&mut *sequences) {
        let (on_q, on_kv) = (q.place(batch_idx), kv.place(batch_idx));
        errors = errors.with(on_q.errors).with(on_kv.errors);
        *sequence = Sequence {
            batch_idx,
            q_start: on_q.start,
            q_len: on_q.len,
            kv_start: on_kv.start,
            kv_len: on_kv.len,
            units_end: 0,
        };
    }
    order(work, sequences, |len| tensors.rows_to_write(len));
    errors
}

/// Sorts by the cost of a unit, the greatest first, so that what is left at the end is small, and
/// counts the units.
fn order(work: &WorkShape, sequences: &mut [Sequence], rows_to_write: impl Fn(u64) -> u64) {
    sequences.sort_unstable_by_key(|sequence| {
        let [of_first, of_last] = work.costs(sequence);
        (Reverse(of_first.max(of_last)), sequence.batch_idx)
    });
    let mut units_end = 0_u64;
    for sequence in sequences {
        let rows = rows_to_write(sequence.q_len).saturating_mul(work.group);
        let units = rows.div_ceil(work.block_m).saturating_mul(work.num_kv_heads);
        units_end = units_end.saturating_add(units);
        sequence.units_end = units_end;
    }
}

/// Roles and error bits of one side.
struct Roles {
    lengths: Role,
    prefix: Role,
    starts: Role,
    bad_length: ErrorWord,
    bad_rows: ErrorWord,
}

const Q_ROLES: Roles = Roles {
    lengths: Role::QLengths,
    prefix: Role::QPrefix,
    starts: Role::QStarts,
    bad_length: ErrorWord::Q_LENGTH,
    bad_rows: ErrorWord::Q_ROWS,
};

const KV_ROLES: Roles = Roles {
    lengths: Role::KvLengths,
    prefix: Role::KvPrefix,
    starts: Role::KvStarts,
    bad_length: ErrorWord::KV_LENGTH,
    bad_rows: ErrorWord::KV_ROWS,
};

/// What says where the rows of a side are.
enum Source {
    Dense,
    Lengths(Ints),
    /// Packed; the sum of the lengths so far, as they were read, negative ones as 0.
    Sum(Ints, i64),
    Prefix(Ints),
    Starts(Ints, Ints),
}

/// One side of a call.
struct Side<'a> {
    source: Source,
    limits: Limits,
    roles: &'a Roles,
}

impl<'a> Side<'a> {
    /// `rows`: what the tensors of this side hold, for each sequence or, packed, in all.
    fn of(call: &Call<'_>, facts: &SideFacts, roles: &'a Roles, rows: u64) -> Self {
        let lengths = Ints::vector(call, roles.lengths);
        let prefix = Ints::vector(call, roles.prefix);
        let starts = Ints::vector(call, roles.starts);
        let source = match (lengths, prefix, starts) {
            (Some(lengths), _, Some(starts)) => Source::Starts(starts, lengths),
            (Some(lengths), ..) if facts.is_packed() => Source::Sum(lengths, 0),
            (Some(lengths), ..) => Source::Lengths(lengths),
            (None, Some(prefix), _) => Source::Prefix(prefix),
            (None, None, _) => Source::Dense,
        };
        let (min, max) =
            facts.bounds().map_or((0, rows), |bounds| (bounds.min.into(), bounds.max.into()));
        let limits = match *facts {
            SideFacts::PackedLengths { max_total, .. }
            | SideFacts::PackedPrefix { max_total, .. }
            | SideFacts::PackedStarts { max_total, .. } => {
                Limits { min, max, capacity: rows.min(max_total.into()) }
            }
            _ => Limits { min, max: rows.min(max), capacity: rows },
        };
        Self { source, limits, roles }
    }

    fn place(&mut self, batch_idx: u64) -> Placed {
        let (start, len) = match &mut self.source {
            Source::Dense => {
                return Placed { start: 0, len: self.limits.max, errors: ErrorWord::NONE };
            }
            Source::Lengths(lengths) => (0, lengths.get(0, batch_idx)),
            Source::Sum(lengths, sum) => {
                let len = lengths.get(0, batch_idx);
                let start = *sum;
                *sum += len.max(0);
                (start, len)
            }
            Source::Prefix(prefix) => {
                let begin = prefix.get(0, batch_idx);
                (begin - prefix.get(0, 0), prefix.get(0, batch_idx + 1) - begin)
            }
            Source::Starts(starts, lengths) => {
                (starts.get(0, batch_idx), lengths.get(0, batch_idx))
            }
        };
        self.limits.place(start, len, self.roles)
    }
}

/// Bounds of one side.
#[derive(Clone, Copy, Debug)]
struct Limits {
    min: u64,
    max: u64,
    /// Rows that sequences may reach.
    capacity: u64,
}

/// A sequence on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    start: u64,
    len: u64,
    errors: ErrorWord,
}

impl Limits {
    /// Clamps what was read; both numbers come from sums of int32, far from the ends of an i64.
    fn place(self, start: i64, len: i64, roles: &Roles) -> Placed {
        let known_len = u64::try_from(len).unwrap_or(0);
        let bounded_len = known_len.min(self.max);
        let bounded_start = u64::try_from(start).unwrap_or(0).min(self.capacity);
        let kept = bounded_len.min(self.capacity - bounded_start);
        let mut errors = ErrorWord::NONE;
        if len < 0 || known_len < self.min || bounded_len < known_len {
            errors = errors.with(roles.bad_length);
        }
        if u64::try_from(start) != Ok(bounded_start) || kept < bounded_len {
            errors = errors.with(roles.bad_rows);
        }
        Placed { start: bounded_start, len: kept, errors }
    }
}

#[cfg(test)]
mod tests {
    use frazil_core::Align;

    use super::*;

    const LIMITS: Limits = Limits { min: 2, max: 10, capacity: 30 };
    const FINE: ErrorWord = ErrorWord::NONE;
    const LENGTH: ErrorWord = ErrorWord::Q_LENGTH;
    const ROWS: ErrorWord = ErrorWord::Q_ROWS;

    #[test]
    fn what_is_out_of_bounds_is_clamped_and_named() {
        let both = LENGTH.with(ROWS);
        let cases = [
            ((0, 10), (0, 10, FINE)),
            ((20, 10), (20, 10, FINE)),
            ((30, 2), (30, 0, ROWS)),
            ((0, 1), (0, 1, LENGTH)),
            ((0, 0), (0, 0, LENGTH)),
            ((0, -1), (0, 0, LENGTH)),
            ((0, 11), (0, 10, LENGTH)),
            ((21, 10), (21, 9, ROWS)),
            ((-5, 4), (0, 4, ROWS)),
            ((31, 4), (30, 0, ROWS)),
            ((i64::from(i32::MAX) * 2, i64::from(i32::MIN) * 2), (30, 0, both)),
            ((i64::from(i32::MIN) * 2, i64::from(i32::MAX) * 2), (0, 10, both)),
        ];
        for ((start, len), (bounded_start, bounded_len, errors)) in cases {
            let expected = Placed { start: bounded_start, len: bounded_len, errors };
            assert_eq!(LIMITS.place(start, len, &Q_ROLES), expected, "{start} {len}");
        }
    }

    #[test]
    fn no_capacity_leaves_nothing() {
        let limits = Limits { min: 0, max: 0, capacity: 0 };
        assert_eq!(limits.place(0, 0, &Q_ROLES), Placed { start: 0, len: 0, errors: FINE });
        let hostile = limits.place(7, 7, &Q_ROLES);
        assert_eq!((hostile.start, hostile.len), (0, 0));
    }

    fn sequence(batch_idx: u64, q_len: u64, kv_len: u64) -> Sequence {
        Sequence { batch_idx, q_len, kv_len, ..Sequence::default() }
    }

    /// Units as (position in the batch, head, tile), in the order of the work.
    fn units(band: Option<Band>, lens: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
        let work = WorkShape { band, num_kv_heads: 2, group: 1, block_m: 10 };
        let mut sequences: Vec<Sequence> =
            (0..).zip(lens).map(|(at, &(q_len, kv_len))| sequence(at, q_len, kv_len)).collect();
        order(&work, &mut sequences, |len| len);
        let num_units = sequences.last().map_or(0, |last| last.units_end);
        (0..num_units)
            .map(|number| Unit::find(&sequences, number, &work))
            .map(|unit| (unit.sequence.batch_idx, unit.kv_head, unit.tile_idx))
            .collect()
    }

    #[test]
    fn every_unit_is_found_once_past_empty_sequences() {
        let found = units(None, &[(0, 9), (30, 5), (0, 0), (11, 5)]);
        let mut sorted = found.clone();
        sorted.sort_unstable();
        let tiles = |batch_idx, num_tiles| {
            (0..2).flat_map(move |head| (0..num_tiles).map(move |tile| (batch_idx, head, tile)))
        };
        assert_eq!(sorted, tiles(1, 3).chain(tiles(3, 2)).collect::<Vec<_>>());
    }

    #[test]
    fn the_longest_unit_is_worked_on_first() {
        let causal = Some(Band::causal(Align::TopLeft));
        let tiles = |found: Vec<(u64, u64, u64)>| -> Vec<(u64, u64)> {
            found.into_iter().step_by(2).map(|(batch_idx, _, tile)| (batch_idx, tile)).collect()
        };
        assert_eq!(
            tiles(units(causal, &[(20, 20), (40, 40)])),
            [(1, 3), (1, 2), (1, 1), (1, 0), (0, 1), (0, 0)]
        );
        let mirrored = Some(Band { align: Align::TopLeft, left: Some(0), right: None });
        assert_eq!(tiles(units(mirrored, &[(30, 30)])), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(tiles(units(None, &[(10, 3), (10, 500), (10, 40)])), [(1, 0), (2, 0), (0, 0)]);
    }
}
