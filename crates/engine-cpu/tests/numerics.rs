//! A handful of whole runs against a naive computation in f64.

#![expect(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{BIAS, K, Problem, Q, V, assert_near, number, run};
use frazil_core::{
    Align, Band, Buffer, BuildError, DType, Device, DeviceHandle, DeviceId, Error, ErrorWord,
    Graph, GraphBuilder, LengthBounds, LseForm, MemoryAt, SdpaFwd, Sequences, Storage, Target,
    TensorId, TensorSpec,
};
use half::{bf16, f16};

const POISON: f32 = 777.0;

/// A tensor `[outer, heads, rows, columns]` of [`number`]s, NaN where `live` says so.
fn filled(tensor: u64, extents: [usize; 4], live: impl Fn(usize, usize) -> bool) -> Vec<f32> {
    let [outer, heads, rows, columns] = extents;
    let mut all = Vec::new();
    for b in 0..outer {
        for h in 0..heads {
            for i in 0..rows {
                for d in 0..columns {
                    all.push(if live(b, i) { number(tensor, [b, h, i, d]) } else { f32::NAN });
                }
            }
        }
    }
    all
}

fn f32s(graph: &mut GraphBuilder, name: &str, extents: &[i64]) -> TensorId {
    graph.tensor(TensorSpec::contiguous(name, DType::F32, extents).align(4)).unwrap()
}

fn i32s(graph: &mut GraphBuilder, name: &str, extents: &[i64]) -> TensorId {
    graph.tensor(TensorSpec::contiguous(name, DType::I32, extents).align(4)).unwrap()
}

fn wide(extents: [usize; 4]) -> [i64; 4] {
    extents.map(|extent| extent as i64)
}

/// Padded or dense attention over f32 `[B, H, S, D]`, with all row outputs.
struct Batch<'a> {
    problem: Problem,
    rows: (usize, usize),
    lens: &'a [(usize, usize)],
    padded: bool,
}

/// O, LSE, max and sum of exponentials.
type Outputs = [Vec<f32>; 4];

impl Batch<'_> {
    fn run(&self, threads: u32) -> (Outputs, u32) {
        let Problem { heads: (hq, hkv), dims: (on_q, on_v), .. } = self.problem;
        let (batch, (sq, skv)) = (self.lens.len(), self.rows);
        let mut graph = GraphBuilder::new();
        let q = f32s(&mut graph, "q", &wide([batch, hq, sq, on_q]));
        let k = f32s(&mut graph, "k", &wide([batch, hkv, skv, on_q]));
        let v = f32s(&mut graph, "v", &wide([batch, hkv, skv, on_v]));
        let o = f32s(&mut graph, "o", &wide([batch, hq, sq, on_v]));
        let row_output = [batch as i64, hq as i64, sq as i64];
        let outputs = ["lse", "max", "sum_exp"].map(|name| f32s(&mut graph, name, &row_output));
        let q_data = filled(Q, [batch, hq, sq, on_q], |b, i| i < self.lens[b].0);
        let k_data = filled(K, [batch, hkv, skv, on_q], |b, i| i < self.lens[b].1);
        let v_data = filled(V, [batch, hkv, skv, on_v], |b, i| i < self.lens[b].1);
        let bias_data = filled(BIAS, [batch, hq, sq, skv], |b, i| i < self.lens[b].0);
        let q_lens: Vec<i32> = self.lens.iter().map(|lens| lens.0 as i32).collect();
        let kv_lens: Vec<i32> = self.lens.iter().map(|lens| lens.1 as i32).collect();
        let mut op = SdpaFwd::new(q, k, v, o)
            .softmax_scale(self.problem.scale as f32)
            .lse(outputs[0], LseForm::Natural)
            .max(outputs[1])
            .sum_exp(outputs[2]);
        let mut buffers = vec![
            (q, Buffer::from_slice(&q_data)),
            (k, Buffer::from_slice(&k_data)),
            (v, Buffer::from_slice(&v_data)),
        ];
        if self.padded {
            let [on_q, on_kv] = [(&q_lens, sq), (&kv_lens, skv)].map(|(lens, rows)| {
                let lengths = i32s(&mut graph, "lengths", &[batch as i64]);
                buffers.push((lengths, Buffer::from_slice(lens)));
                Storage::Padded { lengths, bounds: LengthBounds::up_to(rows as u32) }
            });
            op = op.storage(on_q, on_kv);
        }
        if let Some(band) = self.problem.band {
            op = op.band(band);
        }
        if let Some(cap) = self.problem.soft_cap {
            op = op.soft_cap(cap as f32);
        }
        if self.problem.bias {
            let bias = f32s(&mut graph, "bias", &wide([batch, hq, sq, skv]));
            buffers.push((bias, Buffer::from_slice(&bias_data)));
            op = op.bias(bias);
        }
        if let Some(slopes) = &self.problem.slopes {
            let id = f32s(&mut graph, "slopes", &[hq as i64]);
            buffers.push((id, Buffer::from_slice(slopes)));
            op = op.alibi(id);
        }
        if let Some(sink) = &self.problem.sink {
            let id = f32s(&mut graph, "sink", &[hq as i64]);
            buffers.push((id, Buffer::from_slice(sink)));
            op = op.sink(id);
        }
        graph.sdpa_fwd(op).unwrap();
        let rows = batch * hq * sq;
        let mut found: Outputs = [rows * on_v, rows, rows, rows].map(|len| vec![POISON; len]);
        let ids = [o, outputs[0], outputs[1], outputs[2]];
        for (id, values) in ids.into_iter().zip(&mut found) {
            buffers.push((id, Buffer::from_slice_mut(values)));
        }
        let errors = run(&graph.finish().unwrap(), threads, buffers);
        (found, errors)
    }

    /// Runs on one thread and on three, and compares both with the reference.
    fn check(&self) {
        let (found, errors) = self.run(1);
        assert_eq!(errors, 0);
        let bits =
            |outputs: &Outputs| outputs.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&self.run(3).0), "threads change the result");
        let Problem { heads: (hq, _), dims: (_, on_v), .. } = self.problem;
        let [o, lse, max, sum] = &found;
        for (b, &lens) in self.lens.iter().enumerate() {
            for h in 0..hq {
                for i in 0..self.rows.0 {
                    let at = (b * hq + h) * self.rows.0 + i;
                    let o = &o[at * on_v..][..on_v];
                    if i >= lens.0 {
                        assert!(o.iter().all(|o| o.to_bits() == 0), "dead row of O");
                        let dead = [f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0];
                        assert_eq!([lse[at], max[at], sum[at]], dead, "{b} {h} {i}");
                        continue;
                    }
                    let row = self.problem.row(b, h, i, lens);
                    for (&found, &expected) in o.iter().zip(&row.o) {
                        assert_near(found, expected, 2e-6, (b, h, i));
                    }
                    assert_near(lse[at], row.lse, 1e-5, ("lse", b, h, i));
                    assert_near(max[at], row.max, 1e-5, ("max", b, h, i));
                    assert_near(sum[at], row.sum, 1e-5 * row.sum, ("sum_exp", b, h, i));
                }
            }
        }
    }
}

#[test]
fn dense_causal_grouped_heads() {
    let mut problem = Problem::new((6, 2), (40, 24));
    problem.band = Some(Band::causal(Align::BottomRight));
    Batch { problem, rows: (70, 150), lens: &[(70, 150); 2], padded: false }.check();
}

#[test]
fn every_modifier_at_once() {
    let mut problem = Problem::new((4, 4), (16, 8));
    problem.scale = -1.7;
    problem.soft_cap = Some(1.5);
    problem.bias = true;
    problem.slopes = Some(vec![0.5, 0.25, 0.0, -0.125]);
    problem.sink = Some(vec![0.3, -2.0, 20.0, f32::NEG_INFINITY]);
    problem.band = Some(Band { align: Align::BottomRight, left: Some(90), right: Some(30) });
    Batch { problem, rows: (150, 290), lens: &[(150, 290), (150, 3), (7, 0)], padded: true }
        .check();
}

#[test]
fn padded_rows_past_a_length_are_dead() {
    let mut problem = Problem::new((2, 1), (8, 80));
    problem.sink = Some(vec![1.5, -1.0]);
    problem.band = Some(Band::causal(Align::TopLeft));
    let lens = [(5, 9), (0, 9), (140, 0), (1, 1), (0, 0), (140, 9)];
    Batch { problem, rows: (140, 9), lens: &lens, padded: true }.check();
}

#[test]
fn no_visible_key_anywhere() {
    let mut problem = Problem::new((2, 2), (8, 8));
    problem.band = Some(Band::causal(Align::BottomRight));
    // The first queries see nothing: more queries than keys.
    let batch = Batch { problem, rows: (20, 5), lens: &[(20, 5), (20, 0)], padded: true };
    batch.check();
    let [o, lse, max, sum] = batch.run(1).0;
    assert!(o[..15 * 8].iter().all(|o| o.to_bits() == 0));
    assert_eq!((lse[14], max[14], sum[14]), (f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0));
    assert!(lse[15] > f32::NEG_INFINITY);
}

/// Packed Q and K by prefixes from `base` on: token-major buffers with slack after the rows.
fn packed(base: i32, lens: &[(usize, usize)], problem: &Problem) -> (Vec<f32>, Vec<f32>) {
    let Problem { heads: (hq, hkv), dims: (on_q, on_v), .. } = *problem;
    let totals = lens.iter().fold((0, 0), |sum, len| (sum.0 + len.0, sum.1 + len.1));
    let capacity = (totals.0 + 5, totals.1 + 3);
    let mut graph = GraphBuilder::new();
    let mut rows = |name, rows: usize, heads: usize, columns: usize| {
        f32s(&mut graph, name, &[rows as i64, heads as i64, columns as i64])
    };
    let q = rows("q", capacity.0, hq, on_q);
    let k = rows("k", capacity.1, hkv, on_q);
    let v = rows("v", capacity.1, hkv, on_v);
    let o = rows("o", capacity.0, hq, on_v);
    let lse = f32s(&mut graph, "lse", &[capacity.0 as i64, hq as i64]);
    let prefix = |side: fn(&(usize, usize)) -> usize| {
        let ends = lens.iter().scan(base, move |end, lens| {
            *end += side(lens) as i32;
            Some(*end)
        });
        std::iter::once(base).chain(ends).collect::<Vec<i32>>()
    };
    let prefixes = [prefix(|lens| lens.0), prefix(|lens| lens.1)];
    let limits = [totals.0, totals.1];
    let mut ids = Vec::new();
    let storage: Vec<Storage> = (0..2)
        .map(|side| {
            let id = i32s(&mut graph, "prefix", &[lens.len() as i64 + 1]);
            ids.push(id);
            Storage::Packed {
                sequences: Sequences::Prefix(id),
                bounds: LengthBounds::up_to(1000),
                max_total: limits[side] as u32,
            }
        })
        .collect();
    let mut op = SdpaFwd::new(q, k, v, o).storage(storage[0], storage[1]).lse(lse, LseForm::Base2);
    if let Some(band) = problem.band {
        op = op.band(band);
    }
    graph.sdpa_fwd(op).unwrap();
    let token_major =
        |tensor, capacity: usize, heads, columns, side: fn(&(usize, usize)) -> usize| {
            let mut all = Vec::new();
            for (b, lens) in lens.iter().enumerate() {
                for i in 0..side(lens) {
                    for h in 0..heads {
                        all.extend((0..columns).map(|d| number(tensor, [b, h, i, d])));
                    }
                }
            }
            all.resize(capacity * heads * columns, f32::NAN);
            all
        };
    let q_data = token_major(Q, capacity.0, hq, on_q, |lens| lens.0);
    let k_data = token_major(K, capacity.1, hkv, on_q, |lens| lens.1);
    let v_data = token_major(V, capacity.1, hkv, on_v, |lens| lens.1);
    let mut o_data = vec![POISON; capacity.0 * hq * on_v];
    let mut lse_data = vec![POISON; capacity.0 * hq];
    let buffers = vec![
        (q, Buffer::from_slice(&q_data)),
        (k, Buffer::from_slice(&k_data)),
        (v, Buffer::from_slice(&v_data)),
        (o, Buffer::from_slice_mut(&mut o_data)),
        (lse, Buffer::from_slice_mut(&mut lse_data)),
        (ids[0], Buffer::from_slice(&prefixes[0])),
        (ids[1], Buffer::from_slice(&prefixes[1])),
    ];
    assert_eq!(run(&graph.finish().unwrap(), 2, buffers), 0);
    (o_data, lse_data)
}

#[test]
fn packed_by_prefix_subtracts_its_base() {
    let mut problem = Problem::new((4, 2), (32, 16));
    problem.band = Some(Band { align: Align::BottomRight, left: Some(20), right: Some(0) });
    let lens = [(3, 40), (0, 7), (130, 140), (1, 0), (1, 200)];
    let (o, lse) = packed(1000, &lens, &problem);
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let at_zero = packed(0, &lens, &problem);
    assert_eq!((bits(&o), bits(&lse)), (bits(&at_zero.0), bits(&at_zero.1)));
    let mut row_at = 0;
    for (b, &lens) in lens.iter().enumerate() {
        for i in 0..lens.0 {
            for h in 0..4 {
                let row = problem.row(b, h, i, lens);
                let at = row_at * 4 + h;
                assert_near(lse[at], row.lse / std::f64::consts::LN_2, 1e-5, ("lse", b, h, i));
                for (&found, &expected) in o[at * 16..][..16].iter().zip(&row.o) {
                    assert_near(found, expected, 2e-6, (b, h, i));
                }
            }
            row_at += 1;
        }
    }
    assert!(o[row_at * 4 * 16..].iter().chain(&lse[row_at * 4..]).all(|&x| x == POISON), "slack");
}

const PAGE: usize = 5;
const PAGES: usize = 12;

/// Decode over pages of bf16 K, strided by two elements, and f16 V; entries of the table given.
fn paged(table: &[i32], kv_lens: [i32; 2], num_pages: usize) -> (Vec<f16>, u32) {
    let mut graph = GraphBuilder::new();
    let pool = [num_pages as i64, 1, PAGE as i64, 8];
    let strides = [PAGE as i64 * 16, 123_456, 16, 2];
    let q = f32s(&mut graph, "q", &[2, 3, 1, 8]);
    let k = graph.tensor(TensorSpec::strided("k", DType::Bf16, pool, strides).align(2)).unwrap();
    let v = graph.tensor(TensorSpec::contiguous("v", DType::F16, pool).align(2)).unwrap();
    let halves = TensorSpec::contiguous("o", DType::F16, [2, 3, 1, 8]);
    let o = graph.tensor(halves.align(2)).unwrap();
    let table_id = i32s(&mut graph, "table", &[2, 4]);
    let lengths = i32s(&mut graph, "lengths", &[2]);
    let kv = Storage::Paged {
        table_k: table_id,
        table_v: table_id,
        lengths,
        bounds: LengthBounds { min: 1, max: 19 },
    };
    graph.sdpa_fwd(SdpaFwd::new(q, k, v, o).storage(Storage::Dense, kv)).unwrap();
    let q_data = filled(Q, [2, 3, 1, 8], |_, _| true);
    // Token t of sequence b lies where the unharmed table says; the rest of the pool is NaN.
    let mut k_data = vec![bf16::NAN; num_pages * PAGE * 16];
    let mut v_data = vec![f16::NAN; num_pages * PAGE * 8];
    for (b, len) in [(0, 17), (1, 3)] {
        for t in 0..len {
            let row = TABLE[b * 4 + t / PAGE] as usize * PAGE + t % PAGE;
            for d in (0..8).filter(|_| row < num_pages * PAGE) {
                k_data[row * 16 + d * 2] = bf16::from_f32(number(K, [b, 0, t, d]));
                v_data[row * 8 + d] = f16::from_f32(number(V, [b, 0, t, d]));
            }
        }
    }
    let mut o_data = vec![f16::NAN; 2 * 3 * 8];
    let buffers = vec![
        (q, Buffer::from_slice(&q_data)),
        (k, Buffer::from_slice(&k_data)),
        (v, Buffer::from_slice(&v_data)),
        (o, Buffer::from_slice_mut(&mut o_data)),
        (table_id, Buffer::from_slice(table)),
        (lengths, Buffer::from_slice(&kv_lens)),
    ];
    let errors = run(&graph.finish().unwrap(), 2, buffers);
    (o_data, errors)
}

/// The last entry of each line that a length of 17 or 3 does not reach is a trap.
const TABLE: [i32; 8] = [7, 2, 11, 4, 9, i32::MIN, i32::MAX, -1];

#[test]
fn paged_keys_and_values_of_two_types() {
    let problem = Problem::new((3, 1), (8, 8));
    let (o, errors) = paged(&TABLE, [17, 3], PAGES);
    assert_eq!(errors, 0);
    for (b, lens) in [(0, (1, 17)), (1, (1, 3))] {
        for h in 0..3 {
            for (d, expected) in problem.row(b, h, 0, lens).o.into_iter().enumerate() {
                assert_near(o[(b * 3 + h) * 8 + d].to_f32(), expected, 1e-3, (b, h, d));
            }
        }
    }
}

#[test]
fn hostile_tables_and_lengths_are_clamped_and_flagged() {
    let pages = ErrorWord::PAGE_K.with(ErrorWord::PAGE_V).0;
    let mut table = TABLE;
    table[1] = 12;
    assert_eq!(paged(&table, [17, 3], PAGES).1, pages);
    table[1] = -1;
    assert_eq!(paged(&table, [17, 3], PAGES).1, pages);
    assert_eq!(paged(&TABLE, [20, 3], PAGES).1, ErrorWord::KV_LENGTH.0);
    assert_eq!(paged(&TABLE, [17, 0], PAGES).1, ErrorWord::KV_LENGTH.0, "below the least");
    let (o, errors) = paged(&TABLE, [17, i32::MIN], PAGES);
    assert_eq!(errors, ErrorWord::KV_LENGTH.0);
    assert!(o[24..].iter().all(|o| o.to_bits() == 0));
    let (o, errors) = paged(&TABLE, [17, 3], 0);
    assert_eq!(errors, pages);
    assert!(o.iter().all(|o| o.to_bits() == 0), "no page: rows count as zeros");
}

#[test]
fn a_nan_in_k_reaches_the_queries_that_see_it() {
    let mut graph = GraphBuilder::new();
    let extents = [1, 1, 200, 4];
    let ids = ["q", "k", "v", "o"].map(|name| f32s(&mut graph, name, &extents));
    let [q, k, v, o] = ids;
    let op = SdpaFwd::new(q, k, v, o).band(Band {
        align: Align::TopLeft,
        left: Some(10),
        right: Some(0),
    });
    graph.sdpa_fwd(op).unwrap();
    let [q_data, mut k_data, v_data] = [Q, K, V].map(|t| filled(t, [1, 1, 200, 4], |_, _| true));
    k_data[130 * 4] = f32::NAN;
    let mut o_data = vec![POISON; 800];
    let buffers = vec![
        (q, Buffer::from_slice(&q_data)),
        (k, Buffer::from_slice(&k_data)),
        (v, Buffer::from_slice(&v_data)),
        (o, Buffer::from_slice_mut(&mut o_data)),
    ];
    run(&graph.finish().unwrap(), 1, buffers);
    for (i, row) in o_data.chunks(4).enumerate() {
        let sees = (130..=140).contains(&i);
        assert!(row.iter().all(|o| o.is_nan() == sees), "query {i}: {row:?}");
    }
}

/// The graph of a plain head of attention.
fn plain(dtype: DType, columns: i64) -> Graph {
    let mut graph = GraphBuilder::new();
    let [q, k, v, o] = ["q", "k", "v", "o"]
        .map(|name| graph.tensor(TensorSpec::contiguous(name, dtype, [1, 1, 2, columns])).unwrap());
    graph.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
    graph.finish().unwrap()
}

#[test]
fn declines_name_what_is_not_served() {
    let host = frazil_engine_cpu::host();
    let kind = |graph: Graph| {
        common::plans(&graph, &host).map(|plans| plans.len()).map_err(|why| why.kind())
    };
    assert_eq!(kind(plain(DType::F32, 16_384)), Ok(1));
    assert_eq!(kind(plain(DType::F32, 16_385)), Err("Dim"));
    assert_eq!(kind(plain(DType::F8E4m3, 64)), Err("DType"));
}

/// A device of another kind whose target is the host's.
#[derive(Debug)]
struct Stranger(Target);

impl DeviceHandle for Stranger {
    fn target(&self) -> &Target {
        &self.0
    }

    fn id(&self) -> DeviceId {
        DeviceId::Simulated(3)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
        Ok(MemoryAt::Unknown)
    }
}

#[test]
fn another_kind_of_device_is_a_fault() {
    let host = frazil_engine_cpu::host();
    let plan = common::plans(&plain(DType::F32, 8), &host).unwrap().remove(0);
    let stranger = Device::new(Stranger(host.target().clone()));
    let found = plan.build(&stranger).map(|_| ());
    assert!(matches!(found, Err(BuildError::Fault(Error::WrongDevice { .. }))), "{found:?}");
}
