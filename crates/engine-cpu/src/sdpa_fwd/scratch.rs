//! What one worker holds while it works on a unit.

use frazil_core::SdpaFwdShape;

use crate::support::Tile;
use crate::vector::MAX_ROWS;

/// Tiles and running sums of one worker, in f32. Rows of Q are the lanes of panels; a panel's part
/// begins at its first row. A few rows alone are not lanes: `[lane]` is then the outer index.
#[derive(Debug)]
pub(crate) struct Scratch<'a> {
    /// By panel: `[head_dim_qk][lane]`.
    pub(crate) q: &'a mut [f32],
    /// `[block_n][head_dim_qk]`, rows [`pitch`] apart.
    pub(crate) k: &'a mut [f32],
    /// `[block_n][head_dim_v]`, rows [`pitch`] apart.
    pub(crate) v: &'a mut [f32],
    /// Not yet divided by the sums; by panel: `[head_dim_v][lane]`.
    pub(crate) o: &'a mut [f32],
    /// Scores, then weights, of one panel: `[block_n][lane]`.
    pub(crate) scores: &'a mut [f32],
    /// A row of Q, O or the bias.
    pub(crate) row: &'a mut [f32],
    /// Greatest score of each row so far: `[block_m]`.
    pub(crate) max: &'a mut [f32],
    /// Sum of `exp(score - max)` of each row so far: `[block_m]`.
    pub(crate) sum: &'a mut [f32],
    /// What the sums of one panel so far are to be multiplied by: `[lane]`.
    pub(crate) correction: &'a mut [f32],
    /// Two numbers for each lane of one panel.
    pub(crate) lanes: [&'a mut [f32]; 2],
}

impl<'a> Scratch<'a> {
    fn lens(shape: &SdpaFwdShape, tile: Tile) -> [usize; 11] {
        // At most `MAX_HEAD_DIM`.
        let columns = |dim: u64| usize::try_from(dim).unwrap_or(usize::MAX);
        let (on_q, on_v) = (columns(shape.head_dim_qk), columns(shape.head_dim_v));
        let Tile { block_m, block_n, .. } = tile;
        // Whole vectors of lanes, whole groups of keys.
        let (rows, keys) = (block_m.next_multiple_of(LINE), block_n + MAX_ROWS);
        [
            rows * on_q,
            keys * pitch(on_q),
            keys * pitch(on_v),
            rows * padded(on_v),
            keys * MAX_LANES,
            on_q.max(on_v).max(block_n),
            rows,
            rows,
            MAX_LANES,
            MAX_LANES,
            MAX_LANES,
        ]
        .map(|len| len.next_multiple_of(LINE))
    }

    /// Elements of one worker's scratch.
    pub(crate) fn len(shape: &SdpaFwdShape, tile: Tile) -> usize {
        Self::lens(shape, tile).iter().sum()
    }

    /// Divides the memory of one worker.
    pub(crate) fn carve(memory: &'a mut [f32], shape: &SdpaFwdShape, tile: Tile) -> Self {
        let mut rest = memory;
        let parts = Self::lens(shape, tile).map(|len| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            part
        });
        let [q, k, v, o, scores, row, max, sum, correction, first, second] = parts;
        Self { q, k, v, o, scores, row, max, sum, correction, lanes: [first, second] }
    }
}

/// Numbers in a cache line, so that no two workers share one, and the widest vector.
const LINE: usize = 16;

/// Most lanes of a panel, of the widest vectors.
const MAX_LANES: usize = 3 * LINE;

/// Elements from row to row of a matrix of that many columns: one line more, so that the rows of a
/// power of two are not all kept in the same few sets of the first-level cache.
pub(crate) const fn pitch(columns: usize) -> usize {
    columns.next_multiple_of(LINE) + LINE
}

/// Columns of O in scratch: the last group of sums may reach past the last.
pub(crate) const fn padded(columns: usize) -> usize {
    columns + MAX_ROWS
}
