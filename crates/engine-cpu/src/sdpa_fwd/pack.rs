//! Rows of Q, K and V, gathered into f32 tiles.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::tensors::Rows;
use crate::vector::{Isa, PANEL};

/// Reads one row; zeros where there is none.
fn read(isa: Isa, rows: &Rows<'_>, row: u64, errors: &AtomicU32, to: &mut [f32]) {
    match rows.find(row, errors) {
        Some(index) => rows.tensor.read(isa, index, 0, to),
        None => to.fill(0.0),
    }
}

/// Rows of K as columns of `to`, which are `pitch` elements apart from row to row.
pub(crate) fn transposed(
    isa: Isa,
    (rows, which): (&Rows<'_>, Range<u64>),
    panel: &mut [f32],
    (to, pitch): (&mut [f32], usize),
    errors: &AtomicU32,
) {
    let columns = panel.len() / PANEL;
    for (first, at) in which.clone().step_by(PANEL).zip((0..).step_by(PANEL)) {
        for (row, to) in (first..which.end).zip(panel.chunks_exact_mut(columns)) {
            read(isa, rows, row, errors, to);
        }
        // Columns past the last row repeat older ones; no product reads them.
        isa.transpose_panel(panel, &mut to[at..], pitch);
    }
}

/// Rows of V, `pitch` elements apart.
pub(crate) fn rows(
    isa: Isa,
    (rows, which): (&Rows<'_>, Range<u64>),
    (to, columns, pitch): (&mut [f32], usize, usize),
    errors: &AtomicU32,
) {
    for (row, to) in which.zip(to.chunks_exact_mut(pitch)) {
        read(isa, rows, row, errors, &mut to[..columns]);
    }
}
