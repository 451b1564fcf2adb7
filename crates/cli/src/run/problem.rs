//! A file as a graph.

use std::ops::Range;
use std::sync::Arc;

use frazil::{
    Align, Band, DType, Facts, GraphBuilder, InvalidGraph, LengthBounds, LseForm, SdpaFwd,
    Sequences, Storage, TensorId, TensorSpec,
};

use crate::args::{Corner, Scores};
use crate::failure::Failure;
use crate::input::{Input, Rows, Side, Tensor};

/// What is done to the scores, in the words of the graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modifiers {
    pub(super) scale: Option<f32>,
    pub(super) band: Option<Band>,
    pub(super) soft_cap: Option<f32>,
    /// The arguments that made the band, as given.
    band_flags: Option<&'static str>,
}

/// The graph of a file, and the tensors to bind.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) facts: Arc<Facts>,
    pub(super) softmax_scale: f32,
    pub(super) band: Option<Band>,
    pub(super) soft_cap: Option<f32>,
    /// Arguments by which the scores are other than those the file's expectations were made with:
    /// it states a scale at most, and what it does not state is plain.
    pub(super) unlike_file: Vec<&'static str>,
    pub(super) ids: Ids,
    /// Type and shape of O.
    pub(super) o: (DType, Vec<usize>),
    /// Shape of the LSE, which is f32.
    pub(super) lse: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub(super) q: TensorId,
    pub(super) k: TensorId,
    pub(super) v: TensorId,
    pub(super) o: TensorId,
    pub(super) lse: TensorId,
    pub(super) q_rows: Option<TensorId>,
    pub(super) kv_rows: Option<TensorId>,
}

impl Modifiers {
    pub(super) fn of(scores: &Scores) -> Result<Self, Failure> {
        let mut left = None;
        let mut right = scores.causal.then_some(0);
        if let Some(window) = scores.window {
            left = window.left;
            right = right.or(window.right);
        }
        let banded = left.is_some() || right.is_some();
        if scores.align.is_some() && !banded {
            return Err(Failure::Input("--align says nothing without --causal or --window".into()));
        }
        let align = match scores.align {
            Some(Corner::TopLeft) => Align::TopLeft,
            Some(Corner::BottomRight) | None => Align::BottomRight,
        };
        let band = banded.then_some(Band { align, left, right });
        let band_flags = band.map(|_| match (scores.causal, scores.window) {
            (true, None) => "--causal",
            (true, Some(_)) => "--causal --window",
            (false, _) => "--window",
        });
        Ok(Self { scale: scores.scale, band, soft_cap: scores.soft_cap, band_flags })
    }
}

impl Problem {
    /// Declares what a file holds, with the modifiers asked for.
    pub(super) fn declare(input: &Input, modifiers: &Modifiers) -> Result<Self, Failure> {
        let invalid = |invalid| Failure::in_file(&input.path, invalid);
        let mut problem = Self::graph(input, modifiers).map_err(invalid)?;
        // A scale in the file that means nothing is another one too.
        let of_file = Self::graph(input, &Modifiers { scale: None, ..*modifiers });
        let of_file = of_file.ok().map(|problem| problem.softmax_scale.to_bits());
        let other_scale = of_file != Some(problem.softmax_scale.to_bits());
        problem.unlike_file = [
            modifiers.band_flags,
            modifiers.soft_cap.map(|_| "--soft-cap"),
            other_scale.then_some("--scale"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let expected = [
            ("expected_o", &input.expected_o, &problem.o.1),
            ("expected_lse", &input.expected_lse, &problem.lse),
        ];
        for (name, tensor, shape) in expected {
            let Some(tensor) = tensor.as_ref().filter(|tensor| tensor.shape != *shape) else {
                continue;
            };
            let what = format!("tensor `{name}` has shape {:?}, needed: {shape:?}", tensor.shape);
            return Err(Failure::in_file(&input.path, what));
        }
        Ok(problem)
    }

    /// Keys that a query of a sequence of these lengths sees.
    pub(super) fn visible(&self, len_q: usize, len_kv: usize, row: usize) -> Range<usize> {
        let Some(Band { align, left, right }) = self.band else { return 0..len_kv };
        let (len_q, len_kv, row) = (len_q as i64, len_kv as i64, row as i64);
        let diagonal = row + align.offset(len_q, len_kv);
        let first = left.map_or(0, |left| diagonal - i64::from(left));
        let end = right.map_or(len_kv, |right| diagonal + i64::from(right) + 1);
        let inside = |at: i64| usize::try_from(at.clamp(0, len_kv)).unwrap_or(0);
        inside(first)..inside(end).max(inside(first))
    }

    fn graph(input: &Input, modifiers: &Modifiers) -> Result<Self, InvalidGraph> {
        let Modifiers { scale, band, soft_cap, .. } = *modifiers;
        let scale = scale.or(input.softmax_scale);
        let columns = input.v.shape.last().copied().unwrap_or(0);
        let mut o_shape = input.q.shape.clone();
        if let Some(last) = o_shape.last_mut() {
            *last = columns;
        }
        let lse_shape = o_shape[..o_shape.len() - 1].to_vec();
        let o_dtype = input.q.dtype;

        let mut graph = GraphBuilder::new();
        let mut input_tensor =
            |name, tensor: &Tensor| graph.tensor(spec(name, tensor.dtype, &tensor.shape));
        let q = input_tensor("q", &input.q)?;
        let k = input_tensor("k", &input.k)?;
        let v = input_tensor("v", &input.v)?;
        let o = graph.tensor(spec("o", o_dtype, &o_shape))?;
        let lse = graph.tensor(spec("lse", DType::F32, &lse_shape))?;
        let (q_storage, q_rows) = storage(&mut graph, "q", &input.q_side)?;
        let (kv_storage, kv_rows) = storage(&mut graph, "kv", &input.kv_side)?;
        let mut op =
            SdpaFwd::new(q, k, v, o).storage(q_storage, kv_storage).lse(lse, LseForm::Natural);
        if let Some(scale) = scale {
            op = op.softmax_scale(scale);
        }
        if let Some(band) = band {
            op = op.band(band);
        }
        if let Some(cap) = soft_cap {
            op = op.soft_cap(cap);
        }
        graph.sdpa_fwd(op)?;
        let facts = Facts::read(&graph.finish()?)?;
        let softmax_scale = match &facts {
            Facts::SdpaFwd(facts) => facts.softmax_scale(),
            other => unreachable!("{} from a graph of attention forward", other.op_name()),
        };
        Ok(Self {
            facts: Arc::new(facts),
            softmax_scale,
            band,
            soft_cap,
            unlike_file: Vec::new(),
            ids: Ids { q, k, v, o, lse, q_rows, kv_rows },
            o: (o_dtype, o_shape),
            lse: lse_shape,
        })
    }
}

/// A contiguous tensor of a file. Extents past `i64` become its greatest value, which the graph
/// refuses like them.
fn spec(name: &str, dtype: DType, shape: &[usize]) -> TensorSpec {
    let extents: Vec<i64> =
        shape.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect();
    TensorSpec::contiguous(name, dtype, extents)
}

/// Declares the length tensor of a side, where there is one.
fn storage(
    graph: &mut GraphBuilder,
    side_name: &str,
    side: &Side,
) -> Result<(Storage, Option<TensorId>), InvalidGraph> {
    let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
    let bounds = LengthBounds::up_to(count(side.length_range().1));
    let max_total = count(side.extent);
    let mut tensor = |form, entries: &[i32]| {
        let name = format!("{side_name}_{form}");
        graph.tensor(spec(&name, DType::I32, &[entries.len()]).align(4))
    };
    let packed = |sequences| Storage::Packed { sequences, bounds, max_total };
    Ok(match &side.rows {
        Rows::Dense => (Storage::Dense, None),
        Rows::Padded(entries) => {
            let lengths = tensor("lengths", entries)?;
            (Storage::Padded { lengths, bounds }, Some(lengths))
        }
        Rows::Lengths(entries) => {
            let lengths = tensor("lengths", entries)?;
            (packed(Sequences::Lengths(lengths)), Some(lengths))
        }
        Rows::Prefix(entries) => {
            let prefix = tensor("prefix", entries)?;
            (packed(Sequences::Prefix(prefix)), Some(prefix))
        }
    })
}
