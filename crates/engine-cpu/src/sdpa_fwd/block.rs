//! One unit of work: some rows of Q against the keys that they see.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use frazil_core::{LseForm, SdpaFwdFacts};

use super::band::Visible;
use super::merge::{self, Partial};
use super::scratch::Scratch;
use super::setup::{Sequence, Unit, WorkShape};
use super::softmax::Total;
use super::tensors::{RowOutput, Tensors};
use crate::memory::{Output, as_usize};
use crate::support::Tile;
use crate::vector::Isa;

/// What all units of a call share.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) facts: &'a SdpaFwdFacts,
    pub(crate) tensors: Tensors,
    pub(crate) sequences: &'a [Sequence],
    pub(crate) shape: WorkShape,
    pub(crate) tile: Tile,
    pub(crate) isa: Isa,
    /// Pieces that the keys of every unit are divided into.
    pub(crate) num_pieces: u64,
    /// The error word.
    pub(crate) errors: &'a AtomicU32,
}

/// The rows of one unit. The heads that share a head of K and V are counted as rows, heads
/// innermost, so that they share tiles: row `r` is query `r / group` of the group's head
/// `r % group`.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) unit: Unit,
    pub(super) visible: Visible,
    /// Rows of sequences that have them.
    pub(super) live: Range<u64>,
    /// Rows past the sequence's length.
    dead: Range<u64>,
}

impl Work<'_> {
    fn block(&self, unit_idx: u64) -> Block<'_> {
        let unit = Unit::find(self.sequences, unit_idx, &self.shape);
        let WorkShape { group, block_m, .. } = self.shape;
        let begin = unit.tile_idx * block_m;
        let rows = self.tensors.rows_to_write(unit.sequence.q_len) * group;
        let end = rows.min(begin + block_m);
        let live_end = (unit.sequence.q_len * group).clamp(begin, end);
        let Sequence { q_len, kv_len, .. } = unit.sequence;
        let visible = Visible::new(self.shape.band, q_len.cast_signed(), kv_len.cast_signed());
        Block { work: self, unit, visible, live: begin..live_end, dead: live_end..end }
    }

    /// Works on a whole unit.
    pub(crate) fn run(&self, unit_idx: u64, scratch: &mut Scratch<'_>) {
        let block = self.block(unit_idx);
        if !block.live.is_empty() {
            block.attend(0, scratch);
            block.store(scratch);
        }
        block.store_dead();
    }

    /// Works on one piece of a unit and leaves its rows in `partial`.
    pub(crate) fn run_piece(
        &self,
        (unit_idx, piece_idx): (u64, u64),
        partial: &mut [f32],
        scratch: &mut Scratch<'_>,
    ) {
        let block = self.block(unit_idx);
        if !block.live.is_empty() {
            block.attend(piece_idx, scratch);
            block.store_partial(partial, scratch);
        }
    }

    /// Merges the pieces of a unit, which lie in `partials` one after another.
    pub(crate) fn finish(&self, unit_idx: u64, partials: &[f32], scratch: &mut Scratch<'_>) {
        let block = self.block(unit_idx);
        let (_, on_v) = block.columns();
        let piece_len = partials.len() / as_usize(self.num_pieces);
        let row_len = Partial::len(on_v);
        for (at, row) in block.live.clone().enumerate() {
            let pieces = partials.chunks_exact(piece_len);
            let pieces = pieces.map(|piece| Partial::of(&piece[at * row_len..][..row_len]));
            let o = &mut scratch.row[..on_v];
            let (max, sum) = merge::merge(pieces, o);
            let total = Total::of(max, sum);
            total.divide(o);
            block.store_row(row, o, &total);
        }
        block.store_dead();
    }
}

impl Block<'_> {
    pub(super) fn head(&self, row: u64) -> u64 {
        self.unit.kv_head * self.work.shape.group + row % self.work.shape.group
    }

    pub(super) fn query(&self, row: u64) -> u64 {
        row / self.work.shape.group
    }

    /// Writes one live row of every output.
    pub(super) fn store_row(&self, row: u64, o: &[f32], total: &Total) {
        let tensors = &self.work.tensors;
        let Sequence { batch_idx, q_start, .. } = self.unit.sequence;
        let index = tensors.q_row(batch_idx, self.head(row), q_start, self.query(row));
        tensors.o.write(index, o);
        self.store_total(row, total);
    }

    /// Rows past the length, in every output that has a place for them.
    fn store_dead(&self) {
        let tensors = &self.work.tensors;
        for row in self.dead.clone() {
            if tensors.o_has_dead_rows() {
                let index = [self.unit.sequence.batch_idx, self.head(row), self.query(row)];
                tensors.o.write_zeros(index);
            }
            self.store_total(row, &Total::DEAD);
        }
    }

    fn store_total(&self, row: u64, total: &Total) {
        let Work { facts, tensors, .. } = self.work;
        #[expect(clippy::cast_possible_truncation, reason = "rounded to the type of the output")]
        let lse = match facts.lse() {
            Some(LseForm::Base2) => (total.lse * std::f64::consts::LOG2_E) as f32,
            _ => total.lse as f32,
        };
        let values =
            [(tensors.lse, lse), (tensors.max, total.max), (tensors.sum_exp, total.sum_exp)];
        for (row_output, value) in values {
            if let Some(RowOutput { output, packed }) = row_output {
                self.store_value(row, &output, packed, value);
            }
        }
    }

    fn store_value(&self, row: u64, output: &Output, packed: bool, value: f32) {
        let (head, query) = (self.head(row), self.query(row));
        let Sequence { batch_idx, q_start, q_len, .. } = self.unit.sequence;
        if !packed {
            // Outputs of packed Q may differ in the rows they have places for.
            if query < output.extents()[2] {
                output.write([batch_idx, head, query], &[value]);
            }
        } else if query < q_len {
            output.write([0, head, q_start + query], &[value]);
        }
    }

    /// Head dims of Q and K, and of V and O.
    pub(super) fn columns(&self) -> (usize, usize) {
        let shape = self.work.facts.shape();
        (as_usize(shape.head_dim_qk), as_usize(shape.head_dim_v))
    }

    pub(super) fn num_rows(&self) -> usize {
        as_usize(self.live.end - self.live.start)
    }
}

/// Keys of a range; it is not larger than a tile.
pub(super) fn count(keys: &Range<i64>) -> usize {
    usize::try_from(keys.end - keys.start).unwrap_or(0)
}
