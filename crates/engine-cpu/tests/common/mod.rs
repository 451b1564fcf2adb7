//! Numbers, a naive reference in f64, and a way to run a graph on the engine.

#![expect(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::Arc;

use frazil_core::{
    Align, Band, Bindings, Buffer, Device, EngineRegistration, Executable, Facts, Graph,
    HostBuffer, Plan, RegisteredEngine, Stream, TensorId, Unsupported, Workspace, inventory,
};

/// A number in -1..1 for each tensor and index.
pub(crate) fn number(tensor: u64, index: [usize; 4]) -> f32 {
    let mut hash = tensor.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for at in index {
        hash = (hash ^ at as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 29;
    }
    // Few bits, so that the number is exact in f16 and bf16 too.
    ((hash >> 40) % 256) as f32 / 128.0 - 1.0
}

pub(crate) const Q: u64 = 1;
pub(crate) const K: u64 = 2;
pub(crate) const V: u64 = 3;
pub(crate) const BIAS: u64 = 4;

/// Attention over numbers of [`number`], indexed (sequence, head, row, column).
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub heads: (usize, usize),
    pub dims: (usize, usize),
    pub scale: f64,
    pub band: Option<Band>,
    pub soft_cap: Option<f64>,
    pub bias: bool,
    pub slopes: Option<Vec<f32>>,
    pub sink: Option<Vec<f32>>,
}

impl Problem {
    pub(crate) fn new(heads: (usize, usize), dims: (usize, usize)) -> Self {
        Self {
            heads,
            dims,
            scale: 1.0 / (dims.0 as f64).sqrt(),
            band: None,
            soft_cap: None,
            bias: false,
            slopes: None,
            sink: None,
        }
    }

    fn sees(&self, off: i64, i: i64, j: i64) -> bool {
        let Some(band) = self.band else { return true };
        band.left.is_none_or(|left| j >= i + off - i64::from(left))
            && band.right.is_none_or(|right| j <= i + off + i64::from(right))
    }

    /// O, LSE, max and sum of one row of a sequence with these lengths.
    pub(crate) fn row(&self, b: usize, h: usize, i: usize, (len_q, len_kv): (usize, usize)) -> Row {
        let kv_head = h / (self.heads.0 / self.heads.1);
        let align = self.band.map_or(Align::TopLeft, |band| band.align);
        let off = align.offset(len_q as i64, len_kv as i64);
        let mut scores = Vec::new();
        for j in (0..len_kv).filter(|&j| self.sees(off, i as i64, j as i64)) {
            let dot: f64 = (0..self.dims.0)
                .map(|d| {
                    f64::from(number(Q, [b, h, i, d])) * f64::from(number(K, [b, kv_head, j, d]))
                })
                .sum();
            let mut score = self.scale * dot;
            if let Some(cap) = self.soft_cap {
                score = cap * (score / cap).tanh();
            }
            if self.bias {
                score += f64::from(number(BIAS, [b, h, i, j]));
            }
            if let Some(slopes) = &self.slopes {
                score -= f64::from(slopes[h]) * (i as i64 + off - j as i64).abs() as f64;
            }
            scores.push((j, score));
        }
        let sink = self.sink.as_ref().map(|sink| f64::from(sink[h]));
        let sink = sink.filter(|&sink| sink > f64::NEG_INFINITY);
        let all = scores.iter().map(|&(_, score)| score).chain(sink);
        let max = all.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = all.map(|score| (score - max).exp()).sum();
        let mut o = vec![0.0; self.dims.1];
        for &(j, score) in &scores {
            let weight = (score - max).exp() / sum;
            for (d, o) in o.iter_mut().enumerate() {
                *o += weight * f64::from(number(V, [b, kv_head, j, d]));
            }
        }
        Row { o, lse: max + sum.ln(), max, sum }
    }
}

/// The answer for one row.
#[derive(Debug)]
pub(crate) struct Row {
    pub o: Vec<f64>,
    pub lse: f64,
    pub max: f64,
    pub sum: f64,
}

/// Fails unless `found` is `expected` within `tolerance`, infinities being equal.
pub(crate) fn assert_near(found: f32, expected: f64, tolerance: f64, what: impl std::fmt::Debug) {
    let near = (f64::from(found) - expected).abs() <= tolerance;
    assert!(near || f64::from(found) == expected, "{what:?}: {found} for {expected}");
}

/// The engine's answer, through its registration.
pub(crate) fn plans(graph: &Graph, device: &Device) -> Result<Vec<Plan>, Unsupported> {
    let registration = inventory::iter::<EngineRegistration>
        .into_iter()
        .find(|registration| registration.id.as_str() == "sdpa_fwd_cpu")
        .expect("the engine is registered");
    let facts = Facts::read(graph).unwrap();
    let engine = Arc::new(RegisteredEngine::from(registration));
    engine.ask(&Arc::new(facts), &Arc::new(device.target().clone()))
}

pub(crate) fn built(graph: &Graph, threads: u32) -> Executable {
    // Named, so that the crate is linked and registers itself.
    let device = frazil_engine_cpu::host_with_threads(threads);
    plans(graph, &device).unwrap().remove(0).build(&device).unwrap()
}

/// Runs a graph and gives the error word.
pub(crate) fn run(graph: &Graph, threads: u32, buffers: Vec<(TensorId, Buffer<'_>)>) -> u32 {
    let executable = built(graph, threads);
    let mut bindings = Bindings::new();
    for (id, buffer) in buffers {
        bindings.bind(id, buffer).unwrap();
    }
    execute(&executable, &bindings)
}

/// Executes with a workspace full of NaN and gives the error word.
pub(crate) fn execute(executable: &Executable, bindings: &Bindings<'_>) -> u32 {
    let mut memory = HostBuffer::zeroed(executable.plan().workspace_bytes() as usize);
    memory.as_bytes_mut().fill(0xff);
    executable.execute(bindings, Workspace::new(memory.buffer()), Stream::HOST).unwrap();
    executable.plan().error_word().map_or(0, |offset| {
        let bytes = &memory.as_bytes()[offset as usize..][..4];
        u32::from_ne_bytes(bytes.try_into().unwrap())
    })
}
