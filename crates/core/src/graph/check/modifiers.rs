//! Tensors that change the scores or the weights.

use super::tensor_ref::{TensorRef, Tensors, Types, find};
use crate::facts::SdpaFwdShape;
use crate::graph::{SdpaFwd, Storage};
use crate::{InvalidGraph, Role};

pub(super) fn check_modifiers(
    op: &SdpaFwd,
    tensors: &dyn Tensors,
    shape: &SdpaFwdShape,
    q: TensorRef<'_>,
) -> Result<(), InvalidGraph> {
    if let Some(id) = op.bias {
        let bias = find(tensors, Role::Bias, id)?
            .of_type(Types::F32Or(q.dtype))?
            .rank(4, "4: [batch or 1, num_q_heads or 1, rows of q, rows of k]")?
            .broadcast((0, "batch"), shape.batch, "batch of q")?
            .broadcast((1, "heads"), shape.num_q_heads, "heads of q")?;
        let sides =
            [(2, "rows of q", &op.q_storage, shape.q), (3, "rows of k", &op.kv_storage, shape.kv)];
        for (index, axis, storage, side) in sides {
            match storage {
                Storage::Dense | Storage::Padded { .. } => {
                    bias.extent((index, axis), side.rows, "its extent")?
                }
                _ => bias.at_least((index, axis), side.max_len, "greatest length")?,
            };
        }
    }
    if let Some(id) = op.alibi_slopes {
        let slopes = find(tensors, Role::AlibiSlopes, id)?.of_type(Types::F32)?;
        if slopes.geometry.rank() == 2 {
            slopes.extent((0, "batch"), shape.batch, "batch of q")?.extent(
                (1, "heads"),
                shape.num_q_heads,
                "heads of q",
            )?;
        } else {
            slopes.rank(1, "1 or 2: [num_q_heads] or [batch, num_q_heads]")?.extent(
                (0, "heads"),
                shape.num_q_heads,
                "heads of q",
            )?;
        }
    }
    if let Some(id) = op.sink {
        find(tensors, Role::Sink, id)?.of_type(Types::F32)?.rank(1, "1: [num_q_heads]")?.extent(
            (0, "heads"),
            shape.num_q_heads,
            "heads of q",
        )?;
    }
    if let Some(mask) = op.block_mask {
        const TILE: u64 = 128;
        find(tensors, Role::BlockMask, mask.bits)?
            .of_type(Types::U8)?
            .rank(4, "4: [batch, num_q_heads, tiles of q, bytes of tiles of k]")?
            .extent((0, "batch"), shape.batch, "batch of q")?
            .extent((1, "heads"), shape.num_q_heads, "heads of q")?
            .extent((2, "tiles of q"), shape.q.max_len.div_ceil(TILE), "ceil(rows of q / 128)")?
            .extent(
                (3, "bytes of tiles of k"),
                shape.kv.max_len.div_ceil(TILE).div_ceil(8),
                "ceil(ceil(rows of k / 128) / 8)",
            )?;
    }
    if let Some(dropout) = op.dropout {
        for (role, id) in [(Role::DropoutSeed, dropout.seed), (Role::DropoutOffset, dropout.offset)]
        {
            find(tensors, role, id)?.of_type(Types::I64)?.rank(1, "1: [1]")?.extent(
                (0, "count"),
                1,
                "one number",
            )?;
        }
    }
    Ok(())
}
