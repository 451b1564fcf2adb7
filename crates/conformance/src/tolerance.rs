//! How far an engine may be from the reference.
//!
//! One function of the reference's own sums, never set per case. The terms: rounding of the weights
//! before the second product (type `p`), rounding of the output (type of O), and what f32 scores
//! and an f32 exponential lose. An approximate `tanh` moves each score by up to `cap * 2^-10`, which
//! moves the row towards the keys concerned. Weights and outputs too small to be normal numbers of
//! their type are rounded by an absolute amount, not a relative one.
//!
//! What f32 scores lose grows with the scores, those of keys that weigh nothing left out, and ends
//! where it tells nothing any more: the output is a mean of rows of V (and 0, with a sink), so no
//! weights, however wrong, put it further from the true mean than `|o|` and the greatest `|v|`
//! together. With scores beyond 2^14 a weight in f32 is off by percents, and beyond 2^20 f32 cannot
//! decide which key is the heaviest: such rows check that engines stay among the rows of V, and
//! cases that are to check more keep their scores below.

use frazil_core::DType;

use crate::reference::Row;

/// What f32 arithmetic loses per unit of score.
const F32_LOSS: f64 = 1.0 / (1 << 20) as f64;

/// Relative loss of an approximate `tanh`, as a share of the cap.
const TANH_LOSS: f64 = 1.0 / (1 << 10) as f64;

/// Greatest errors allowed for one row.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Unit roundoff of the type in which weights enter the second product.
    p_unit: f64,
    /// The same of the type of O.
    o_unit: f64,
    /// Half the distance of the smallest weights of that type.
    p_floor: f64,
    /// The same of the type of O.
    o_floor: f64,
    soft_cap: Option<f64>,
}

/// Unit roundoff, which is half the distance from 1 to the next number: 2^-8 for bf16, of 8 bits of
/// significand, 2^-11 for f16, of 11, 2^-24 for f32, of 24.
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
            + Self::of_weights(row, column)
            + tanh
            + self.underflow(row, column)
    }

    /// What f32 scores and exponentials lose, up to where they have lost everything.
    fn of_weights(row: &Row, column: usize) -> f64 {
        let relative = (4.0 + scores(row)) * row.sum_p_abs_v[column] + row.sum_faint[column];
        (F32_LOSS * relative).min(row.o[column].abs() + row.max_abs_v[column])
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
mod tests;
