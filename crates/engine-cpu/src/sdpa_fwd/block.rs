//! One unit of work: some rows of Q against all keys that they see.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use frazil_core::{LseForm, SdpaFwdFacts};

use super::band::Visible;
use super::pack;
use super::scratch::{Scratch, pitch};
use super::setup::{Sequence, Unit};
use super::softmax::{self, Row, Total};
use super::tensors::{RowOutput, Tensors};
use crate::gemm::{self, Shape};
use crate::memory::{Output, as_usize};
use crate::support::Tile;
use crate::vector::{Isa, PANEL};

/// What all units of a call share.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) facts: &'a SdpaFwdFacts,
    pub(crate) tensors: Tensors,
    pub(crate) sequences: &'a [Sequence],
    pub(crate) tile: Tile,
    pub(crate) isa: Isa,
    /// The error word.
    pub(crate) errors: &'a AtomicU32,
}

/// The rows of one unit. The heads that share a head of K and V are counted as rows, heads
/// innermost, so that they share packed tiles: row `r` is query `r / group` of the group's head
/// `r % group`.
#[derive(Debug)]
struct Block<'a> {
    work: &'a Work<'a>,
    unit: Unit,
    sequence: Sequence,
    /// Heads of Q that share one of K and V.
    group: u64,
    visible: Visible,
    /// Rows of sequences that have them.
    live: Range<u64>,
    /// Rows past the sequence's length.
    dead: Range<u64>,
}

impl Work<'_> {
    /// Works on the unit of that number.
    pub(crate) fn run(&self, number: u64, scratch: &mut Scratch<'_>) {
        let shape = self.facts.shape();
        let unit = Unit::find(self.sequences, number, shape.num_kv_heads);
        let sequence = self.sequences[as_usize(unit.batch_idx)];
        let group = shape.num_q_heads / shape.num_kv_heads;
        let begin = unit.tile_idx * self.tile.block_m as u64;
        let rows = self.tensors.rows_to_write(sequence.q_len) * group;
        let end = rows.min(begin + self.tile.block_m as u64);
        let live_end = (sequence.q_len * group).clamp(begin, end);
        let (len_q, len_kv) = (sequence.q_len.cast_signed(), sequence.kv_len.cast_signed());
        let visible = Visible::new(self.facts.band(), len_q, len_kv);
        let (live, dead) = (begin..live_end, live_end..end);
        let block = Block { work: self, unit, sequence, group, visible, live, dead };
        if !block.live.is_empty() {
            block.attend(scratch);
            block.store(scratch);
        }
        block.store_dead();
    }
}

impl Block<'_> {
    fn head(&self, row: u64) -> u64 {
        self.unit.kv_head * self.group + row % self.group
    }

    fn query(&self, row: u64) -> u64 {
        row / self.group
    }

    /// Leaves max, sum and the weighted sum of V of every live row in scratch.
    fn attend(&self, scratch: &mut Scratch<'_>) {
        self.start(scratch);
        let queries = self.query(self.live.start)..self.query(self.live.end - 1) + 1;
        let keys = self.visible.of(queries.start.cast_signed()..queries.end.cast_signed());
        for first in keys.clone().step_by(self.work.tile.block_n) {
            let end = keys.end.min(first + self.work.tile.block_n as i64);
            self.score(scratch, first..end);
            self.weigh(scratch, first..end);
            self.accumulate(scratch, first..end);
        }
    }

    fn start(&self, scratch: &mut Scratch<'_>) {
        let Work { tensors, isa, .. } = self.work;
        let (on_q, on_v) = self.columns();
        let Unit { batch_idx, .. } = self.unit;
        for (at, row) in self.live.clone().enumerate() {
            let head = self.head(row);
            let index = tensors.q_row(batch_idx, head, self.sequence.q_start, self.query(row));
            tensors.q.read(*isa, index, 0, &mut scratch.q[at * on_q..][..on_q]);
            let sink = tensors.sink.map(|sink| sink.read_value(*isa, [0, head, 0]));
            (scratch.max[at], scratch.sum[at]) = softmax::start(sink);
        }
        scratch.o[..self.num_rows() * on_v].fill(0.0);
    }

    /// Scores of one tile of keys, scaled.
    fn score(&self, scratch: &mut Scratch<'_>, keys: Range<i64>) {
        let Work { facts, tensors, isa, errors, .. } = self.work;
        let (on_q, _) = self.columns();
        let pitch_n = pitch(self.work.tile.block_n);
        let num_keys = count(&keys);
        let rows = tensors.keys(self.unit.batch_idx, self.unit.kv_head, self.sequence.kv_start);
        let which = keys.start.cast_unsigned()..keys.end.cast_unsigned();
        let panel = &mut scratch.panel[..on_q * PANEL];
        pack::transposed(*isa, (&rows, which), panel, (scratch.k, pitch_n), errors);
        let rows = self.num_rows();
        gemm::multiply(
            gemm::Store::Scaled(facts.softmax_scale()),
            (scratch.q, Shape { rows, columns: on_q, pitch: on_q }),
            (scratch.k, Shape { rows: on_q, columns: num_keys, pitch: pitch_n }),
            (scratch.scores, Shape { rows, columns: num_keys, pitch: pitch_n }),
        );
    }

    /// Turns scores into weights, row by row.
    fn weigh(&self, scratch: &mut Scratch<'_>, keys: Range<i64>) {
        let (_, on_v) = self.columns();
        for (at, row) in self.live.clone().enumerate() {
            let query = self.query(row).cast_signed();
            let seen = self.visible.of(query..query + 1);
            let seen = seen.start.clamp(keys.start, keys.end)..seen.end.clamp(keys.start, keys.end);
            let scores = &mut scratch.scores[at * pitch(self.work.tile.block_n)..][..count(&keys)];
            let visible = count(&(keys.start..seen.start))..count(&(keys.start..seen.end));
            if !visible.is_empty() {
                self.modify(&mut scores[visible.clone()], scratch.bias, row, seen.start);
            }
            let (max, sum) = (&mut scratch.max[at], &mut scratch.sum[at]);
            let o = &mut scratch.o[at * on_v..][..on_v];
            Row { max, sum, o }.fold(self.work.isa, scores, visible);
        }
    }

    /// Soft cap, bias and ALiBi on the visible scores of a row, the first of which is of `key`.
    fn modify(&self, scores: &mut [f32], bias_row: &mut [f32], row: u64, key: i64) {
        let Work { facts, tensors, isa, .. } = self.work;
        let (head, query) = (self.head(row), self.query(row));
        if let Some(cap) = facts.soft_cap() {
            isa.soft_cap(scores, cap);
        }
        if let Some(bias) = &tensors.bias {
            let index = bias.broadcast([self.unit.batch_idx, head, query]);
            let bias_row = &mut bias_row[..scores.len()];
            bias.read(*isa, index, key.cast_unsigned(), bias_row);
            isa.add(scores, bias_row);
        }
        if let (Some(slopes), Some(align)) = (&tensors.alibi_slopes, facts.alibi()) {
            let slope = slopes.read_value(*isa, [self.unit.batch_idx, head, 0]);
            let Sequence { q_len, kv_len, .. } = self.sequence;
            let off = align.offset(q_len.cast_signed(), kv_len.cast_signed());
            #[expect(clippy::cast_precision_loss, reason = "distances above 2^24 are rounded")]
            isa.alibi(scores, slope, (key - query.cast_signed() - off) as f32);
        }
    }

    /// Adds the weighted rows of V of one tile of keys.
    fn accumulate(&self, scratch: &mut Scratch<'_>, keys: Range<i64>) {
        let Work { tensors, isa, errors, .. } = self.work;
        let (_, on_v) = self.columns();
        let num_keys = count(&keys);
        let rows = tensors.values(self.unit.batch_idx, self.unit.kv_head, self.sequence.kv_start);
        let which = keys.start.cast_unsigned()..keys.end.cast_unsigned();
        pack::rows(*isa, (&rows, which), (scratch.v, on_v, pitch(on_v)), errors);
        let rows = self.num_rows();
        let pitch_n = pitch(self.work.tile.block_n);
        gemm::multiply(
            gemm::Store::Added,
            (scratch.scores, Shape { rows, columns: num_keys, pitch: pitch_n }),
            (scratch.v, Shape { rows: num_keys, columns: on_v, pitch: pitch(on_v) }),
            (scratch.o, Shape { rows, columns: on_v, pitch: on_v }),
        );
    }

    fn store(&self, scratch: &mut Scratch<'_>) {
        let Work { tensors, isa, .. } = self.work;
        let (_, on_v) = self.columns();
        for (at, row) in self.live.clone().enumerate() {
            let total = Total::of(scratch.max[at], scratch.sum[at]);
            let o = &mut scratch.o[at * on_v..][..on_v];
            match total.factor {
                Some(factor) => isa.scale(o, factor),
                None => o.fill(0.0),
            }
            let (head, query) = (self.head(row), self.query(row));
            let index = tensors.q_row(self.unit.batch_idx, head, self.sequence.q_start, query);
            tensors.o.write(index, o);
            self.store_total(row, &total);
        }
    }

    /// Rows past the length, in every output that has a place for them.
    fn store_dead(&self) {
        let tensors = &self.work.tensors;
        for row in self.dead.clone() {
            if tensors.o_has_dead_rows() {
                let index = [self.unit.batch_idx, self.head(row), self.query(row)];
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
        if !packed {
            // Outputs of packed Q may differ in the rows they have places for.
            if query < output.extents()[2] {
                output.write([self.unit.batch_idx, head, query], &[value]);
            }
        } else if query < self.sequence.q_len {
            output.write([0, head, self.sequence.q_start + query], &[value]);
        }
    }

    /// Head dims of Q and K, and of V and O.
    fn columns(&self) -> (usize, usize) {
        let shape = self.work.facts.shape();
        (as_usize(shape.head_dim_qk), as_usize(shape.head_dim_v))
    }

    fn num_rows(&self) -> usize {
        as_usize(self.live.end - self.live.start)
    }
}

/// Keys of a range; it is not larger than a tile.
fn count(keys: &Range<i64>) -> usize {
    usize::try_from(keys.end - keys.start).unwrap_or(0)
}
