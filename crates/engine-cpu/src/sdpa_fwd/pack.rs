//! Rows of K and V, gathered into f32 tiles.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::tensors::Rows;
use crate::vector::Isa;

/// Copies rows into `to`, `pitch` elements apart; zeros where there is none.
pub(crate) fn rows(
    isa: Isa,
    (rows, which): (&Rows<'_>, Range<u64>),
    (to, columns, pitch): (&mut [f32], usize, usize),
    errors: &AtomicU32,
) {
    for (row, to) in which.zip(to.chunks_exact_mut(pitch)) {
        match rows.find(row, errors) {
            Some(index) => rows.tensor.read(isa, index, 0, &mut to[..columns]),
            None => to[..columns].fill(0.0),
        }
    }
}
