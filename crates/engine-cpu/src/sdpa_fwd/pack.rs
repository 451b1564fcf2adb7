//! Rows of K and V: gathered into f32 tiles, or found where they lie.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::few_products::Ahead;
use super::tensors::Rows;
use crate::memory::{Element, Strided, as_usize};
use crate::vector::Isa;

/// Copies rows into `to`, `pitch` elements apart; zeros where there is none.
pub(crate) fn gather(
    isa: Isa,
    (rows, which): (&Rows<'_>, Range<u64>),
    (to, columns, pitch): (&mut [f32], usize, usize),
    errors: &AtomicU32,
) {
    let mut to = to.chunks_exact_mut(pitch);
    let mut row = which.start;
    while row < which.end {
        let found = rows.find(row, errors);
        let count = found.map_or(which.end - row, |(_, count)| count.min(which.end - row));
        for (at, to) in (0..count).zip(to.by_ref()) {
            match found {
                Some(([outer, head, first], _)) => {
                    rows.tensor.read(isa, [outer, head, first + at], 0, &mut to[..columns]);
                }
                None => to[..columns].fill(0.0),
            }
        }
        row += count;
    }
}

/// Gives rows where they lie, run by run: where a run is among all of them, and its rows. The tensor
/// is of that type and [contiguous](Rows::contiguous).
pub(crate) fn for_each_run<T: Element>(
    (rows, which): (&Rows<'_>, Range<u64>),
    errors: &AtomicU32,
    mut take: impl FnMut(Range<usize>, Strided<'_, T>),
) {
    let mut row = which.start;
    while row < which.end {
        let Some((first, count)) = rows.find(row, errors) else { return };
        let count = count.min(which.end - row);
        let (begin, end) = (row - which.start, row - which.start + count);
        take(as_usize(begin)..as_usize(end), rows.tensor.strided(first, count));
        row += count;
    }
}

/// As many rows from one on as lie together, at most `num_rows`, to be asked for ahead of their use.
pub(crate) fn ahead((rows, row): (&Rows<'_>, u64), num_rows: usize, errors: &AtomicU32) -> Ahead {
    let found = rows.contiguous().filter(|_| row < rows.len).and_then(|_| rows.find(row, errors));
    let Some((first, count)) = found else { return Ahead::NOTHING };
    let count = count.min(rows.len - row);
    let [address, pitch, row_bytes] = rows.tensor.span(first);
    let num_rows = usize::try_from(count).map_or(num_rows, |count| count.min(num_rows));
    Ahead { address, pitch, num_rows, row_bytes }
}
