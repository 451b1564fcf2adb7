//! A unit's rows against the keys that they see.

use std::ops::Range;

use super::block::{Block, Work, count};
use super::few::MAX_FEW;
use super::merge::{self, Partial};
use super::pack;
use super::panel::{Accumulate, Alibi, Fold, Hide, Matrix, Score, SoftCap};
use super::scratch::{Scratch, padded, pitch};
use super::setup::{Sequence, Unit};
use super::softmax::{self, Total};
use crate::vector::MAX_ROWS;

/// Some rows of a block, as lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    /// The first of them, counted from the block's first live row.
    pub(super) first: usize,
    pub(super) num_rows: usize,
    /// Whole vectors.
    pub(super) lanes: usize,
    form: Form,
}

/// How Q and O of a panel lie in scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `[column][lane]`.
    Lanes,
    /// `[row][column]`: the few rows of a whole unit.
    Rows,
}

impl Panel {
    /// The panel's part of a scratch that holds `columns` numbers for each row.
    fn part(self, columns: usize) -> Range<usize> {
        self.first * columns..(self.first + self.lanes) * columns
    }

    /// Where the number of a lane and column lies.
    fn at(self, columns: usize, column: usize, lane: usize) -> usize {
        match self.form {
            Form::Lanes => self.first * columns + column * self.lanes + lane,
            Form::Rows => lane * columns + column,
        }
    }
}

impl Block<'_> {
    /// Leaves max, sum and the weighted sum of V of every live row, over one piece of the keys, in
    /// scratch.
    pub(super) fn attend(&self, piece_idx: u64, scratch: &mut Scratch<'_>) {
        self.panels().for_each(|panel| self.start(panel, piece_idx, scratch));
        let keys = self.visible.of(self.queries(0, self.num_rows()));
        let piece = (piece_idx, self.work.num_pieces);
        let keys = merge::piece_of(keys, piece, self.work.tile.block_n as u64);
        let few = self.panels().find(|panel| panel.form == Form::Rows);
        let block_n = few.map_or(self.work.tile.block_n, |_| self.few_keys());
        for first in keys.clone().step_by(block_n) {
            let tile = first..keys.end.min(first + block_n as i64);
            if let Some(panel) = few {
                self.step_few(panel, &tile, scratch);
                continue;
            }
            self.gather(&tile, scratch);
            self.panels().for_each(|panel| self.step(panel, &tile, scratch));
        }
    }

    fn panels(&self) -> impl Iterator<Item = Panel> + use<> {
        let (isa, num_rows) = (self.work.isa, self.num_rows());
        let form = if num_rows <= MAX_FEW { Form::Rows } else { Form::Lanes };
        (0..num_rows).step_by(isa.max_lanes()).map(move |first| {
            let num_rows = isa.max_lanes().min(num_rows - first);
            Panel { first, num_rows, lanes: num_rows.next_multiple_of(isa.lanes()), form }
        })
    }

    /// Turns rows of Q into lanes.
    fn start(&self, panel: Panel, piece_idx: u64, scratch: &mut Scratch<'_>) {
        let tensors = &self.work.tensors;
        let (on_q, on_v) = self.columns();
        scratch.q[panel.part(on_q)].fill(0.0);
        scratch.o[panel.part(padded(on_v))].fill(0.0);
        scratch.max[panel.part(1)].fill(f32::NEG_INFINITY);
        scratch.sum[panel.part(1)].fill(0.0);
        for lane in 0..panel.num_rows {
            let row = self.live.start + (panel.first + lane) as u64;
            let (head, query) = (self.head(row), self.query(row));
            let Sequence { batch_idx, q_start, .. } = self.unit.sequence;
            let index = tensors.q_row(batch_idx, head, q_start, query);
            tensors.q.read(self.work.isa, index, 0, &mut scratch.row[..on_q]);
            for (column, &number) in scratch.row[..on_q].iter().enumerate() {
                scratch.q[panel.at(on_q, column, lane)] = number;
            }
            // The sink counts once.
            let sink = tensors.sink.filter(|_| piece_idx == 0);
            let sink = sink.map(|sink| sink.read_value(self.work.isa, [0, head, 0]));
            let at = panel.first + lane;
            (scratch.max[at], scratch.sum[at]) = softmax::start(sink);
        }
    }

    /// One tile of K and V as f32.
    fn gather(&self, tile: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Work { tensors, isa, errors, .. } = self.work;
        let (on_q, on_v) = self.columns();
        let Unit { sequence, kv_head, .. } = self.unit;
        let which = tile.start.cast_unsigned()..tile.end.cast_unsigned();
        let keys = tensors.keys(&sequence, kv_head);
        pack::gather(*isa, (&keys, which.clone()), (scratch.k, on_q, pitch(on_q)), errors);
        let values = tensors.values(&sequence, kv_head);
        pack::gather(*isa, (&values, which), (scratch.v, on_v, pitch(on_v)), errors);
    }

    /// One panel against the keys of a tile that it sees.
    fn step(&self, panel: Panel, tile: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Work { facts, isa, .. } = self.work;
        let (on_q, on_v) = self.columns();
        let seen = self.visible.of(self.queries(panel.first, panel.num_rows));
        let keys = seen.start.max(tile.start)..seen.end.min(tile.end);
        let (skipped, num_keys) = (count(&(tile.start..keys.start)), count(&keys));
        if num_keys == 0 {
            return;
        }
        let lanes = panel.lanes;
        isa.run(
            lanes,
            Score {
                k: Matrix { numbers: &scratch.k[skipped * pitch(on_q)..], pitch: pitch(on_q) },
                num_keys,
                q: &scratch.q[panel.part(on_q)],
                scale: facts.softmax_scale(),
                scores: &mut scratch.scores[..(num_keys + MAX_ROWS) * lanes],
            },
        );
        self.modify(panel, &keys, scratch);
        self.hide(panel, &keys, scratch);
        let rows = panel.part(1);
        let scores = &mut scratch.scores[..num_keys * lanes];
        let correction = &mut scratch.correction[..lanes];
        let (max, sum) = (&mut scratch.max[rows.clone()], &mut scratch.sum[rows]);
        isa.run(lanes, Fold { scores, max, sum, correction });
        let v = &scratch.v[skipped * pitch(on_v)..][..num_keys * pitch(on_v)];
        isa.run(
            lanes,
            Accumulate {
                v: Matrix { numbers: v, pitch: pitch(on_v) },
                weights: &scratch.scores[..num_keys * lanes],
                correction: &scratch.correction[..lanes],
                num_columns: on_v,
                o: &mut scratch.o[panel.part(padded(on_v))],
            },
        );
    }

    /// Soft cap, bias and ALiBi.
    fn modify(&self, panel: Panel, keys: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Work { facts, tensors, isa, .. } = self.work;
        let batch_idx = self.unit.sequence.batch_idx;
        let scores = &mut scratch.scores[..count(keys) * panel.lanes];
        if let Some(cap) = facts.soft_cap() {
            isa.run(panel.lanes, SoftCap { cap, scores: &mut *scores });
        }
        if let Some(bias) = &tensors.bias {
            for lane in 0..panel.num_rows {
                let row = self.live.start + (panel.first + lane) as u64;
                let (head, query) = (self.head(row), self.query(row));
                let seen = self.seen(query, keys);
                let bias_row = &mut scratch.row[..count(&seen)];
                let index = bias.broadcast([batch_idx, head, query]);
                bias.read(*isa, index, seen.start.cast_unsigned(), bias_row);
                let first = count(&(keys.start..seen.start));
                let of_lane = scores.iter_mut().skip(lane).step_by(panel.lanes).skip(first);
                of_lane.zip(bias_row).for_each(|(score, &mut bias)| *score += bias);
            }
        }
        let [slope_of, first_of] = &mut scratch.lanes;
        for lane in 0..panel.lanes {
            // Lanes past the rows repeat the last: finite numbers.
            let lane_row = panel.first + lane.min(panel.num_rows - 1);
            let found = self.slope_and_first(self.live.start + lane_row as u64, keys);
            let Some((slope, first)) = found else { return };
            (slope_of[lane], first_of[lane]) = (slope, first);
        }
        let (slopes, firsts) = (&slope_of[..panel.lanes], &first_of[..panel.lanes]);
        isa.run(panel.lanes, Alibi { slopes, firsts, scores });
    }

    /// ALiBi's slope of a row, and the distance of the first of some keys from the row's own
    /// position.
    pub(super) fn slope_and_first(&self, row: u64, keys: &Range<i64>) -> Option<(f32, f32)> {
        let Work { facts, tensors, isa, .. } = self.work;
        let (slopes, align) = (tensors.alibi_slopes?, facts.alibi()?);
        let Sequence { batch_idx, q_len, kv_len, .. } = self.unit.sequence;
        let off = align.offset(q_len.cast_signed(), kv_len.cast_signed());
        let slope = slopes.read_value(*isa, [batch_idx, self.head(row), 0]);
        #[expect(clippy::cast_precision_loss, reason = "distances above 2^24 are rounded")]
        let first = (keys.start - self.query(row).cast_signed() - off) as f32;
        Some((slope, first))
    }

    /// Hides what a row of the panel does not see of the keys that some row of it sees.
    fn hide(&self, panel: Panel, keys: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Range { start: first, end } = self.queries(panel.first, panel.num_rows);
        // Both ends of what is seen only grow with the query.
        if self.seen(first.cast_unsigned(), keys).end == keys.end
            && self.seen((end - 1).cast_unsigned(), keys).start == keys.start
        {
            return;
        }
        let [begins, ends] = &mut scratch.lanes;
        for lane in 0..panel.lanes {
            let seen = if lane < panel.num_rows {
                self.seen(self.query(self.live.start + (panel.first + lane) as u64), keys)
            } else {
                keys.start..keys.start
            };
            // At most a tile: exact.
            #[expect(clippy::cast_precision_loss, reason = "at most a tile")]
            let position = |key: i64| (key - keys.start) as f32 - 0.5;
            (begins[lane], ends[lane]) = (position(seen.start), position(seen.end));
        }
        let scores = &mut scratch.scores[..count(keys) * panel.lanes];
        let (begins, ends) = (&begins[..panel.lanes], &ends[..panel.lanes]);
        self.work.isa.run(panel.lanes, Hide { begins, ends, scores });
    }

    /// What a query sees of some keys.
    pub(super) fn seen(&self, query: u64, keys: &Range<i64>) -> Range<i64> {
        let seen = self.visible.of(query.cast_signed()..query.cast_signed() + 1);
        seen.start.clamp(keys.start, keys.end)..seen.end.clamp(keys.start, keys.end)
    }

    /// The queries of some rows, counted from the first live one; there is at least one.
    pub(super) fn queries(&self, first: usize, num_rows: usize) -> Range<i64> {
        let first = self.live.start + first as u64;
        let last = first + num_rows as u64 - 1;
        self.query(first).cast_signed()..self.query(last).cast_signed() + 1
    }

    /// Divides by the sums and writes the live rows of every output.
    pub(super) fn store(&self, scratch: &mut Scratch<'_>) {
        self.for_each_row(scratch, |row, o, (max, sum)| {
            let total = Total::of(max, sum);
            total.divide(o);
            self.store_row(self.live.start + row as u64, o, &total);
        });
    }

    /// Leaves the live rows to be merged.
    pub(super) fn store_partial(&self, partial: &mut [f32], scratch: &mut Scratch<'_>) {
        let (_, on_v) = self.columns();
        let len = Partial::len(on_v);
        self.for_each_row(scratch, |row, o, total| {
            Partial::write(&mut partial[row * len..][..len], o, total);
        });
    }

    /// Gives each row, counted from the first live one: its weighted sum of V, max and sum.
    fn for_each_row(
        &self,
        scratch: &mut Scratch<'_>,
        mut take: impl FnMut(usize, &mut [f32], (f32, f32)),
    ) {
        let (_, on_v) = self.columns();
        for panel in self.panels() {
            for lane in 0..panel.num_rows {
                let row = panel.first + lane;
                let o = &mut scratch.row[..on_v];
                for (column, o) in o.iter_mut().enumerate() {
                    *o = scratch.o[panel.at(padded(on_v), column, lane)];
                }
                take(row, o, (scratch.max[row], scratch.sum[row]));
            }
        }
    }
}
