//! How much a cell computes and moves, counted exactly.

use frazil::Band;

use super::cell::Cell;

/// Work of one execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Visible pairs of query and key, times `2 (head_dim_qk + head_dim_v)`, of all heads.
    pub(super) flops: f64,
    /// Bytes of Q and O, live rows, and of the rows of K and V that some query sees; each once.
    pub(super) bytes: f64,
    /// Those of K and V alone.
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
        let rows_kv = lengths.iter().map(|&(q, kv)| visible_keys(q, kv, band)).sum::<u64>() as f64;
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

/// Keys that queries `first_row` to `last_row` of a sequence see together. Each sees a run of keys
/// around its diagonal, one after the run of the row before, so together they see one run.
fn keys_of_rows(rows: [i64; 2], (len_q, len_kv): (i64, i64), band: Option<Band>) -> u64 {
    let Some(Band { align, left, right }) = band else { return len_kv.unsigned_abs() };
    let [first, last] = rows.map(|row| row + align.offset(len_q, len_kv));
    let begin = left.map_or(0, |left| (first - i64::from(left)).max(0));
    let end = right.map_or(len_kv, |right| (last + i64::from(right) + 1).min(len_kv));
    u64::try_from(end - begin).unwrap_or(0)
}

/// Pairs of a query and a key that it sees, of one head of one sequence.
fn visible_pairs(len_q: u64, len_kv: u64, band: Option<Band>) -> u64 {
    let lengths = (signed(len_q), signed(len_kv));
    (0..lengths.0).map(|row| keys_of_rows([row, row], lengths, band)).sum()
}

/// Keys of one sequence that some query sees: what no engine can leave unread.
fn visible_keys(len_q: u64, len_kv: u64, band: Option<Band>) -> u64 {
    match (signed(len_q), signed(len_kv)) {
        (0, _) => 0,
        lengths => keys_of_rows([0, lengths.0 - 1], lengths, band),
    }
}

/// Lengths are int32 on devices.
fn signed(length: u64) -> i64 {
    i64::try_from(length).expect("a length is far below 2^63")
}

#[cfg(test)]
mod tests {
    use frazil::Align;

    use super::*;
    use crate::bench::preset::select;

    /// Every pair, asked one by one, `i + off - left <= j <= i + off + right`: pairs, and keys that
    /// are in one.
    fn by_hand(len_q: i64, len_kv: i64, band: Option<Band>) -> (u64, u64) {
        let sees = |i: i64, j: i64| {
            band.is_none_or(|Band { align, left, right }| {
                let off = if align == Align::TopLeft { 0 } else { len_kv - len_q };
                left.is_none_or(|left| i + off - i64::from(left) <= j)
                    && right.is_none_or(|right| j <= i + off + i64::from(right))
            })
        };
        let of_key = |j| (0..len_q).filter(|&i| sees(i, j)).count() as u64;
        let counts: Vec<u64> = (0..len_kv).map(of_key).collect();
        (counts.iter().sum(), counts.iter().filter(|&&count| count > 0).count() as u64)
    }

    #[test]
    fn pairs_and_keys_are_counted_as_by_hand() {
        let bounds = [None, Some(0), Some(1), Some(3), Some(50)];
        let mut bands = vec![None];
        for align in [Align::TopLeft, Align::BottomRight] {
            for left in bounds {
                bands.extend(bounds.map(|right| Some(Band { align, left, right })));
            }
        }
        for (len_q, len_kv) in [(0, 0), (0, 4), (1, 9), (7, 7), (9, 2), (3, 12), (13, 5), (20, 0)] {
            for &band in &bands {
                let (q, kv) = (len_q as u64, len_kv as u64);
                let got = (visible_pairs(q, kv, band), visible_keys(q, kv, band));
                assert_eq!(got, by_hand(len_q, len_kv, band), "{len_q} {len_kv} {band:?}");
            }
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
        // One query behind 8192 keys sees the last 128, and an engine need not read the others.
        let window =
            Work::of(&cell("gpt-oss", "gpt-oss/decode/d64_h64x8_b1_q1_s8192_page16_window_128"));
        assert_eq!(window.kv_bytes, 8.0 * 128.0 * 128.0 * 2.0);
        assert_eq!(window.bytes - window.kv_bytes, 64.0 * 128.0 * 2.0);
    }
}
