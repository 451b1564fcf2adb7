//! A problem of the merge: units and where they are cut, what each piece has left, and what a softmax
//! in f64 makes of it.

use std::collections::BTreeMap;

use frazil_cuda::sdpa_fwd::OutputType;
use frazil_cuda::work_list::Record;

/// How O and the values of rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// `[B, H, S, D]`, and `[B, H, S]`.
    Dense,
    /// `[T, H, D]`, and `[T, H]`.
    Packed,
    /// `[T, H, D]`, and `[B, H, S]`.
    PackedBySequence,
}

#[derive(Clone, Debug)]
pub(crate) struct Merge {
    pub(crate) q_lens: Vec<i32>,
    /// Whether a list tells of units; else their index does, and all are dense, of one band, and have the
    /// first of the tiles.
    pub(crate) is_listed: bool,
    /// Tiles of the bands, in turn.
    pub(crate) tiles: Vec<i64>,
    pub(crate) num_kv_heads: i32,
    pub(crate) group: i32,
    pub(crate) pack: i32,
    pub(crate) block_m: i32,
    pub(crate) head_dim_v: i32,
    pub(crate) num_blocks: u16,
    pub(crate) blocks_per_unit: u32,
    pub(crate) o_type: OutputType,
    pub(crate) storage: Storage,
    pub(crate) is_base2: bool,
    pub(crate) has_sink: bool,
    /// Whether a piece of some rows has seen a NaN.
    pub(crate) has_nan: bool,
    pub(crate) seed: u64,
}

/// What a problem had in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) num_merged: usize,
    pub(crate) num_whole: usize,
    pub(crate) num_behind_first: usize,
    pub(crate) num_empty_blocks: usize,
    pub(crate) num_rows_without_keys: usize,
    pub(crate) num_nan_rows: usize,
    pub(crate) most_pieces: usize,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.num_merged += other.num_merged;
        self.num_whole += other.num_whole;
        self.num_behind_first += other.num_behind_first;
        self.num_empty_blocks += other.num_empty_blocks;
        self.num_rows_without_keys += other.num_rows_without_keys;
        self.num_nan_rows += other.num_nan_rows;
        self.most_pieces = self.most_pieces.max(other.most_pieces);
    }
}

/// What a piece has of one row: greatest score in units of log2, sum, and O.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) max: f32,
    pub(super) sum: f32,
    pub(super) out: Vec<f32>,
}

/// A row of a unit that is merged: where it is stored, and by slot what was left of it.
pub(super) struct Row {
    pub(super) o_at: usize,
    pub(super) value_at: usize,
    head: usize,
    pub(super) parts: BTreeMap<usize, (usize, Part)>,
}

/// What a row must be.
pub(super) struct Expected {
    pub(super) out: Vec<f64>,
    /// LSE, greatest score, sum.
    pub(super) values: [f64; 3],
}

struct Random(u64);

impl Random {
    /// Between -1 and 1.
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_precision_loss, reason = "24 bits")]
        let value = (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0;
        value
    }
}

pub(super) fn index(value: impl TryInto<usize>) -> usize {
    value.try_into().ok().unwrap()
}

impl Merge {
    pub(super) fn band_tokens(&self) -> i32 {
        self.block_m / self.pack
    }

    pub(super) fn num_runs(&self) -> i32 {
        (self.group + self.pack - 1) / self.pack
    }

    pub(super) fn num_q_heads(&self) -> i32 {
        self.num_kv_heads * self.group
    }

    pub(super) fn max_len(&self) -> i32 {
        self.q_lens.iter().copied().max().unwrap().max(1)
    }

    pub(super) fn num_tokens(&self) -> i32 {
        match self.storage {
            Storage::Dense => self.max_len() * i32::try_from(self.q_lens.len()).unwrap(),
            _ => self.q_lens.iter().sum::<i32>().max(1),
        }
    }

    /// The list in natural order, and tiles of each band.
    pub(super) fn records(&self) -> Vec<(Record, i64)> {
        let mut records = Vec::new();
        let mut q_start = 0;
        for (batch_idx, &q_len) in (0..).zip(&self.q_lens) {
            for q_begin in (0..q_len).step_by(index(self.band_tokens())) {
                let tiles = self.tiles[records.len() % self.tiles.len()];
                let start = if self.storage == Storage::Dense { 0 } else { q_start };
                let record =
                    Record { batch_idx, q_begin, q_start: start, q_len, ..Record::default() };
                records.push((record, tiles));
            }
            q_start += q_len;
        }
        records
    }

    /// First places of the blocks, and the end.
    fn bounds(&self, num_places: i64) -> Vec<i64> {
        let blocks = i64::from(self.num_blocks);
        (0..=blocks).map(|block| block * num_places / blocks).collect()
    }

    /// Strides of the batch, the rows and the heads of O, and of values of rows.
    pub(super) fn strides(&self) -> ([i32; 3], [i32; 3]) {
        let (heads, rows, columns) = (self.num_q_heads(), self.max_len(), self.head_dim_v);
        let by_sequence = [heads * rows, 1, rows];
        match self.storage {
            Storage::Dense => ([heads * rows * columns, columns, rows * columns], by_sequence),
            Storage::Packed => ([0, heads * columns, columns], [0, heads, 1]),
            Storage::PackedBySequence => ([0, heads * columns, columns], by_sequence),
        }
    }

    /// The rows of units that are merged, walking the line of places one by one.
    pub(super) fn rows(&self, seen: &mut Seen) -> Vec<Row> {
        let records = self.records();
        let head_units = self.num_kv_heads * self.num_runs();
        let num_places: i64 =
            records.iter().map(|(_, tiles)| (tiles + 1) * i64::from(head_units)).sum();
        let bounds = self.bounds(num_places);
        seen.num_empty_blocks += bounds.windows(2).filter(|ends| ends[0] == ends[1]).count();
        let mut random = Random(self.seed);
        let (mut rows, mut place, mut block) = (Vec::new(), 0, 0);
        for (record, tiles) in &records {
            for head_unit in 0..head_units {
                let unit_begin = place;
                // Blocks with tiles of the unit, by slot.
                let mut slots = Vec::new();
                let mut first_block = 0;
                for at in 0..=*tiles {
                    while bounds[block + 1] <= place {
                        block += 1;
                    }
                    if at == 0 {
                        first_block = block;
                    } else {
                        slots.push(2 * block + usize::from(bounds[block] < unit_begin));
                    }
                    place += 1;
                }
                slots.dedup();
                seen.most_pieces = seen.most_pieces.max(slots.len());
                if slots.len() < 2 {
                    seen.num_whole += 1;
                    let behind = slots.first().is_some_and(|slot| slot / 2 != first_block);
                    seen.num_behind_first += usize::from(behind);
                    continue;
                }
                seen.num_merged += 1;
                rows.extend(self.unit_rows(record, head_unit, &slots, &mut random));
            }
        }
        rows
    }

    fn unit_rows(
        &self,
        record: &Record,
        head_unit: i32,
        slots: &[usize],
        random: &mut Random,
    ) -> Vec<Row> {
        let (on_o, on_values) = self.strides();
        let first_in_group = head_unit % self.num_runs() * self.pack;
        let mut rows = Vec::new();
        for row in 0..self.block_m {
            let pos = record.q_begin + row / self.pack;
            let in_group = first_in_group + row % self.pack;
            if row / self.pack >= self.band_tokens()
                || pos >= record.q_len
                || in_group >= self.group
            {
                continue;
            }
            let head = head_unit / self.num_runs() * self.group + in_group;
            let at = |[batch, row, by_head]: [i32; 3], start: i32| {
                index(record.batch_idx * batch + (start + pos) * row + head * by_head)
            };
            let start = if on_values[0] == 0 { record.q_start } else { 0 };
            // Some rows see no key in any piece, others in some.
            let hides = random.next() > 0.7;
            let mut part = || {
                let sees = !hides && random.next() > -0.6;
                let (max, sum) = (random.next() * 30.0, 20.0 + random.next() * 19.0);
                let out: Vec<f32> = (0..self.head_dim_v).map(|_| random.next()).collect();
                match sees {
                    // Maxima pass over NaN.
                    true if self.has_nan && max > 20.0 => {
                        let out = vec![f32::NAN; out.len()];
                        Part { max: f32::NEG_INFINITY, sum: f32::NAN, out }
                    }
                    true => Part { max, sum, out },
                    false => Part { max: f32::NEG_INFINITY, sum: 0.0, out: Vec::new() },
                }
            };
            let parts = slots.iter().map(|&slot| (slot, (index(row), part()))).collect();
            rows.push(Row {
                o_at: at(on_o, record.q_start),
                value_at: at(on_values, start),
                head: index(head),
                parts,
            });
        }
        rows
    }

    pub(super) fn sinks(&self) -> Vec<f32> {
        (0..self.num_q_heads()).zip(-3_i8..).map(|(_, at)| f32::from(at) * 1.5).collect()
    }

    /// A softmax of all pieces and the sink, in units of log2 and f64.
    pub(super) fn expected(&self, row: &Row) -> Expected {
        let log2_e = std::f64::consts::LOG2_E;
        let sink = match self.has_sink {
            true => f64::from(self.sinks()[row.head]) * log2_e,
            false => f64::NEG_INFINITY,
        };
        let is_nan = row.parts.values().any(|(_, part)| part.sum.is_nan());
        let parts = || row.parts.values().map(|(_, part)| part).filter(|part| part.sum > 0.0);
        let max = parts().map(|part| f64::from(part.max)).fold(sink, f64::max);
        let mut out = vec![0.0; index(self.head_dim_v)];
        if is_nan {
            out.fill(f64::NAN);
            return Expected { out, values: [f64::NAN, max / log2_e, f64::NAN] };
        }
        if max == f64::NEG_INFINITY {
            return Expected { out, values: [max, max, 0.0] };
        }
        let mut sum = (sink - max).exp2();
        for part in parts() {
            let weight = (f64::from(part.max) - max).exp2() * f64::from(part.sum);
            sum += weight;
            for (to, value) in out.iter_mut().zip(&part.out) {
                *to += weight * f64::from(*value);
            }
        }
        let lse = max + sum.log2();
        let lse = if self.is_base2 { lse } else { lse / log2_e };
        Expected {
            out: out.into_iter().map(|x| x / sum).collect(),
            values: [lse, max / log2_e, sum],
        }
    }
}
