//! Tensors that mean harm, and problems made of them.

use frazil_core::{LengthBounds, MAX_EXTENT};

use super::{Content, PAGE_SIZE, Problem, SideProblem};
use crate::data::Random;

/// Forms of a side, without what the tensors say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As [`Content::Dense`].
    Dense,
    /// As [`Content::Padded`].
    Padded,
    /// As [`Content::Paged`].
    Paged,
    /// As [`Content::PackedLengths`].
    PackedLengths,
    /// As [`Content::PackedPrefix`].
    PackedPrefix,
    /// As [`Content::PackedStarts`].
    PackedStarts,
}

impl Form {
    /// Those of Q.
    pub const OF_Q: [Self; 5] =
        [Self::Dense, Self::Padded, Self::PackedLengths, Self::PackedPrefix, Self::PackedStarts];
    /// Those of K and V.
    pub const OF_KV: [Self; 6] = [
        Self::Dense,
        Self::Padded,
        Self::Paged,
        Self::PackedLengths,
        Self::PackedPrefix,
        Self::PackedStarts,
    ];
}

/// Ways in which tensors mean harm, or do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Everything is as promised.
    None,
    /// Every length is 0.
    Zeros,
    /// Every number is the greatest int32.
    Greatest,
    /// Every number is the least int32; running sums go on from there with the greatest.
    Least,
    /// The least and the greatest int32 in turn.
    Alternating,
    /// Lengths below 0, running sums that fall.
    Negative,
    /// Lengths above the bound by a little.
    Above,
    /// Numbers at random on both sides of every limit.
    Near,
    /// Any int32.
    Random,
}

impl Harm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Zeros,
        Self::Greatest,
        Self::Least,
        Self::Alternating,
        Self::Negative,
        Self::Above,
        Self::Near,
        Self::Random,
    ];
}

/// Limits of the lengths of every problem made here.
const BOUNDS: LengthBounds = LengthBounds { min: 2, max: 10 };

/// Numbers of one kind, of which there are as many as asked for.
struct Draw {
    harm: Harm,
    random: Random,
}

impl Draw {
    fn lengths(&mut self, count: u64) -> Vec<i32> {
        (0..count).map(|b| self.length(b)).collect()
    }

    fn length(&mut self, b: u64) -> i32 {
        let least = i64::from(BOUNDS.min);
        let greatest = i64::from(BOUNDS.max);
        match self.harm {
            Harm::None => self.between(least, greatest),
            Harm::Zeros => 0,
            Harm::Negative => self.between(-5, -1),
            Harm::Above => self.between(greatest + 1, greatest + 3),
            Harm::Near => self.between(-2, greatest + 2),
            Harm::Greatest => i32::MAX,
            Harm::Least => i32::MIN,
            Harm::Alternating => [i32::MIN, i32::MAX][usize::from(b % 2 == 1)],
            Harm::Random => self.any(),
        }
    }

    /// From a base other than 0.
    fn prefix(&mut self, batch: u64) -> Vec<i32> {
        match self.harm {
            Harm::Greatest => (0..=batch).map(|_| i32::MAX).collect(),
            Harm::Least => (0..=batch).map(|b| if b == 0 { i32::MIN } else { i32::MAX }).collect(),
            Harm::Alternating | Harm::Random => (0..=batch).map(|b| self.length(b)).collect(),
            _ => {
                let mut next = 1000_i32;
                let mut prefix = vec![next];
                for b in 0..batch {
                    next = next.wrapping_add(self.length(b));
                    prefix.push(next);
                }
                prefix
            }
        }
    }

    fn starts(&mut self, batch: u64, capacity: u64) -> Vec<i32> {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
        (0..batch)
            .map(|b| match self.harm {
                // With gaps, and in no order.
                Harm::None | Harm::Zeros | Harm::Above => {
                    self.between(0, (capacity - i64::from(BOUNDS.max)).max(0))
                }
                Harm::Near => self.between(-3, capacity + 3),
                _ => self.length(b),
            })
            .collect()
    }

    /// Both ends inclusive.
    fn between(&mut self, low: i64, high: i64) -> i32 {
        let span = u64::try_from(high - low).unwrap_or(0) + 1;
        let value = low + i64::try_from(self.random.below(span)).unwrap_or(0);
        i32::try_from(value).unwrap_or(i32::MAX)
    }

    fn any(&mut self) -> i32 {
        let [a, b, c, d, ..] = self.random.next_u64().to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }
}

impl SideProblem {
    fn hostile((form, harm): (Form, Harm), batch: u64, random: &mut Random) -> Self {
        // Near what the lengths add up to, so that some sequences reach past it.
        let max_total = 6 * batch + random.below(4 * batch + 5);
        let spare_rows = random.below(3);
        // Declared, every tensor has room for the total and for the longest sequence.
        let mut rows_there = || max_total + random.below(9) + 2 - spare_rows;
        let packed_rows = [rows_there(), rows_there(), rows_there()];
        let capacity = packed_rows.into_iter().fold(max_total, u64::min);
        let mut draw = Draw { harm, random: random.clone() };
        let content = match form {
            Form::Dense => Content::Dense,
            Form::Padded => Content::Padded(draw.lengths(batch)),
            Form::Paged => Content::Paged(draw.lengths(batch)),
            Form::PackedLengths => Content::PackedLengths(draw.lengths(batch)),
            Form::PackedPrefix => Content::PackedPrefix(draw.prefix(batch)),
            Form::PackedStarts => Content::PackedStarts {
                starts: draw.starts(batch, capacity),
                lengths: draw.lengths(batch),
            },
        };
        *random = draw.random;
        let max = u64::from(BOUNDS.max);
        let rows = match form {
            Form::Dense | Form::Padded => [max - spare_rows + random.below(2); 3],
            Form::Paged => [max.div_ceil(PAGE_SIZE) - spare_rows + random.below(2); 3],
            _ => packed_rows,
        };
        Self {
            content,
            bounds: BOUNDS,
            max_total: u32::try_from(max_total).unwrap_or(u32::MAX),
            rows,
            spare_rows,
            int_stride: 1 + random.below(3),
            repeated: false,
        }
    }
}

impl Problem {
    /// A problem drawn from a seed: `batch` sequences whose tensors are as promised or mean harm,
    /// with tensors of different sizes, strided int32 tensors, and in two of three problems fewer
    /// rows and sequences than declared.
    pub fn hostile(batch: u64, q: (Form, Harm), kv: (Form, Harm), seed: u64) -> Self {
        let mut random = Random::at(seed, &[batch]);
        Self {
            batch,
            spare_batch: random.below(3),
            num_heads: 1,
            band: None,
            q: SideProblem::hostile(q, batch, &mut random),
            kv: SideProblem::hostile(kv, batch, &mut random),
        }
    }

    /// As [`Problem::hostile`], with no query and as many rows of K and V as an int32 can count:
    /// every length and start is within its bounds that an int32 can say, and their sums are not.
    ///
    /// # Panics
    ///
    /// For a form that is not packed.
    pub fn gigarows(batch: u64, (form, harm): (Form, Harm), seed: u64) -> Self {
        let mut problem = Self::hostile(batch, (Form::Dense, Harm::None), (form, harm), seed);
        assert!(problem.kv.content.is_packed(), "rows of {form:?} are not packed");
        (problem.q.rows, problem.q.spare_rows) = ([0; 3], 0);
        (problem.kv.rows, problem.kv.spare_rows) = ([MAX_EXTENT; 3], 0);
        problem.kv.max_total = i32::MAX.unsigned_abs();
        problem.kv.bounds = LengthBounds::up_to(i32::MAX.unsigned_abs());
        problem.kv.repeated = true;
        problem
    }
}
