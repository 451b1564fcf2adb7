//! Partial results of a unit whose keys were divided, and their merge.
//!
//! Few rows against many keys would keep one worker busy and the others idle. Such units are worked
//! on in pieces, some keys each; whoever finishes the last merges them all in the order of the keys.
//! Flash-Decoding (Dao et al., 2023), "reduction".

use std::ops::Range;

/// What one piece leaves for one row: `[o..., max, sum]`.
#[derive(Debug)]
pub(crate) struct Partial<'a> {
    numbers: &'a [f32],
}

impl<'a> Partial<'a> {
    /// Numbers that a row of that many columns takes.
    pub(crate) const fn len(columns: usize) -> usize {
        columns + 2
    }

    /// Of the row in `part`, which [`Partial::write`] filled.
    pub(crate) fn of(part: &'a [f32]) -> Self {
        Self { numbers: part }
    }

    /// Leaves a row's max, sum and weighted sum of V, not yet divided.
    pub(crate) fn write(part: &mut [f32], o: &[f32], (max, sum): (f32, f32)) {
        part[..o.len()].copy_from_slice(o);
        part[o.len()] = max;
        part[o.len() + 1] = sum;
    }

    fn o(&self) -> &[f32] {
        &self.numbers[..self.numbers.len() - 2]
    }

    fn max(&self) -> f32 {
        self.numbers[self.numbers.len() - 2]
    }

    fn sum(&self) -> f32 {
        self.numbers[self.numbers.len() - 1]
    }
}

/// Max and sum of all pieces; their weighted sum of V goes to `o`.
pub(crate) fn merge<'a>(
    pieces: impl Iterator<Item = Partial<'a>> + Clone,
    o: &mut [f32],
) -> (f32, f32) {
    let max = pieces.clone().map(|piece| piece.max()).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    o.fill(0.0);
    for piece in pieces {
        let weight = if piece.max() == max { 1.0 } else { (piece.max() - max).exp() };
        sum += weight * piece.sum();
        for (o, &part) in o.iter_mut().zip(piece.o()) {
            *o += weight * part;
        }
    }
    (max, sum)
}

/// The keys of one of `num_pieces` pieces, each a multiple of `block_n` but the last; the ends of
/// some may be empty.
pub(crate) fn piece_of(
    keys: Range<i64>,
    (piece_idx, num_pieces): (u64, u64),
    block_n: u64,
) -> Range<i64> {
    let num_keys = keys.end.abs_diff(keys.start);
    let len = num_keys.div_ceil(num_pieces).next_multiple_of(block_n);
    let begin = piece_idx.saturating_mul(len).min(num_keys);
    let end = begin.saturating_add(len).min(num_keys);
    keys.start + begin.cast_signed()..keys.start + end.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_key_once() {
        for (start, num_keys) in [(0, 0), (5, 1), (0, 96), (7, 97), (100, 32_768), (3, 1000)] {
            for num_pieces in [1, 2, 3, 7, 128] {
                let mut next = start;
                for piece_idx in 0..num_pieces {
                    let keys = start..start + num_keys;
                    let piece = piece_of(keys, (piece_idx, num_pieces), 32);
                    assert!(piece.start == next && piece.start <= piece.end);
                    next = piece.end;
                }
                assert_eq!(next, start + num_keys);
            }
        }
    }

    /// Merges rows of one column, given as (o, max, sum).
    fn merged(rows: &[(f32, f32, f32)]) -> (f32, f32, f32) {
        let parts: Vec<[f32; 3]> = rows
            .iter()
            .map(|&(o, max, sum)| {
                let mut part = [f32::NAN; 3];
                Partial::write(&mut part, &[o], (max, sum));
                part
            })
            .collect();
        let mut o = [f32::NAN];
        let (max, sum) = merge(parts.iter().map(|part| Partial::of(part)), &mut o);
        (o[0], max, sum)
    }

    #[test]
    fn pieces_weigh_by_their_max() {
        const NOTHING: (f32, f32, f32) = (0.0, f32::NEG_INFINITY, 0.0);
        assert_eq!(merged(&[NOTHING, NOTHING]), NOTHING);
        assert_eq!(merged(&[NOTHING, (3.0, 2.0, 1.5), NOTHING]), (3.0, 2.0, 1.5));
        let (o, max, sum) = merged(&[(1.0, 0.0, 2.0), (4.0, 1.0, 1.0)]);
        let weight = (-1.0_f32).exp();
        assert!((o - (4.0 + weight)).abs() < 1e-6 && max == 1.0);
        assert!((sum - (1.0 + 2.0 * weight)).abs() < 1e-6);
        // A sink of +inf stays the max, and no key has weight beside it.
        assert_eq!(
            merged(&[(0.0, f32::INFINITY, 1.0), (5.0, 1.0, 2.0)]),
            (0.0, f32::INFINITY, 1.0)
        );
        assert!(merged(&[(1.0, 0.0, f32::NAN), (1.0, 0.0, 1.0)]).2.is_nan());
    }
}
