//! An answer against the f64 reference and against what the file expects.

use frazil::DType;
use frazil_conformance::reference::{Head, Row};
use frazil_conformance::tolerance::Tolerance;
use rayon::prelude::*;
use serde::Serialize;

use super::execute::Answer;
use super::problem::Problem;
use crate::input::{Input, Side, Tensor};

/// One output against one source of truth.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Comparison {
    /// `o` or `lse`.
    pub(super) tensor: &'static str,
    /// `reference` or the name of the expected tensor.
    pub(super) against: &'static str,
    /// Whether a miss counts. Expected tensors answer the inputs as stored, not as converted.
    pub(super) held: bool,
    /// Absolute error of the element that is worst relative to its tolerance.
    pub(super) max_err: f64,
    /// Tolerance of that element.
    pub(super) tol: f64,
    /// Elements that are not a number.
    pub(super) num_nan: usize,
    /// Elements outside their tolerance.
    pub(super) num_bad: usize,
    /// The first of them.
    pub(super) first_bad: Option<Vec<usize>>,
    #[serde(skip)]
    used: f64,
    #[serde(skip)]
    first_bad_element: Option<usize>,
}

impl Comparison {
    pub(super) fn is_right(&self) -> bool {
        self.num_bad == 0
    }

    fn see(&mut self, element: usize, got: f32, want: f64, tol: f64) {
        let got = f64::from(got);
        self.num_nan += usize::from(got.is_nan());
        // Infinities of one sign are equal; their difference is NaN.
        let err = if got == want { 0.0 } else { (got - want).abs() };
        // A tolerance of 0 allows an error of 0; NaN is never allowed.
        let used = if err == 0.0 { 0.0 } else { err / tol };
        let bad = used.is_nan() || used > 1.0;
        self.num_bad += usize::from(bad);
        if bad && self.first_bad_element.is_none_or(|first| element < first) {
            self.first_bad_element = Some(element);
        }
        let used = if used.is_nan() { f64::INFINITY } else { used };
        if used > self.used || self.tol == 0.0 {
            (self.used, self.max_err, self.tol) = (used, err, tol);
        }
    }

    fn merge(mut self, other: &Self) -> Self {
        self.num_nan += other.num_nan;
        self.num_bad += other.num_bad;
        self.first_bad_element =
            [self.first_bad_element, other.first_bad_element].into_iter().flatten().min();
        if other.used > self.used || self.tol == 0.0 {
            (self.used, self.max_err, self.tol) = (other.used, other.max_err, other.tol);
        }
        self
    }
}

/// Everything that heads are compared with, widened.
struct Judge<'a> {
    input: &'a Input,
    problem: &'a Problem,
    heads: Heads,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    o: Vec<f32>,
    lse: Vec<f32>,
    expected_o: Option<Expected>,
    expected_lse: Option<Expected>,
    tolerance: Tolerance,
}

/// Extents that the graph has checked.
#[derive(Clone, Copy)]
struct Heads {
    num_q: usize,
    num_kv: usize,
    dim_qk: usize,
    dim_v: usize,
}

struct Expected {
    values: Vec<f32>,
    /// Half a unit in the last place, relative: the file's own rounding.
    rounding: f64,
}

impl Expected {
    fn of(tensor: &Tensor) -> Self {
        let rounding = match tensor.dtype {
            DType::F16 => 2_f64.powi(-11),
            DType::Bf16 => 2_f64.powi(-9),
            _ => 2_f64.powi(-24),
        };
        Self { values: tensor.values(), rounding }
    }

    fn at(&self, element: usize) -> (f64, f64) {
        let value = f64::from(self.values[element]);
        let rounding = if value.is_finite() { self.rounding * value.abs() } else { 0.0 };
        (value, rounding)
    }
}

/// Comparisons of one head, or of all.
#[derive(Clone, Debug)]
struct Comparisons {
    o: Pair,
    lse: Pair,
}

/// One output against the reference and against the file.
#[derive(Clone, Debug)]
struct Pair {
    reference: Comparison,
    expected: Comparison,
}

impl Pair {
    fn new(tensor: &'static str, expected: &'static str, held: bool) -> Self {
        let new = |against, held| Comparison { tensor, against, held, ..Comparison::default() };
        Self { reference: new("reference", true), expected: new(expected, held) }
    }

    fn see(
        &mut self,
        element: usize,
        got: f32,
        (want, tol): (f64, f64),
        expected: Option<&Expected>,
    ) {
        self.reference.see(element, got, want, tol);
        if let Some(expected) = expected {
            let (want, rounding) = expected.at(element);
            self.expected.see(element, got, want, tol + rounding);
        }
    }

    fn merge(self, other: Self) -> Self {
        Self {
            reference: self.reference.merge(&other.reference),
            expected: self.expected.merge(&other.expected),
        }
    }
}

/// Compares every element.
pub(super) fn judge(input: &Input, problem: &Problem, answer: &Answer) -> Vec<Comparison> {
    let extents = |tensor: &Tensor| (tensor.shape[1], tensor.shape[tensor.shape.len() - 1]);
    let ((num_q, dim_qk), (num_kv, dim_v)) = (extents(&input.q), extents(&input.v));
    let judge = Judge {
        input,
        problem,
        heads: Heads { num_q, num_kv, dim_qk, dim_v },
        q: input.q.values(),
        k: input.k.values(),
        v: input.v.values(),
        o: answer.o.values(),
        lse: answer.lse.values(),
        expected_o: input.expected_o.as_ref().map(Expected::of),
        expected_lse: input.expected_lse.as_ref().map(Expected::of),
        tolerance: Tolerance::new(input.v.dtype, answer.o.dtype, problem.soft_cap.map(f64::from)),
    };
    // A batch of empty sequences may be as long as an int32 counts.
    let batch = if judge.lse.is_empty() { 0 } else { input.q_side.batch };
    let all =
        (0..batch * num_q).into_par_iter().map(|at| judge.head(at / num_q, at % num_q)).reduce(
            || judge.nothing(),
            |a, b| Comparisons { o: a.o.merge(b.o), lse: a.lse.merge(b.lse) },
        );
    let mut comparisons = Vec::new();
    for (pair, shape, expected) in [
        (all.o, &problem.o.1, judge.expected_o.is_some()),
        (all.lse, &problem.lse, judge.expected_lse.is_some()),
    ] {
        let pair = [Some(pair.reference), expected.then_some(pair.expected)];
        comparisons.extend(pair.into_iter().flatten().map(|mut comparison| {
            comparison.first_bad = comparison.first_bad_element.map(|at| index(at, shape));
            comparison
        }));
    }
    comparisons
}

impl Judge<'_> {
    fn nothing(&self) -> Comparisons {
        let held = !self.input.rounded;
        Comparisons {
            o: Pair::new("o", "expected_o", held),
            lse: Pair::new("lse", "expected_lse", held),
        }
    }

    /// All rows of one query head of one sequence.
    fn head(&self, seq: usize, head: usize) -> Comparisons {
        let mut seen = self.nothing();
        let Heads { num_q, num_kv, dim_qk, dim_v } = self.heads;
        let (q_side, kv_side) = (&self.input.q_side, &self.input.kv_side);
        let (len_q, len_kv) = (q_side.sequence(seq).1, kv_side.sequence(seq).1);
        let kv_head = head / (num_q / num_kv);
        let rows = |side: &Side, values: &[f32], columns: usize, (heads, head), len: usize| {
            let row = |row| &values[side.row_index(heads, seq, head, row) * columns..][..columns];
            (0..len).flat_map(|at| row(at).iter().copied()).collect::<Vec<f32>>()
        };
        let (of_q, of_kv) = ((num_q, head), (num_kv, kv_head));
        let q = rows(q_side, &self.q, dim_qk, of_q, len_q);
        let k = rows(kv_side, &self.k, dim_qk, of_kv, len_kv);
        let v = rows(kv_side, &self.v, dim_v, of_kv, len_kv);
        let finite_v = v.iter().all(|value| value.is_finite());
        let reference = Head {
            len_q,
            len_kv,
            head_dim_qk: dim_qk,
            head_dim_v: dim_v,
            q: &q,
            k: &k,
            v: &v,
            softmax_scale: f64::from(self.problem.softmax_scale),
            soft_cap: self.problem.soft_cap.map(f64::from),
            bias: None,
            alibi: None,
            band: self.problem.band,
            sink: None,
        };
        // Packed rows end with their sequence; padded ones go on, and are dead.
        let end = if q_side.is_packed() { len_q } else { q_side.extent };
        for at in 0..end {
            let row = (at < len_q).then(|| reference.row(at));
            self.row(&mut seen, q_side.row_index(num_q, seq, head, at), row.as_ref(), finite_v);
        }
        seen
    }

    /// One row; `None` is one past the length of its sequence.
    fn row(&self, seen: &mut Comparisons, at: usize, row: Option<&Row>, finite_v: bool) {
        for column in 0..self.heads.dim_v {
            let element = at * self.heads.dim_v + column;
            let got = self.o[element];
            let want =
                row.map_or((0.0, 0.0), |row| (row.o[column], self.tolerance.of_o(row, column)));
            // What is not finite in V may reach any row of its sequence.
            if want.0.is_finite() && (got.is_finite() || finite_v) {
                seen.o.see(element, got, want, self.expected_o.as_ref());
            }
        }
        let want =
            row.map_or((f64::NEG_INFINITY, 0.0), |row| (row.lse, self.tolerance.of_lse(row)));
        if !want.0.is_nan() {
            seen.lse.see(at, self.lse[at], want, self.expected_lse.as_ref());
        }
    }
}

/// Position of an element of a contiguous tensor.
fn index(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let at = element % extent;
            element /= extent;
            at
        })
        .collect();
    index.reverse();
    index
}
