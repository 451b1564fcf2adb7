//! Packed-length setup: what an engine must make of the device tensors that say which rows are live.
//!
//! A [`Problem`] is both sides of a call with whatever their tensors hold; [`Problem::placed_q`],
//! [`Problem::placed_kv`] and [`Problem::error_word`] are the answer, straight from the contract
//! and in 128 bits, where nothing that int32 tensors can say overflows. [`Problem::hostile`] draws
//! tensors that mean harm, [`Problem::execute`] runs a plan over them.

mod declare;
mod execute;
mod hostile;

use frazil_core::{Band, ErrorWord, LengthBounds};

pub use declare::HEAD_DIM;
pub use execute::ExecuteError;
pub use hostile::{Form, Harm};

/// What the tensors of one side say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Dense,
    /// Lengths of a padded side.
    Padded(Vec<i32>),
    /// Lengths of a paged side.
    Paged(Vec<i32>),
    /// Lengths of a packed side, one sequence after another.
    PackedLengths(Vec<i32>),
    /// Running sums of a packed side, one more than sequences.
    PackedPrefix(Vec<i32>),
    /// First rows and lengths of a packed side.
    PackedStarts {
        /// First rows.
        starts: Vec<i32>,
        /// Lengths.
        lengths: Vec<i32>,
    },
}

/// One side of a call.
#[derive(Clone, Debug)]
pub struct SideProblem {
    /// What its tensors say.
    pub content: Content,
    /// Limits of a length; ignored where dense.
    pub bounds: LengthBounds,
    /// Limit of the rows that packed sequences reach.
    pub max_total: u32,
    /// Rows of its tensors at execute. Packed, of each: Q, O and LSE, or K and V; else the first
    /// counts: rows of each sequence or, paged, pages of each.
    pub rows: [u64; 3],
    /// Rows that are declared and not there at execute.
    pub spare_rows: u64,
    /// Elements from one entry of its int32 tensors to the next; at least 1.
    pub int_stride: u64,
    /// Whether the rows of Q, K and V are one row repeated, so that two gigarows take no memory.
    pub repeated: bool,
}

/// A call, as far as setup and lists of work are concerned.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Sequences at execute.
    pub batch: u64,
    /// Sequences that are declared and not there at execute.
    pub spare_batch: u64,
    /// Heads of Q, and as many of K and V.
    pub num_heads: u64,
    /// Which keys a query sees.
    pub band: Option<Band>,
    /// Q, O and LSE.
    pub q: SideProblem,
    /// K and V.
    pub kv: SideProblem,
}

/// Where the live rows of one side lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Rows of each sequence.
    pub lengths: Vec<i32>,
    /// First row of each sequence; 0 where the side is not packed.
    pub starts: Vec<i32>,
    /// A length was outside its bounds.
    pub bad_length: bool,
    /// Rows were outside what there is.
    pub bad_rows: bool,
}

/// Rows of a page of a [`Content::Paged`] side.
pub const PAGE_SIZE: u64 = 4;

impl Content {
    /// Whether rows are `[T, H, D]`.
    pub fn is_packed(&self) -> bool {
        matches!(self, Self::PackedLengths(_) | Self::PackedPrefix(_) | Self::PackedStarts { .. })
    }

    /// First row and length of every sequence as the tensors say them.
    fn said(&self) -> Vec<(i128, i128)> {
        let wide = |entries: &[i32]| entries.iter().map(|&entry| entry.into()).collect::<Vec<_>>();
        match self {
            Self::Dense => Vec::new(),
            Self::Padded(lengths) | Self::Paged(lengths) => {
                wide(lengths).into_iter().map(|len| (0, len)).collect()
            }
            Self::PackedLengths(lengths) => {
                let mut before = 0;
                let said = wide(lengths).into_iter().map(|len| {
                    let start = before;
                    // A length above its bound counts as it is, one below 0 as no row.
                    before += len.max(0);
                    (start, len)
                });
                said.collect()
            }
            Self::PackedPrefix(prefix) => {
                let prefix = wide(prefix);
                let pair = |b: usize| (prefix[b] - prefix[0], prefix[b + 1] - prefix[b]);
                (0..prefix.len() - 1).map(pair).collect()
            }
            Self::PackedStarts { starts, lengths } => {
                wide(starts).into_iter().zip(wide(lengths)).collect()
            }
        }
    }
}

impl SideProblem {
    /// Whether the host knows every row.
    pub fn is_dense(&self) -> bool {
        self.content == Content::Dense
    }

    /// Rows that sequences may reach at execute.
    fn capacity(&self, num_tensors: usize) -> i128 {
        match self.content {
            Content::Paged(_) => i128::from(self.rows[0]) * i128::from(PAGE_SIZE),
            _ if self.content.is_packed() => {
                let rows = self.rows[..num_tensors].iter().copied().map(i128::from);
                rows.fold(self.max_total.into(), i128::min)
            }
            _ => self.rows[0].into(),
        }
    }

    /// The contract's clauses on one side, in their order.
    fn placed(&self, num_tensors: usize) -> Placed {
        let capacity = self.capacity(num_tensors);
        let (min, max) = (i128::from(self.bounds.min), i128::from(self.bounds.max));
        // Padded, a length cannot pass the rows that are there, whatever its bound.
        let max = if self.content.is_packed() { max } else { max.min(capacity) };
        let mut placed = Placed::default();
        for (start, len) in self.content.said() {
            // "A length outside its bounds is clamped from above": a short one is kept, and no
            // sequence has less than no rows.
            placed.bad_length |= !(min..=max).contains(&len);
            let len = len.clamp(0, max.max(0));
            // "Starts into their buffer": what then does not fit is cut.
            let moved = start.clamp(0, capacity);
            let kept = len.min(capacity - moved);
            placed.bad_rows |= moved != start || kept != len;
            let int32 = |rows| i32::try_from(rows).expect("bounded by an int32");
            placed.starts.push(int32(moved));
            placed.lengths.push(int32(kept));
        }
        placed
    }
}

impl Problem {
    /// Where the rows of Q lie; nothing where dense.
    pub fn placed_q(&self) -> Placed {
        self.q.placed(3)
    }

    /// Where the rows of K and V lie; nothing where dense.
    pub fn placed_kv(&self) -> Placed {
        self.kv.placed(2)
    }

    /// What setup must leave in the error word.
    pub fn error_word(&self) -> ErrorWord {
        let (q, kv) = (self.placed_q(), self.placed_kv());
        let bits = [
            (q.bad_length, ErrorWord::Q_LENGTH),
            (kv.bad_length, ErrorWord::KV_LENGTH),
            (q.bad_rows, ErrorWord::Q_ROWS),
            (kv.bad_rows, ErrorWord::KV_ROWS),
        ];
        let set = bits.into_iter().filter(|(is_set, _)| *is_set);
        set.fold(ErrorWord::NONE, |word, (_, bit)| word.with(bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(content: Content, max: u32, rows: u64) -> SideProblem {
        SideProblem {
            content,
            bounds: LengthBounds { min: 2, max },
            max_total: 30,
            rows: [rows; 3],
            spare_rows: 0,
            int_stride: 1,
            repeated: false,
        }
    }

    /// Worked out by hand from the contract.
    #[test]
    fn the_answers_are_those_of_the_contract() {
        let lengths = vec![5, -3, 12, 1, 20];
        let cases = [
            // 12 and 20 are above 10, -3 and 1 below 2.
            (Content::Padded(lengths.clone()), [0; 5], [5, 0, 10, 1, 10], (true, false)),
            // The third one moves what follows by all its 12 rows; the last has rows 18.. of 30.
            (
                Content::PackedLengths(lengths.clone()),
                [0, 5, 5, 17, 18],
                [5, 0, 10, 1, 10],
                (true, false),
            ),
            // The base is subtracted; the fourth lies before the first.
            (
                Content::PackedPrefix(vec![100, 105, 125, 132, 90, 93]),
                [0, 5, 25, 30, 0],
                [5, 10, 5, 0, 3],
                (true, true),
            ),
            (
                Content::PackedStarts {
                    starts: vec![0, 27, -1, 31, i32::MAX],
                    lengths: vec![2, 3, 4, 5, 6],
                },
                [0, 27, 0, 30, 30],
                [2, 3, 4, 0, 0],
                (false, true),
            ),
        ];
        for (content, starts, lengths, (bad_length, bad_rows)) in cases {
            let (starts, lengths) = (starts.to_vec(), lengths.to_vec());
            let expected = Placed { lengths, starts, bad_length, bad_rows };
            assert_eq!(side(content.clone(), 10, 40).placed(2), expected, "{content:?}");
        }
    }

    #[test]
    fn rows_that_are_not_there_at_execute_count() {
        let lengths = vec![3, 3, 3];
        let padded = side(Content::Padded(lengths.clone()), 10, 2).placed(2);
        assert_eq!((padded.lengths, padded.bad_length), (vec![2; 3], true));
        let paged = side(Content::Paged(vec![5, 3, 2]), 10, 1).placed(2);
        assert_eq!((paged.lengths, paged.bad_length), (vec![4, 3, 2], true));
        let mut packed = side(Content::PackedLengths(lengths), 10, 40);
        packed.rows = [9, 7, 0];
        let placed = packed.placed(2);
        assert_eq!(
            (placed.lengths, placed.bad_rows, placed.bad_length),
            (vec![3, 3, 1], true, false)
        );
        assert_eq!(packed.placed(3).lengths, [0; 3], "the third tensor has no rows");
    }
}
