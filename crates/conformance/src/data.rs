//! What the inputs of a case hold: seeded, and the same however the case stores them.
//!
//! Every row of values comes from a generator of its own, seeded by case, role, sequence, head and
//! row, so that a sequence holds the same numbers dense, packed and paged.

use frazil_core::{DType, Role, alibi_slopes};
use half::{bf16, f16};

use crate::case::{BiasValues, Case, SinkCase, Values};

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator for a place named by numbers.
    pub(crate) fn at(seed: u64, place: &[u64]) -> Self {
        let mut random = Self(seed);
        for &number in place {
            random.0 = random.next_u64() ^ number;
        }
        random
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `0..limit`, for limits far below 2^32.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((self.next_u64() >> 32) * limit) >> 32
    }

    /// Two standard normal numbers (Box and Muller).
    fn normals(&mut self) -> [f32; 2] {
        const UNIT: f32 = 1.0 / (1 << 24) as f32;
        let bits = self.next_u64();
        // From (0, 1]: the logarithm stays finite.
        let u = ((bits >> 40) + 1) as f32 * UNIT;
        let angle = ((bits & 0xff_ffff) as f32) * (UNIT * std::f32::consts::TAU);
        let radius = (-2.0 * u.ln()).sqrt();
        [radius * angle.cos(), radius * angle.sin()]
    }

    fn fill_normal(&mut self, row: &mut [f32], scale: f32) {
        for pair in row.chunks_mut(2) {
            for (value, normal) in pair.iter_mut().zip(self.normals()) {
                *value = scale * normal;
            }
        }
    }

    fn sparse_int(&mut self) -> f32 {
        let draw = self.below(25);
        if draw < 20 { 0.0 } else { draw as f32 - 22.0 }
    }
}

/// Q, K or V of one head of one sequence, or the bias of one head: `[rows, columns]`, rounded to
/// the type they are stored in.
pub(crate) fn head(
    case: &Case,
    role: Role,
    (b, h): (u64, u64),
    (rows, columns): (usize, usize),
) -> Vec<f32> {
    let mut values = vec![0.0; rows * columns];
    let dtype = match (role, case.bias) {
        (Role::Bias, Some(bias)) => bias.dtype,
        _ => case.dtype,
    };
    for (i, row) in values.chunks_exact_mut(columns.max(1)).enumerate() {
        let mut random = Random::at(case.seed, &[role as u64, b, h, i as u64]);
        match (role, case.bias) {
            (Role::Bias, Some(bias)) => bias_row(case, bias.values, &mut random, i, row),
            _ => matrix_row(case.values, role, &mut random, i, row),
        }
        round(dtype, row);
    }
    values
}

fn matrix_row(values: Values, role: Role, random: &mut Random, i: usize, row: &mut [f32]) {
    match (values, role) {
        (Values::SparseInts, _) => row.fill_with(|| random.sparse_int()),
        (Values::Large, _) => random.fill_normal(row, 8.0),
        (Values::OneHotV, Role::V) => {
            let column = i % row.len();
            row[column] = 1.0;
        }
        (Values::ConstantV, Role::V) => row.fill(7.0),
        (Values::NegativeScores, Role::Q | Role::K) => {
            random.fill_normal(row, 1.0);
            let sign = if role == Role::Q { 1.0 } else { -1.0 };
            row.iter_mut().for_each(|value| *value = sign * (1.0 + value.abs()));
        }
        _ => random.fill_normal(row, 1.0),
    }
}

fn bias_row(case: &Case, values: BiasValues, random: &mut Random, i: usize, row: &mut [f32]) {
    if values == BiasValues::FirstRowMinusInf {
        row.fill(if i == 0 { f32::NEG_INFINITY } else { 0.0 });
        return;
    }
    matrix_row(case.values, Role::Bias, random, i, row);
    let hidden = match values {
        BiasValues::HalfMinusInf => f32::NEG_INFINITY,
        BiasValues::HalfMinus1e9 => -1e9,
        _ => return,
    };
    for value in row {
        if random.next_u64() >> 63 == 1 {
            *value = hidden;
        }
    }
}

/// The sink of every query head.
pub(crate) fn sink(case: &Case) -> Vec<f32> {
    let heads = usize::try_from(case.num_q_heads).unwrap_or(0);
    let mut values = vec![0.0; heads];
    match case.sink {
        Some(SinkCase::Constant(value)) => values.fill(value),
        _ => {
            let mut random = Random::at(case.seed, &[Role::Sink as u64]);
            matrix_row(case.values, Role::Sink, &mut random, 0, &mut values);
        }
    }
    values
}

/// ALiBi slopes of one sequence: those of its heads, by a factor of its own where they are per
/// sequence.
pub(crate) fn slopes(case: &Case, b: u64) -> Vec<f32> {
    let mut slopes = alibi_slopes(u32::try_from(case.num_q_heads).unwrap_or(0));
    if case.alibi == Some(crate::case::AlibiCase::PerBatchAndHead) {
        let factor = (b + 1) as f32 / case.batch as f32;
        slopes.iter_mut().for_each(|slope| *slope *= factor);
    }
    slopes
}

/// Rounds to what the type can hold. Types other than f16 and bf16 are left alone.
fn round(dtype: DType, row: &mut [f32]) {
    match dtype {
        DType::F16 => row.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32()),
        DType::Bf16 => row.iter_mut().for_each(|value| *value = bf16::from_f32(*value).to_f32()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut row = vec![0.0; 100_000];
        Random::at(1, &[2, 3]).fill_normal(&mut row, 1.0);
        let count = row.len() as f32;
        let mean = row.iter().sum::<f32>() / count;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn sparse_ints_are_mostly_zero_and_reach_two() {
        let mut random = Random::at(9, &[]);
        let values: Vec<f32> = (0..10_000).map(|_| random.sparse_int()).collect();
        let zeros = values.iter().filter(|&&x| x == 0.0).count();
        assert!((8000..8800).contains(&zeros), "{zeros}");
        for value in [-2.0, -1.0, 1.0, 2.0] {
            assert!(values.contains(&value));
        }
        assert!(values.iter().all(|x| x.abs() <= 2.0));
    }
}
