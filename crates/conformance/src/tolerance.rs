//! How far an engine may be from the reference.
//!
//! One function of the reference's own sums, never set per case. The terms: rounding of the weights
//! before the second product (type `p`), rounding of the output (type of O), and what f32 scores
//! and an f32 exponential lose. An approximate `tanh` moves each score by up to `cap * 2^-10`, which
//! moves the row towards the keys concerned. Weights and outputs too small to be normal numbers of
//! their type are rounded by an absolute amount, not a relative one.

use frazil_core::DType;

use crate::reference::Row;

/// What f32 arithmetic loses per unit of score.
const F32_LOSS: f64 = 1.0 / (1 << 20) as f64;

/// Relative loss of an approximate `tanh`, as a share of the cap.
const TANH_LOSS: f64 = 1.0 / (1 << 10) as f64;

/// Greatest errors allowed for one row.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Half a unit in the last place of the type in which weights enter the second product.
    p_unit: f64,
    /// The same of the type of O.
    o_unit: f64,
    /// Half the distance of the smallest weights of that type.
    p_floor: f64,
    /// The same of the type of O.
    o_floor: f64,
    soft_cap: Option<f64>,
}

/// Unit roundoff doubled: 2^-8 for bf16, 2^-11 for f16, 2^-24 for f32.
///
/// # Panics
///
/// For types that no engine computes in.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::Bf16 => 2_f64.powi(-8),
        DType::F16 => 2_f64.powi(-11),
        DType::F32 => 2_f64.powi(-24),
        other => unreachable!("{other} has no tolerance"),
    }
}

/// What rounding to subnormal numbers can move a value by: 2^-25 for f16. The others have the
/// exponents of f32, whose subnormal numbers a GPU may flush.
fn floor(dtype: DType) -> f64 {
    if dtype == DType::F16 { 2_f64.powi(-25) } else { f64::from(f32::MIN_POSITIVE) }
}

impl Tolerance {
    /// For weights that enter the second product as `p` and an output stored as `o`.
    pub fn new(p: DType, o: DType, soft_cap: Option<f64>) -> Self {
        let (p_floor, o_floor) = (floor(p), floor(o));
        Self { p_unit: unit(p), o_unit: unit(o), p_floor, o_floor, soft_cap }
    }

    /// Of one element of O.
    pub fn of_o(&self, row: &Row, column: usize) -> f64 {
        let tanh =
            self.soft_cap.map_or(0.0, |cap| cap * TANH_LOSS * row.sum_p2_dev2[column].sqrt());
        5.0 * self.p_unit * row.sum_p2_v2[column].sqrt()
            + self.o_unit * row.o[column].abs()
            + F32_LOSS * (4.0 + scores(row)) * row.sum_p_abs_v[column]
            + tanh
            + self.underflow(row, column)
    }

    /// What weights too small for their type lose, before the sum of exponentials divides them, and
    /// what an output too small for its type loses; nothing where every term of the row is 0.
    fn underflow(&self, row: &Row, column: usize) -> f64 {
        if row.sum_abs_v[column] == 0.0 {
            return 0.0;
        }
        self.p_floor * row.sum_abs_v[column] / row.sum_exp + self.o_floor
    }

    /// Of the LSE, natural logarithm.
    pub fn of_lse(&self, row: &Row) -> f64 {
        F32_LOSS * (4.0 + finite(row.lse).abs() + scores(row))
    }

    /// Of the greatest score.
    pub fn of_max(&self, row: &Row) -> f64 {
        F32_LOSS * (4.0 + row.max_abs_score + scores(row))
    }

    /// Of the sum of exponentials: what LSE and the greatest score allow, since it is
    /// `exp(lse - max)`.
    pub fn of_sum_exp(&self, row: &Row) -> f64 {
        row.sum_exp * (self.of_lse(row) + self.of_max(row))
    }
}

/// What f32 arithmetic on the scores of a row loses, in units of [`F32_LOSS`]. Rounding in the sum
/// `q . k` is relative to its terms, not to a score in which they cancel.
fn scores(row: &Row) -> f64 {
    row.max_abs_score + row.max_abs_dot / 4.0
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use frazil_core::{Align, Band};
    use half::{bf16, f16};

    use super::*;
    use crate::reference::Head;

    const DIM: usize = 64;

    /// What a careful kernel computes: f32 scores, sums block by block, weights rounded to the type
    /// of the second product and summed before that, an output rounded to its type.
    fn emulated(head: &Head<'_>, i: usize, dtype: DType, drop: Option<usize>) -> (Vec<f64>, f64) {
        let round = |x: f32| match dtype {
            DType::Bf16 => bf16::from_f32(x).to_f32(),
            DType::F16 => f16::from_f32(x).to_f32(),
            _ => x,
        };
        let q = &head.q[i * DIM..][..DIM];
        let scale = 1.0 / (DIM as f32).sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "it came from an f32")]
        let cap = head.soft_cap.map(|cap| cap as f32);
        let visible = (0..head.len_kv).filter(|&j| head.band.is_none() || j <= i);
        let scores: Vec<(usize, f32)> = visible
            .filter(|&j| drop != Some(j))
            .map(|j| {
                let k = &head.k[j * DIM..][..DIM];
                let score = scale * q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>();
                (j, cap.map_or(score, |cap| cap * (score / cap).tanh()))
            })
            .collect();
        let max = scores.iter().map(|&(_, score)| score).fold(f32::NEG_INFINITY, f32::max);
        let mut o = vec![0.0_f32; head.head_dim_v];
        let mut sum = 0.0_f32;
        for block in scores.chunks(64) {
            let mut block_sum = 0.0;
            for &(j, score) in block {
                let p = (score - max).exp();
                block_sum += p;
                let v = &head.v[j * head.head_dim_v..][..head.head_dim_v];
                o.iter_mut().zip(v).for_each(|(o, v)| *o += round(p) * v);
            }
            sum += block_sum;
        }
        let o = o.iter().map(|&o| if sum == 0.0 { 0.0 } else { round(o / sum).into() }).collect();
        (o, (max + sum.ln()).into())
    }

    /// Greatest errors of O and of the LSE over all rows, as shares of the tolerance.
    fn worst(head: &Head<'_>, dtype: DType, drop: Option<usize>) -> (f64, f64) {
        let tolerance = Tolerance::new(dtype, dtype, head.soft_cap);
        let (mut of_o, mut of_lse) = (0.0_f64, 0.0_f64);
        for i in 0..head.len_q {
            let row = head.row(i);
            let (o, lse) = emulated(head, i, dtype, drop);
            for (column, o) in o.iter().enumerate() {
                let err = (o - row.o[column]).abs();
                if err > 0.0 {
                    of_o = of_o.max(err / tolerance.of_o(&row, column));
                }
            }
            if row.lse.is_finite() {
                of_lse = of_lse.max((lse - row.lse).abs() / tolerance.of_lse(&row));
            }
        }
        (of_o, of_lse)
    }

    fn values(dtype: DType, values: crate::case::Values, rows: (usize, usize)) -> [Vec<f32>; 3] {
        let case: crate::case::Case = serde_json::from_value(serde_json::json!({
            "name": "emulated", "dtype": dtype, "values": values, "batch": 1, "num_q_heads": 1,
            "num_kv_heads": 1, "head_dim_qk": DIM, "seqlen_q": rows.0, "seqlen_kv": rows.1,
        }))
        .unwrap();
        [
            (frazil_core::Role::Q, rows.0),
            (frazil_core::Role::K, rows.1),
            (frazil_core::Role::V, rows.1),
        ]
        .map(|(role, rows)| crate::data::head(&case, role, (0, 0), (rows, DIM)))
    }

    /// The key that counts most for query 0.
    fn heaviest_key(head: &Head<'_>) -> usize {
        let score = |j: usize| -> f32 {
            head.q[..DIM].iter().zip(&head.k[j * DIM..]).map(|(q, k)| q * k).sum()
        };
        (0..head.len_kv).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap()
    }

    #[rstest::rstest]
    fn a_correct_kernel_passes_and_one_that_drops_a_key_fails(
        #[values(DType::Bf16, DType::F16, DType::F32)] dtype: DType,
        #[values(1, 33, 1000)] len_kv: usize,
        #[values(
            crate::case::Values::Normal,
            crate::case::Values::SparseInts,
            crate::case::Values::OneHotV,
            crate::case::Values::Large,
            crate::case::Values::ConstantV,
            crate::case::Values::NegativeScores
        )]
        kind: crate::case::Values,
        #[values(None, Some(2.0))] soft_cap: Option<f64>,
    ) {
        let len_q = 40;
        let [q, k, v] = values(dtype, kind, (len_q, len_kv));
        let mut head = Head {
            len_q,
            len_kv,
            head_dim_qk: DIM,
            head_dim_v: DIM,
            q: &q,
            k: &k,
            v: &v,
            softmax_scale: (1.0 / (DIM as f32).sqrt()).into(),
            soft_cap,
            bias: None,
            alibi: None,
            band: None,
            sink: None,
        };
        for band in [None, Some(Band::causal(Align::TopLeft))] {
            head.band = band;
            let (of_o, of_lse) = worst(&head, dtype, None);
            assert!(of_o <= 0.8 && of_lse <= 0.8, "correct: {of_o} of o, {of_lse} of the lse");
        }
        head.band = None;
        let (of_o, of_lse) = worst(&head, dtype, Some(heaviest_key(&head)));
        assert!(of_lse > 1.0, "one key dropped: {of_lse} of the lse");
        // The mean of equal values is the same without one of them: no O can tell, and of V with
        // zeros in most places only a row that has something there.
        let tells = matches!(kind, crate::case::Values::Normal | crate::case::Values::OneHotV);
        assert!(!tells || of_o > 1.0, "one key dropped: {of_o} of o");
    }
}
