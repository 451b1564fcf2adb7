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
    /// Greatest magnitude of a finite score, faint ones left out, the sink included; 0 with none.
    pub max_abs_score: f64,
    /// Greatest `|scale| * sum_d |q_d k_d|` of a visible key, faint ones left out: what the f32 sum
    /// behind a small score may have passed through.
    pub max_abs_dot: f64,
    /// `sum_j p_j^2 v_jd^2` for each column `d`, with `p` the weights.
    pub sum_p2_v2: Vec<f64>,
    /// `sum_j p_j |v_jd|` for each column.
    pub sum_p_abs_v: Vec<f64>,
    /// `sum_j |v_jd|` for each column, over the keys of a weight above 0.
    pub sum_abs_v: Vec<f64>,
    /// Greatest `|v_jd|` of each column, over the same.
    pub max_abs_v: Vec<f64>,
    /// `sum_j p_j |v_jd| e_j` for each column, over the faint keys, with `e_j` what
    /// [`Self::max_abs_score`] and a quarter of [`Self::max_abs_dot`] would be of that key alone.
    pub sum_faint: Vec<f64>,
    /// `sum_j p_j^2 (v_jd - o_d)^2` for each column; 0 without a soft cap, which alone needs it.
    pub sum_p2_dev2: Vec<f64>,
}

/// Scores that far below the greatest are faint: their weights are below 2^-40 of the greatest, so
/// that an error in them matters in that proportion and no more. A finite bias of -1e9 that hides a
/// key is such a score, and says nothing about what f32 does to the others.
const FAINT: f64 = -40.0 * std::f64::consts::LN_2;

/// A key that a query sees.
#[derive(Clone, Copy)]
struct Seen<'a> {
    /// Its final score.
    score: f64,
    /// Magnitudes of the terms of `q . k`, summed and scaled.
    dot: f64,
    /// Its weight.
    p: f64,
    /// Its row of V.
    v: &'a [f32],
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
        let mut seen: Vec<Seen<'_>> = Vec::with_capacity(self.len_kv);
        for (j, v) in self.v.chunks_exact(self.head_dim_v).enumerate() {
            if let Some((score, magnitude)) = self.score(i, &q, j) {
                seen.push(Seen { score, dot: self.softmax_scale.abs() * magnitude, p: 0.0, v });
            }
        }
        let max_key = seen.iter().map(|key| key.score).fold(f64::NEG_INFINITY, f64::max);
        let max = self.sink.map_or(max_key, |sink| max_key.max(sink));
        let exp = |logit: f64| if max == f64::NEG_INFINITY { 0.0 } else { (logit - max).exp() };
        seen.iter_mut().for_each(|key| key.p = exp(key.score));
        let sum_exp = seen.iter().map(|key| key.p).chain(self.sink.map(exp)).sum::<f64>();
        // A sink may outweigh every key; O is a matter of the keys alone.
        let faint_key = max_key + FAINT;
        let clear = || seen.iter().filter(|key| key.score >= faint_key);
        let clear_sink = self.sink.filter(|&sink| sink >= max + FAINT);
        let max_abs_score = clear()
            .map(|key| key.score)
            .chain(clear_sink)
            .map(f64::abs)
            .filter(|score| score.is_finite())
            .fold(0.0, f64::max);
        let max_abs_dot = clear().map(|key| key.dot).fold(0.0, f64::max);
        // With nothing to see, every weight is 0 and so is the row.
        seen.retain(|key| key.p != 0.0);
        seen.iter_mut().for_each(|key| key.p /= sum_exp);
        let sums = self.sums(&seen, faint_key);
        Row { lse: max + sum_exp.ln(), max, sum_exp, max_abs_score, max_abs_dot, ..sums }
    }

    /// A row's sums over the keys seen, those with scores below `faint` apart.
    fn sums(&self, seen: &[Seen<'_>], faint: f64) -> Row {
        let zeros = vec![0.0; self.head_dim_v];
        let mut row = Row {
            o: zeros.clone(),
            lse: 0.0,
            max: 0.0,
            sum_exp: 0.0,
            max_abs_score: 0.0,
            max_abs_dot: 0.0,
            sum_p2_v2: zeros.clone(),
            sum_p_abs_v: zeros.clone(),
            sum_abs_v: zeros.clone(),
            max_abs_v: zeros.clone(),
            sum_faint: zeros.clone(),
            sum_p2_dev2: zeros,
        };
        for &Seen { score, dot, p, v } in seen {
            let columns = row.o.iter_mut().zip(&mut row.sum_p2_v2).zip(&mut row.sum_p_abs_v);
            let columns = columns.zip(&mut row.sum_abs_v).zip(&mut row.max_abs_v);
            for (((((o, p2_v2), p_abs_v), abs_v), max_abs_v), &v) in columns.zip(v) {
                let v = f64::from(v);
                let pv = p * v;
                *o += pv;
                *p2_v2 += pv * pv;
                *p_abs_v += pv.abs();
                *abs_v += v.abs();
                *max_abs_v = max_abs_v.max(v.abs());
            }
            if score < faint {
                let loss = p * (score.abs() + dot / 4.0);
                let columns = row.sum_faint.iter_mut().zip(v);
                columns.for_each(|(sum, &v)| *sum += loss * f64::from(v).abs());
            }
        }
        for &Seen { p, v, .. } in seen.iter().filter(|_| self.soft_cap.is_some()) {
            for ((dev2, o), &v) in row.sum_p2_dev2.iter_mut().zip(&row.o).zip(v) {
                *dev2 += (p * (f64::from(v) - o)).powi(2);
            }
        }
        row
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
