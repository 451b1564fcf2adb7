//! How much a cell computes and moves, counted exactly.

use frazil::{Align, Band};

use super::cell::Cell;

/// Work of one execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Visible pairs of query and key, times `2 (head_dim_qk + head_dim_v)`, of all heads.
    pub(super) flops: f64,
    /// Bytes of Q, K, V and O, live rows, each once.
    pub(super) bytes: f64,
    /// Bytes of K and V alone.
    pub(super) kv_bytes: f64,
}

impl Work {
    pub(super) fn of(cell: &Cell) -> Self {
        let shape = &cell.shape;
        let lengths = shape.lengths();
        let band = cell.mask.band();
        let pairs: u64 = lengths.iter().map(|&(q, kv)| visible_pairs(q, kv, band)).sum();
        let columns = (shape.head_dim_qk + shape.head_dim_v) as f64;
        let rows_q = lengths.iter().map(|&(q, _)| q).sum::<u64>() as f64;
        let rows_kv = lengths.iter().map(|&(_, kv)| kv).sum::<u64>() as f64;
        // Q and O together have as many columns as K and V.
        let row_bytes = columns * cell.dtype.bytes() as f64;
        let kv_bytes = rows_kv * shape.num_kv_heads as f64 * row_bytes;
        Self {
            flops: 2.0 * columns * shape.num_q_heads as f64 * pairs as f64,
            bytes: kv_bytes + rows_q * shape.num_q_heads as f64 * row_bytes,
            kv_bytes,
        }
    }
}

/// Pairs of a query and a key that it sees, of one head of one sequence.
fn visible_pairs(len_q: u64, len_kv: u64, band: Option<Band>) -> u64 {
    let Some(Band { align, left, right }) = band else { return len_q * len_kv };
    let offset = match align {
        Align::TopLeft => 0,
        Align::BottomRight => i128::from(len_kv) - i128::from(len_q),
    };
    let last = i128::from(len_kv) - 1;
    let of_row = |i: u64| {
        let diagonal = i128::from(i) + offset;
        let first = left.map_or(0, |left| (diagonal - i128::from(left)).max(0));
        let end = right.map_or(last, |right| (diagonal + i128::from(right)).min(last));
        u64::try_from(end - first + 1).unwrap_or(0)
    };
    (0..len_q).map(of_row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::preset::select;

    /// Every pair, asked one by one: `i + off - left <= j <= i + off + right`.
    fn by_hand(len_q: i64, len_kv: i64, band: Option<Band>) -> u64 {
        let sees = |i: i64, j: i64| {
            band.is_none_or(|Band { align, left, right }| {
                let off = if align == Align::TopLeft { 0 } else { len_kv - len_q };
                left.is_none_or(|left| i + off - i64::from(left) <= j)
                    && right.is_none_or(|right| j <= i + off + i64::from(right))
            })
        };
        let pairs = (0..len_q).flat_map(|i| (0..len_kv).map(move |j| (i, j)));
        pairs.filter(|&(i, j)| sees(i, j)).count() as u64
    }

    #[test]
    fn pairs_are_counted_as_by_hand() {
        let bounds = [None, Some(0), Some(1), Some(3), Some(50)];
        for (len_q, len_kv) in [(0, 0), (0, 4), (1, 9), (7, 7), (9, 2), (3, 12), (13, 5)] {
            for align in [Align::TopLeft, Align::BottomRight] {
                for left in bounds {
                    for right in bounds {
                        let band = Some(Band { align, left, right });
                        let got = visible_pairs(len_q as u64, len_kv as u64, band);
                        assert_eq!(got, by_hand(len_q, len_kv, band), "{len_q} {len_kv} {band:?}");
                    }
                }
            }
            assert_eq!(
                visible_pairs(len_q as u64, len_kv as u64, None),
                by_hand(len_q, len_kv, None)
            );
        }
    }

    #[test]
    fn work_of_known_cells() {
        let cell = |name: &str, config: &str| {
            let cells = select(&[name.to_owned()]).unwrap();
            cells.into_iter().find(|cell| cell.config == config).unwrap()
        };
        let causal = Work::of(&cell("h200", "h200/dense/d128_h16_b4_s4096_causal"));
        assert_eq!(causal.flops, 2.0 * 256.0 * 4.0 * 16.0 * (4096.0 * 4097.0 / 2.0));
        // Four tensors of 4 x 16 x 4096 x 128 in bf16.
        assert_eq!(causal.bytes, 4.0 * 4.0 * 16.0 * 4096.0 * 128.0 * 2.0);
        let decode = Work::of(&cell("h200", "h200/decode/d128_h32x8_b64_q1_s8192_full"));
        assert_eq!(decode.kv_bytes, 64.0 * 8.0 * 8192.0 * 256.0 * 2.0);
        assert_eq!(decode.bytes - decode.kv_bytes, 64.0 * 32.0 * 256.0 * 2.0);
        // Dead space is not work.
        let works = ["8x256_causal", "8x256_max65536_causal"]
            .map(|shape| Work::of(&cell("h200", &format!("h200/deadspace/d128_h8_{shape}"))));
        assert_eq!((works[0].flops, works[0].bytes), (works[1].flops, works[1].bytes));
        // 4096 keys in a window of 128: all rows but the first 127 see 128.
        let window = Work::of(&cell("gpt-oss", "gpt-oss/prefill/d64_h64x8_b1_s4096_window_128"));
        assert_eq!(window.flops, 256.0 * 64.0 * (128.0 * 4096.0 - 127.0 * 128.0 / 2.0));
    }
}
