//! Outputs with one value per query row and head.

use super::tensor_ref::{TensorRef, Types};
use crate::InvalidGraph;
use crate::facts::SdpaFwdShape;
use crate::graph::{SdpaFwd, Storage};

/// LSE, max and sum-exp: `[B, H, S]`, or one value per packed row, `[T, H]`.
pub(super) fn check_row_output(
    op: &SdpaFwd,
    tensor: TensorRef<'_>,
    shape: &SdpaFwdShape,
) -> Result<(), InvalidGraph> {
    let tensor = tensor.of_type(Types::F32)?;
    let packed = matches!(op.q_storage, Storage::Packed { .. });
    if packed && tensor.geometry.rank() == 2 {
        tensor.extent((1, "heads"), shape.num_q_heads, "heads of q")?;
        let (row_stride, head_stride) = (tensor.geometry.stride(0), tensor.geometry.stride(1));
        if head_stride > row_stride && row_stride > 0 {
            // Head-major: a pitch below the capacity of q would let rows past its end of one head
            // fall on the next.
            let least = shape.q.rows.saturating_mul(row_stride);
            tensor.fits("head pitch", head_stride, least, "rows that q holds")?;
        }
        return Ok(());
    }
    let expected = if packed {
        "2 or 3: [rows, num_q_heads] or [batch, num_q_heads, greatest length]"
    } else {
        "3: [batch, num_q_heads, rows]"
    };
    let tensor = tensor
        .rank(3, expected)?
        .extent((0, "batch"), shape.batch, "batch of q")?
        .extent((1, "heads"), shape.num_q_heads, "heads of q")?;
    if packed {
        tensor.at_least((2, "rows"), shape.q.max_len, "greatest length of q")?;
    } else {
        tensor.extent((2, "rows"), shape.q.rows, "rows of q")?;
    }
    Ok(())
}
