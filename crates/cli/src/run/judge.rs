//! An answer against the f64 reference and against what the file expects.

use frazil_conformance::reference::{Head, Row};
use frazil_conformance::tolerance::Tolerance;
use rayon::prelude::*;

use super::comparison::{Comparison, Expected, Pair};
use super::execute::Answer;
use super::problem::Problem;
use crate::input::{Input, Side, Tensor};

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

/// Comparisons of one head, or of all.
#[derive(Clone, Debug)]
struct Comparisons {
    o: Pair,
    lse: Pair,
}

/// Compares every element.
pub(super) fn judge(input: &Input, problem: &Problem, answer: &Answer) -> Vec<Comparison> {
    let extents = |tensor: &Tensor| (tensor.shape[1], tensor.shape[tensor.shape.len() - 1]);
    let ((num_q, dim_qk), (num_kv, dim_v)) = (extents(&input.q), extents(&input.v));
    let unlike = problem.unlike_file.join(" ");
    let expected =
        |tensor: &Option<Tensor>| tensor.as_ref().filter(|_| unlike.is_empty()).map(Expected::of);
    let judge = Judge {
        input,
        problem,
        heads: Heads { num_q, num_kv, dim_qk, dim_v },
        q: input.q.values(),
        k: input.k.values(),
        v: input.v.values(),
        o: answer.o.values(),
        lse: answer.lse.values(),
        expected_o: expected(&input.expected_o),
        expected_lse: expected(&input.expected_lse),
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
    for (mut pair, shape, expected) in [
        (all.o, &problem.o.1, input.expected_o.is_some()),
        (all.lse, &problem.lse, input.expected_lse.is_some()),
    ] {
        if !unlike.is_empty() {
            pair.expected.reason = Some(format!("was made without {unlike}"));
        }
        let pair = [Some(pair.reference), expected.then_some(pair.expected)];
        comparisons.extend(pair.into_iter().flatten().map(|mut comparison| {
            comparison.conclude(shape);
            comparison
        }));
    }
    comparisons
}

impl Judge<'_> {
    fn nothing(&self) -> Comparisons {
        let held = !self.input.rounded && self.problem.unlike_file.is_empty();
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
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let bad_keys: Vec<usize> =
            (0..len_kv).filter(|at| !finite(&k[at * dim_qk..][..dim_qk])).collect();
        let bad_columns: Vec<bool> = (0..dim_v)
            .map(|column| v.iter().skip(column).step_by(dim_v).any(|value| !value.is_finite()))
            .collect();
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
            let bad_scores = row.is_some() && {
                let seen = self.problem.visible(len_q, len_kv, at);
                bad_keys.iter().any(|key| seen.contains(key))
                    || !(seen.is_empty() || finite(&q[at * dim_qk..][..dim_qk]))
            };
            let reached = Reached { scores: bad_scores, columns: &bad_columns };
            self.row(&mut seen, q_side.row_index(num_q, seq, head, at), row.as_ref(), reached);
        }
        seen
    }

    /// One row; `None` is one past the length of its sequence.
    fn row(&self, seen: &mut Comparisons, at: usize, row: Option<&Row>, reached: Reached<'_>) {
        for (column, &bad) in reached.columns.iter().enumerate() {
            let element = at * self.heads.dim_v + column;
            let got = self.o[element];
            let want =
                row.map_or((0.0, 0.0), |row| (row.o[column], self.tolerance.of_o(row, column)));
            // What is not finite in V reaches the rows that see it, and may reach any other row of
            // its sequence.
            if reached.scores || bad && !(got.is_finite() && want.0.is_finite()) {
                seen.o.excuse(got);
            } else {
                seen.o.see(element, got, want, self.expected_o.as_ref());
            }
        }
        if reached.scores {
            return seen.lse.excuse(self.lse[at]);
        }
        let want =
            row.map_or((f64::NEG_INFINITY, 0.0), |row| (row.lse, self.tolerance.of_lse(row)));
        seen.lse.see(at, self.lse[at], want, self.expected_lse.as_ref());
    }
}

/// What of a row NaN or infinity in the input may have reached.
#[derive(Clone, Copy)]
struct Reached<'a> {
    scores: bool,
    /// By column of V.
    columns: &'a [bool],
}
