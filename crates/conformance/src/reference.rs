//! Attention of one head of one sequence, in f64, in two passes: what every engine is held to.
//!
//! Small on purpose, so that it can be checked against the definition by eye. It shares no code
//! with any engine and reads plain arrays, not tensors.

use frazil_core::{Align, Band};

/// One head of one sequence. Matrices are row-major; values are those stored, widened.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Live query rows.
    pub len_q: usize,
    /// Live keys.
    pub len_kv: usize,
    /// Columns of `q` and `k`.
    pub head_dim_qk: usize,
    /// Columns of `v`.
    pub head_dim_v: usize,
    /// `[len_q, head_dim_qk]`.
    pub q: &'a [f32],
    /// `[len_kv, head_dim_qk]`.
    pub k: &'a [f32],
    /// `[len_kv, head_dim_v]`.
    pub v: &'a [f32],
    /// Factor of `q . k`.
    pub softmax_scale: f64,
    /// `cap * tanh(s / cap)`.
    pub soft_cap: Option<f64>,
    /// `[len_q, len_kv]`, added to the scores.
    pub bias: Option<&'a [f32]>,
    /// Slope of the distance penalty and the corner that distances are measured from.
    pub alibi: Option<(f64, Align)>,
    /// Keys that queries see.
    pub band: Option<Band>,
    /// A logit of the denominator.
    pub sink: Option<f64>,
}

/// What one query row must give, with the sums that its tolerance is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `[head_dim_v]`.
    pub o: Vec<f64>,
    /// Natural logarithm of the sum of exponentials; -inf with no visible key and no sink.
    pub lse: f64,
    /// Greatest final score of the visible keys and the sink; -inf with neither.
    pub max: f64,
    /// Sum of `exp(score - max)` over the same.
    pub sum_exp: f64,
    /// Greatest magnitude of a finite score, the sink included; 0 with none.
    pub max_abs_score: f64,
    /// Greatest `|scale| * sum_d |q_d k_d|` of a visible key: what the f32 sum behind a small score
    /// may have passed through.
    pub max_abs_dot: f64,
    /// `sum_j p_j^2 v_jd^2` for each column `d`, with `p` the weights.
    pub sum_p2_v2: Vec<f64>,
    /// `sum_j p_j |v_jd|` for each column.
    pub sum_p_abs_v: Vec<f64>,
    /// `sum_j |v_jd|` for each column, over the keys of a weight above 0.
    pub sum_abs_v: Vec<f64>,
    /// `sum_j p_j^2 (v_jd - o_d)^2` for each column; 0 without a soft cap, which alone needs it.
    pub sum_p2_dev2: Vec<f64>,
}

impl Head<'_> {
    /// Whether query `i` sees key `j`.
    fn sees(&self, i: usize, j: usize) -> bool {
        let Some(band) = self.band else { return true };
        let (i, j) = (i as i64, j as i64);
        let diagonal = i + self.offset(band.align);
        band.left.is_none_or(|left| j >= diagonal - i64::from(left))
            && band.right.is_none_or(|right| j <= diagonal + i64::from(right))
    }

    /// Key on the diagonal of query 0.
    fn offset(&self, align: Align) -> i64 {
        match align {
            Align::TopLeft => 0,
            Align::BottomRight => self.len_kv as i64 - self.len_q as i64,
        }
    }

    /// Final score of query `i`, whose row of Q is given, and key `j`, with the magnitudes of the
    /// terms of `q . k` summed; `None` where the band hides the key.
    fn score(&self, i: usize, q: &[f64], j: usize) -> Option<(f64, f64)> {
        if !self.sees(i, j) {
            return None;
        }
        let (dot, magnitude) = dot(q, &self.k[j * q.len()..][..q.len()]);
        let mut score = self.softmax_scale * dot;
        if let Some(cap) = self.soft_cap {
            score = cap * (score / cap).tanh();
        }
        if let Some(bias) = self.bias {
            score += f64::from(bias[i * self.len_kv + j]);
        }
        if let Some((slope, align)) = self.alibi {
            score -= slope * (i as i64 + self.offset(align) - j as i64).abs() as f64;
        }
        Some((score, magnitude))
    }

    /// Row `i` of the answer.
    pub fn row(&self, i: usize) -> Row {
        let d = self.head_dim_qk;
        let q: Vec<f64> = self.q[i * d..][..d].iter().map(|&x| f64::from(x)).collect();
        let mut max_magnitude = 0.0_f64;
        let mut visible: Vec<(f64, &[f32])> = Vec::with_capacity(self.len_kv);
        for (j, v) in self.v.chunks_exact(self.head_dim_v).enumerate() {
            if let Some((score, magnitude)) = self.score(i, &q, j) {
                max_magnitude = max_magnitude.max(magnitude);
                visible.push((score, v));
            }
        }
        let logits = || visible.iter().map(|&(score, _)| score).chain(self.sink);
        let max = logits().fold(f64::NEG_INFINITY, f64::max);
        let exp = |logit: f64| if max == f64::NEG_INFINITY { 0.0 } else { (logit - max).exp() };
        let max_abs_score =
            logits().map(f64::abs).filter(|score| score.is_finite()).fold(0.0, f64::max);
        let mut weights = visible;
        weights.iter_mut().for_each(|(score, _)| *score = exp(*score));
        let sum_exp = weights.iter().map(|&(exp, _)| exp).chain(self.sink.map(exp)).sum::<f64>();
        // With nothing to see, every weight is 0 and so is the row.
        weights.retain(|&(exp, _)| exp != 0.0);
        weights.iter_mut().for_each(|(exp, _)| *exp /= sum_exp);
        let max_abs_dot = self.softmax_scale.abs() * max_magnitude;
        let sums = self.sums(&weights);
        Row { lse: max + sum_exp.ln(), max, sum_exp, max_abs_score, max_abs_dot, ..sums }
    }

    /// A row's sums over the keys seen, each with its weight and its row of V.
    fn sums(&self, seen: &[(f64, &[f32])]) -> Row {
        let zeros = vec![0.0; self.head_dim_v];
        let [mut o, mut sum_p2_v2, mut sum_p_abs_v, mut sum_abs_v, mut sum_p2_dev2] =
            std::array::from_fn(|_| zeros.clone());
        for &(p, v) in seen {
            let columns =
                o.iter_mut().zip(&mut sum_p2_v2).zip(&mut sum_p_abs_v).zip(&mut sum_abs_v);
            for ((((o, p2_v2), p_abs_v), abs_v), &v) in columns.zip(v) {
                let v = f64::from(v);
                let pv = p * v;
                *o += pv;
                *p2_v2 += pv * pv;
                *p_abs_v += pv.abs();
                *abs_v += v.abs();
            }
        }
        for &(p, v) in seen.iter().filter(|_| self.soft_cap.is_some()) {
            for ((dev2, o), &v) in sum_p2_dev2.iter_mut().zip(&o).zip(v) {
                *dev2 += (p * (f64::from(v) - o)).powi(2);
            }
        }
        let [lse, max, sum_exp, max_abs_score, max_abs_dot] = [0.0; 5];
        Row {
            o,
            lse,
            max,
            sum_exp,
            max_abs_score,
            max_abs_dot,
            sum_p2_v2,
            sum_p_abs_v,
            sum_abs_v,
            sum_p2_dev2,
        }
    }
}

/// Sum of products, and of their magnitudes, each in eight running sums so that the processor can
/// work on all of them at once.
fn dot(q: &[f64], k: &[f32]) -> (f64, f64) {
    const LANES: usize = 8;
    let (mut sums, mut magnitudes) = ([0.0; LANES], [0.0; LANES]);
    let mut add = |q: &[f64], k: &[f32]| {
        for (((sum, magnitude), q), &k) in sums.iter_mut().zip(&mut magnitudes).zip(q).zip(k) {
            let product = q * f64::from(k);
            *sum += product;
            *magnitude += product.abs();
        }
    };
    let (whole_q, rest_q) = q.as_chunks::<LANES>();
    let (whole_k, rest_k) = k.as_chunks::<LANES>();
    whole_q.iter().zip(whole_k).for_each(|(q, k)| add(q, k));
    add(rest_q, rest_k);
    (sums.iter().sum(), magnitudes.iter().sum())
}
