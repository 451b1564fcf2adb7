//! A few rows of Q, as in decoding: K and V are read once, as they lie.
//!
//! With fewer rows than a vector has lanes, vectors go along the columns for both products and along
//! the keys for the softmax between them: scores lie as `[row][key]`.

use std::ops::Range;

use super::attend::Panel;
use super::block::{Block, Work, count};
use super::few_products::{Ahead, Dot, FoldRow, WeightedSum};
use super::pack;
use super::panel::SoftCap;
use super::scratch::{Scratch, padded, pitch};
use super::setup::Unit;
use super::tensors::Rows;
use crate::memory::{Element, Float, Strided};
use crate::vector::Number;

/// Most rows of a unit for which this is the faster way.
pub(super) const MAX_FEW: usize = 4;

/// Tiles of keys that few rows take at once: long stretches of memory. Scores of all rows fit where
/// those of a whole panel do.
const FEW_BLOCKS: usize = 8;

impl Block<'_> {
    /// Keys that few rows take at once.
    pub(super) fn few_keys(&self) -> usize {
        FEW_BLOCKS * self.work.tile.block_n
    }

    /// The few rows of a unit against some of the keys that they see.
    pub(super) fn step_few(&self, panel: Panel, keys: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Unit { sequence, kv_head, .. } = self.unit;
        let k = self.work.tensors.keys(&sequence, kv_head);
        let v = self.work.tensors.values(&sequence, kv_head);
        let rows = [&k, &v];
        match k.contiguous() {
            Some(Float::F16) => self.score_few::<half::f16>(panel, rows, keys, scratch),
            Some(Float::Bf16) => self.score_few::<half::bf16>(panel, rows, keys, scratch),
            Some(Float::F32) => self.score_few::<f32>(panel, rows, keys, scratch),
            None => self.score_gathered(panel, &k, keys, scratch),
        }
        for row in 0..panel.num_rows {
            self.fold_few(row, keys, scratch);
        }
        match v.contiguous() {
            Some(Float::F16) => self.weigh_few::<half::f16>(panel, rows, keys, scratch),
            Some(Float::Bf16) => self.weigh_few::<half::bf16>(panel, rows, keys, scratch),
            Some(Float::F32) => self.weigh_few::<f32>(panel, rows, keys, scratch),
            None => self.weigh_gathered(panel, &v, keys, scratch),
        }
    }

    /// Scores, run by run of rows of K that lie at one distance; rows of V are asked for meanwhile.
    fn score_few<T: Element>(
        &self,
        panel: Panel,
        [k, v]: [&Rows<'_>; 2],
        keys: &Range<i64>,
        scratch: &mut Scratch<'_>,
    ) {
        let errors = self.work.errors;
        pack::for_each_run::<T>((k, unsigned(keys)), errors, |within, run| {
            let first = keys.start.cast_unsigned() + within.start as u64;
            let ahead = pack::ahead((v, first), within.len(), errors);
            self.score_run(panel, (&run, &ahead), within, scratch);
        });
    }

    fn score_gathered(
        &self,
        panel: Panel,
        k: &Rows<'_>,
        keys: &Range<i64>,
        scratch: &mut Scratch<'_>,
    ) {
        let (on_q, _) = self.columns();
        let tile = std::mem::take(&mut scratch.k);
        self.for_each_tile((k, keys), (&mut *tile, on_q), |within, run| {
            self.score_run(panel, (run, &Ahead::NOTHING), within, scratch);
        });
        scratch.k = tile;
    }

    fn score_run<T: Number>(
        &self,
        panel: Panel,
        (k, ahead): (&Strided<'_, T>, &Ahead),
        within: Range<usize>,
        scratch: &mut Scratch<'_>,
    ) {
        let Work { facts, isa, .. } = self.work;
        let (on_q, _) = self.columns();
        for row in 0..panel.num_rows {
            let q = &scratch.q[row * on_q..][..on_q];
            let scores = &mut scratch.scores[row * self.few_keys()..][within.clone()];
            let ahead = if row == 0 { ahead } else { &Ahead::NOTHING };
            let scale = facts.softmax_scale();
            isa.run(isa.lanes(), Dot { k, ahead, q, scale, scores });
        }
    }

    /// Turns the scores of a row into weights.
    fn fold_few(&self, row: usize, keys: &Range<i64>, scratch: &mut Scratch<'_>) {
        let Work { isa, .. } = self.work;
        let num_keys = count(keys);
        let all = &mut scratch.scores[row * self.few_keys()..][..self.few_keys()];
        let scores = &mut all[..num_keys.next_multiple_of(isa.lanes())];
        let of_block = self.live.start + row as u64;
        let seen = self.seen(self.query(of_block), keys);
        let visible = count(&(keys.start..seen.start))..count(&(keys.start..seen.end));
        self.modify_few(of_block, (&mut *scores, num_keys), keys, scratch.row);
        scores[..visible.start].fill(f32::NEG_INFINITY);
        scores[visible.end..].fill(f32::NEG_INFINITY);
        let (max, sum) = (&mut scratch.max[row], &mut scratch.sum[row]);
        scratch.correction[row] = isa.run(isa.lanes(), FoldRow { scores, max, sum });
    }

    /// Soft cap, bias and ALiBi, on the scores of a row, padded to whole vectors.
    fn modify_few(
        &self,
        row: u64,
        (scores, num_keys): (&mut [f32], usize),
        keys: &Range<i64>,
        bias_row: &mut [f32],
    ) {
        let Work { facts, tensors, isa, .. } = self.work;
        let (head, query) = (self.head(row), self.query(row));
        let batch_idx = self.unit.sequence.batch_idx;
        if let Some(cap) = facts.soft_cap() {
            isa.run(isa.lanes(), SoftCap { cap, scores: &mut *scores });
        }
        let scores = &mut scores[..num_keys];
        if let Some(bias) = &tensors.bias {
            let seen = self.seen(query, keys);
            let index = bias.broadcast([batch_idx, head, query]);
            let seen_scores = &mut scores[count(&(keys.start..seen.start))..][..count(&seen)];
            let firsts = (seen.start.cast_unsigned()..).step_by(bias_row.len().max(1));
            for (first, scores) in firsts.zip(seen_scores.chunks_mut(bias_row.len().max(1))) {
                let bias_row = &mut bias_row[..scores.len()];
                bias.read(*isa, index, first, bias_row);
                scores.iter_mut().zip(bias_row).for_each(|(score, &mut bias)| *score += bias);
            }
        }
        if let Some((slope, first)) = self.slope_and_first(row, keys) {
            for (at, score) in (0_u16..).zip(scores) {
                *score -= slope * (first + f32::from(at)).abs();
            }
        }
    }

    /// Adds weighted rows of V, run by run; the next rows of K are asked for meanwhile.
    fn weigh_few<T: Element>(
        &self,
        panel: Panel,
        [k, v]: [&Rows<'_>; 2],
        keys: &Range<i64>,
        scratch: &mut Scratch<'_>,
    ) {
        let errors = self.work.errors;
        let end = self.visible.of(self.queries(0, self.num_rows())).end;
        pack::for_each_run::<T>((v, unsigned(keys)), errors, |within, run| {
            let next = keys.end + i64::try_from(within.start).unwrap_or(i64::MAX);
            // A page that no row sees is not looked up, or it could be flagged.
            let ahead = if next < end {
                pack::ahead((k, next.cast_unsigned()), within.len(), errors)
            } else {
                Ahead::NOTHING
            };
            self.weigh_run(panel, (&run, &ahead), within, scratch);
        });
    }

    fn weigh_gathered(
        &self,
        panel: Panel,
        v: &Rows<'_>,
        keys: &Range<i64>,
        scratch: &mut Scratch<'_>,
    ) {
        let (_, on_v) = self.columns();
        let tile = std::mem::take(&mut scratch.v);
        self.for_each_tile((v, keys), (&mut *tile, on_v), |within, run| {
            self.weigh_run(panel, (run, &Ahead::NOTHING), within, scratch);
        });
        scratch.v = tile;
    }

    fn weigh_run<T: Number>(
        &self,
        panel: Panel,
        (v, ahead): (&Strided<'_, T>, &Ahead),
        within: Range<usize>,
        scratch: &mut Scratch<'_>,
    ) {
        let isa = self.work.isa;
        let (_, on_v) = self.columns();
        for row in 0..panel.num_rows {
            let weights = &scratch.scores[row * self.few_keys()..][within.clone()];
            let o = &mut scratch.o[row * padded(on_v)..][..on_v];
            // What was there before this step is corrected once.
            let correction = if within.start == 0 { scratch.correction[row] } else { 1.0 };
            let ahead = if row == 0 { ahead } else { &Ahead::NOTHING };
            isa.run(isa.lanes(), WeightedSum { v, ahead, weights, correction, o });
        }
    }

    /// Gathers rows tile by tile; gives where a tile is among all keys, and its rows.
    fn for_each_tile(
        &self,
        (rows, keys): (&Rows<'_>, &Range<i64>),
        (tile, columns): (&mut [f32], usize),
        mut take: impl FnMut(Range<usize>, &Strided<'_, f32>),
    ) {
        let block_n = self.work.tile.block_n;
        let (first, num_keys) = (keys.start.cast_unsigned(), count(keys));
        for begin in (0..num_keys).step_by(block_n) {
            let within = begin..num_keys.min(begin + block_n);
            let which = first + begin as u64..first + within.end as u64;
            let to = (&mut *tile, columns, pitch(columns));
            pack::gather(self.work.isa, (rows, which), to, self.work.errors);
            take(within, &Strided::of(tile, columns, pitch(columns)));
        }
    }
}

fn unsigned(keys: &Range<i64>) -> Range<u64> {
    keys.start.cast_unsigned()..keys.end.cast_unsigned()
}
