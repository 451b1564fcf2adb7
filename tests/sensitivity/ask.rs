//! One small attention, asked through the public interface and held against the reference.

use std::sync::Arc;

use frazil::{
    Align, Band, Bindings, DType, Device, Facts, Graph, GraphBuilder, HostBuffer, LengthBounds,
    LseForm, Plan, Router, SdpaFwd, Storage, Stream, TensorId, TensorSpec, Workspace, alibi_slopes,
};
use frazil_conformance::reference::{Head, Row};
use frazil_conformance::tolerance::Tolerance;

use crate::common::values;

const BATCH: usize = 2;
const Q_HEADS: usize = 4;
const KV_HEADS: usize = 2;
const SQ: usize = 6;
const SKV: usize = 9;
const D: usize = 8;
const PAGE_SIZE: usize = 3;
const PAGES: usize = SKV / PAGE_SIZE;

/// What is asked. The data are the same for all.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) softmax_scale: f32,
    pub(crate) band: Option<Band>,
    pub(crate) soft_cap: Option<f32>,
    pub(crate) bias: bool,
    pub(crate) alibi: bool,
    pub(crate) sink: bool,
    pub(crate) q_lengths: Option<[i32; BATCH]>,
    pub(crate) kv: Keys,
    pub(crate) lse: LseForm,
}

/// How K and V are stored.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    Dense,
    Padded([i32; BATCH]),
    /// Pages of each sequence, of a pool that holds the rows of `Dense` in order.
    Paged([[i32; PAGES]; BATCH]),
}

impl Ask {
    /// No modifier, dense.
    pub(crate) fn plain() -> Self {
        Self {
            softmax_scale: 0.5,
            band: None,
            soft_cap: None,
            bias: false,
            alibi: false,
            sink: false,
            q_lengths: None,
            kv: Keys::Dense,
            lse: LseForm::Natural,
        }
    }

    pub(crate) fn band(mut self, align: Align, left: Option<u32>, right: Option<u32>) -> Self {
        self.band = Some(Band { align, left, right });
        self
    }
}

/// O `[B, Hq, Sq, D]` and LSE `[B, Hq, Sq]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) o: Vec<f32>,
    pub(crate) lse: Vec<f32>,
}

fn q_values() -> Vec<f32> {
    values(1, BATCH * Q_HEADS * SQ * D).iter().map(|q| 4.0 * q).collect()
}

/// K or V as a pool `[B * PAGES, KV_HEADS, PAGE_SIZE, D]`.
fn pool(seed: u64) -> Vec<f32> {
    values(seed, BATCH * PAGES * KV_HEADS * PAGE_SIZE * D)
}

fn bias_values() -> Vec<f32> {
    values(4, Q_HEADS * SQ * SKV).iter().map(|bias| 3.0 * bias).collect()
}

fn sink_values() -> Vec<f32> {
    values(5, Q_HEADS)
}

/// Tensors of a graph with what they hold; outputs hold NaN.
#[derive(Default)]
struct Tensors {
    builder: GraphBuilder,
    memory: Vec<(TensorId, HostBuffer)>,
}

impl Tensors {
    fn floats(&mut self, name: &str, extents: &[usize], values: &[f32]) -> TensorId {
        self.put(
            name,
            DType::F32,
            extents,
            &values.iter().map(|v| v.to_ne_bytes()).collect::<Vec<_>>(),
        )
    }

    fn ints(&mut self, name: &str, extents: &[usize], values: &[i32]) -> TensorId {
        self.put(
            name,
            DType::I32,
            extents,
            &values.iter().map(|v| v.to_ne_bytes()).collect::<Vec<_>>(),
        )
    }

    fn output(&mut self, name: &str, extents: &[usize]) -> TensorId {
        self.floats(name, extents, &vec![f32::NAN; extents.iter().product()])
    }

    fn put(&mut self, name: &str, dtype: DType, extents: &[usize], words: &[[u8; 4]]) -> TensorId {
        let extents: Vec<i64> = extents.iter().map(|&extent| extent.try_into().unwrap()).collect();
        let id = self.builder.tensor(TensorSpec::contiguous(name, dtype, extents)).unwrap();
        let mut memory = HostBuffer::zeroed(4 * words.len());
        memory.as_bytes_mut().copy_from_slice(words.as_flattened());
        self.memory.push((id, memory));
        id
    }

    fn read(&self, id: TensorId) -> Vec<f32> {
        let (_, memory) = self.memory.iter().find(|(known, _)| *known == id).unwrap();
        let words = memory.as_bytes().chunks_exact(4);
        words.map(|word| f32::from_ne_bytes(word.try_into().unwrap())).collect()
    }
}

impl Ask {
    /// Declares the graph; gives it with its memory and the ids of O and LSE.
    fn declare(&self) -> (Graph, Tensors, TensorId, TensorId) {
        let mut tensors = Tensors::default();
        let q = tensors.floats("q", &[BATCH, Q_HEADS, SQ, D], &q_values());
        let (keys, extents) = match self.kv {
            Keys::Paged(_) => ([pool(2), pool(3)], [BATCH * PAGES, KV_HEADS, PAGE_SIZE, D]),
            _ => ([dense(&pool(2)), dense(&pool(3))], [BATCH, KV_HEADS, SKV, D]),
        };
        let k = tensors.floats("k", &extents, &keys[0]);
        let v = tensors.floats("v", &extents, &keys[1]);
        let o = tensors.output("o", &[BATCH, Q_HEADS, SQ, D]);
        let lse = tensors.output("lse", &[BATCH, Q_HEADS, SQ]);
        let bounds = |max: usize| LengthBounds::up_to(max.try_into().unwrap());
        let q_storage = match self.q_lengths {
            None => Storage::Dense,
            Some(lengths) => {
                let lengths = tensors.ints("q_lengths", &[BATCH], &lengths);
                Storage::Padded { lengths, bounds: bounds(SQ) }
            }
        };
        let kv_storage = match &self.kv {
            Keys::Dense => Storage::Dense,
            Keys::Padded(lengths) => {
                let lengths = tensors.ints("kv_lengths", &[BATCH], lengths);
                Storage::Padded { lengths, bounds: bounds(SKV) }
            }
            Keys::Paged(table) => {
                let full = i32::try_from(SKV).unwrap();
                let lengths = tensors.ints("kv_lengths", &[BATCH], &[full; BATCH]);
                let table = tensors.ints("table", &[BATCH, PAGES], table.as_flattened());
                Storage::Paged { table_k: table, table_v: table, lengths, bounds: bounds(SKV) }
            }
        };
        let mut op = SdpaFwd::new(q, k, v, o)
            .storage(q_storage, kv_storage)
            .softmax_scale(self.softmax_scale)
            .lse(lse, self.lse);
        if let Some(band) = self.band {
            op = op.band(band);
        }
        if let Some(cap) = self.soft_cap {
            op = op.soft_cap(cap);
        }
        if self.bias {
            op = op.bias(tensors.floats("bias", &[1, Q_HEADS, SQ, SKV], &bias_values()));
        }
        if self.alibi {
            op = op.alibi(tensors.floats("slopes", &[Q_HEADS], &alibi_slopes(4)));
        }
        if self.sink {
            op = op.sink(tensors.floats("sink", &[Q_HEADS], &sink_values()));
        }
        let mut builder = std::mem::take(&mut tensors.builder);
        builder.sdpa_fwd(op).unwrap();
        (builder.finish().unwrap(), tensors, o, lse)
    }

    /// Every engine's answer on the host, each held against the reference.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        let device = frazil::cpu::host();
        let (graph, ..) = self.declare();
        let facts = Arc::new(Facts::read(&graph).unwrap());
        let router = Router::from_registrations().unwrap();
        let plans = router.plans(&facts, &Arc::new(device.target().clone())).unwrap();
        plans.iter().map(|plan| self.run(plan, &device)).collect()
    }

    fn run(&self, plan: &Plan, device: &Device) -> Answer {
        let (_, mut tensors, o, lse) = self.declare();
        let executable = plan.build(device).unwrap();
        let bytes = usize::try_from(plan.workspace_bytes()).unwrap();
        let mut scratch = HostBuffer::zeroed(bytes);
        let mut bindings = Bindings::new();
        for (id, memory) in &mut tensors.memory {
            bindings.bind(*id, memory.buffer()).unwrap();
        }
        executable.execute(&bindings, Workspace::new(scratch.buffer()), Stream::HOST).unwrap();
        let answer = Answer { o: tensors.read(o), lse: tensors.read(lse) };
        self.assert_right(&answer, plan);
        answer
    }

    /// Live queries and keys of a sequence.
    fn lengths(&self, b: usize) -> (usize, usize) {
        let known = |length: i32| usize::try_from(length).unwrap();
        let len_kv = match &self.kv {
            Keys::Padded(lengths) => known(lengths[b]),
            _ => SKV,
        };
        (self.q_lengths.map_or(SQ, |lengths| known(lengths[b])), len_kv)
    }

    /// Rows of K or V of one head of a sequence.
    fn keys(&self, pool: &[f32], b: usize, head: usize, rows: usize) -> Vec<f32> {
        let page_of = |t: usize| match &self.kv {
            Keys::Paged(table) => usize::try_from(table[b][t / PAGE_SIZE]).unwrap(),
            _ => b * PAGES + t / PAGE_SIZE,
        };
        let row = |t: usize| {
            &pool[((page_of(t) * KV_HEADS + head) * PAGE_SIZE + t % PAGE_SIZE) * D..][..D]
        };
        (0..rows).flat_map(|t| row(t).to_vec()).collect()
    }

    fn assert_right(&self, answer: &Answer, plan: &Plan) {
        let tolerance = Tolerance::new(DType::F32, DType::F32, self.soft_cap.map(f64::from));
        let (q, bias, slopes, sink) = (q_values(), bias_values(), alibi_slopes(4), sink_values());
        for b in 0..BATCH {
            let (len_q, len_kv) = self.lengths(b);
            for h in 0..Q_HEADS {
                let at = b * Q_HEADS + h;
                let kv_head = h / (Q_HEADS / KV_HEADS);
                let (k, v) = (
                    self.keys(&pool(2), b, kv_head, len_kv),
                    self.keys(&pool(3), b, kv_head, len_kv),
                );
                let bias: Vec<f32> = (0..len_q)
                    .flat_map(|i| bias[(h * SQ + i) * SKV..][..len_kv].to_vec())
                    .collect();
                let align = self.band.map_or(Align::TopLeft, |band| band.align);
                let head = Head {
                    len_q,
                    len_kv,
                    head_dim_qk: D,
                    head_dim_v: D,
                    q: &q[at * SQ * D..][..len_q * D],
                    k: &k,
                    v: &v,
                    softmax_scale: self.softmax_scale.into(),
                    soft_cap: self.soft_cap.map(f64::from),
                    bias: self.bias.then_some(&bias[..]),
                    alibi: self.alibi.then(|| (slopes[h].into(), align)),
                    band: self.band,
                    sink: self.sink.then(|| sink[h].into()),
                };
                for i in 0..len_q {
                    let row = head.row(i);
                    let (o, lse) = (&answer.o[(at * SQ + i) * D..][..D], answer.lse[at * SQ + i]);
                    self.assert_row(
                        &tolerance,
                        &row,
                        o,
                        lse,
                        &format!("{} b={b} h={h} i={i}", plan.name()),
                    );
                }
            }
        }
    }

    fn assert_row(&self, tolerance: &Tolerance, row: &Row, o: &[f32], lse: f32, place: &str) {
        for (column, &found) in o.iter().enumerate() {
            let (found, want) = (f64::from(found), row.o[column]);
            let err = (found - want).abs();
            assert!(err <= tolerance.of_o(row, column), "{place} d={column}: {found}, want {want}");
        }
        let unit = if self.lse == LseForm::Base2 { std::f64::consts::LN_2 } else { 1.0 };
        let (found, want) = (f64::from(lse) * unit, row.lse);
        let right = found == want || (found - want).abs() <= tolerance.of_lse(row);
        assert!(right, "{place}: LSE {found}, want {want}");
    }
}

/// `[B, KV_HEADS, SKV, D]` of a pool in order.
fn dense(pool: &[f32]) -> Vec<f32> {
    let mut rows = Vec::with_capacity(pool.len());
    for b in 0..BATCH {
        for head in 0..KV_HEADS {
            for t in 0..SKV {
                let page = b * PAGES + t / PAGE_SIZE;
                let at = ((page * KV_HEADS + head) * PAGE_SIZE + t % PAGE_SIZE) * D;
                rows.extend(&pool[at..at + D]);
            }
        }
    }
    rows
}
