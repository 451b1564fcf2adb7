//! What one worker holds while it works on a unit.

use frazil_core::SdpaFwdShape;

use crate::support::Tile;
use crate::vector::PANEL;

/// Tiles and running sums of one worker, in f32.
#[derive(Debug)]
pub(crate) struct Scratch<'a> {
    /// `[block_m][head_dim_qk]`.
    pub(crate) q: &'a mut [f32],
    /// K transposed: `[head_dim_qk][block_n]`, rows [`pitch`] apart.
    pub(crate) k: &'a mut [f32],
    /// `[block_n][head_dim_v]`, rows [`pitch`] apart.
    pub(crate) v: &'a mut [f32],
    /// Not yet divided by the sums: `[block_m][head_dim_v]`.
    pub(crate) o: &'a mut [f32],
    /// Scores, then weights: `[block_m][block_n]`, rows [`pitch`] apart.
    pub(crate) scores: &'a mut [f32],
    /// Rows of K before they are transposed: `[PANEL][head_dim_qk]`.
    pub(crate) panel: &'a mut [f32],
    /// A row of the bias: `[block_n]`.
    pub(crate) bias: &'a mut [f32],
    /// Greatest score of each row so far: `[block_m]`.
    pub(crate) max: &'a mut [f32],
    /// Sum of `exp(score - max)` of each row so far: `[block_m]`.
    pub(crate) sum: &'a mut [f32],
}

impl<'a> Scratch<'a> {
    fn lens(shape: &SdpaFwdShape, tile: Tile) -> [usize; 9] {
        // At most `MAX_HEAD_DIM`.
        let columns = |dim: u64| usize::try_from(dim).unwrap_or(usize::MAX);
        let (on_q, on_v) = (columns(shape.head_dim_qk), columns(shape.head_dim_v));
        let Tile { block_m, block_n, .. } = tile;
        [
            block_m * on_q,
            on_q * pitch(block_n),
            block_n * pitch(on_v),
            block_m * on_v,
            block_m * pitch(block_n),
            PANEL * on_q,
            block_n,
            block_m,
            block_m,
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
        let [q, k, v, o, scores, panel, bias, max, sum] = parts;
        Self { q, k, v, o, scores, panel, bias, max, sum }
    }
}

/// Numbers in a cache line, so that no two workers share one.
const LINE: usize = 16;

/// Elements from row to row of a matrix of that many columns: one line more, so that the rows of a
/// power of two are not all kept in the same few sets of the first-level cache.
pub(crate) const fn pitch(columns: usize) -> usize {
    columns.next_multiple_of(LINE) + LINE
}
