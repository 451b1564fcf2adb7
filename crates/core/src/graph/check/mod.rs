//! What must hold between the tensors of attention forward.
//!
//! [`check_sdpa_fwd`] asks of extents only what must hold for the declaration and for every
//! override alike, so one function serves both; what binds the declaration alone (host bounds
//! against extents, numbers, output aliasing) is in [`declare_sdpa_fwd`]. Nothing here allocates
//! unless it fails.

mod declare;
mod modifiers;
mod row_outputs;
mod side;
mod tensor_ref;

pub(super) use declare::declare_sdpa_fwd;
pub(crate) use tensor_ref::{TensorRef, Tensors};

use self::modifiers::check_modifiers;
use self::row_outputs::check_row_output;
use self::side::SideCheck;
use self::tensor_ref::{Axis, Types, find};
use super::{SdpaFwd, Side, Storage};
use crate::facts::SdpaFwdShape;
use crate::{InvalidGraph, Role};

/// Name of the operation in messages.
const OP: &str = "sdpa_fwd";

/// Axes of a tensor with rows, by the form of its side.
struct RowAxes {
    heads: Axis,
    columns: Axis,
    rank: usize,
    expected: &'static str,
}

impl RowAxes {
    fn of(storage: &Storage) -> Self {
        let four =
            |expected| Self { heads: (1, "heads"), columns: (3, "head_dim"), rank: 4, expected };
        match storage {
            Storage::Dense | Storage::Padded { .. } => four("4: [batch, heads, rows, head_dim]"),
            Storage::Paged { .. } => four("4: [pages, heads, page_size, head_dim]"),
            Storage::Packed { .. } => Self {
                heads: (1, "heads"),
                columns: (2, "head_dim"),
                rank: 3,
                expected: "3: [rows, heads, head_dim]",
            },
        }
    }
}

/// Checks every tensor of the operation against the others and derives the shape.
pub(crate) fn check_sdpa_fwd(
    op: &SdpaFwd,
    tensors: &dyn Tensors,
) -> Result<SdpaFwdShape, InvalidGraph> {
    let (on_q, on_kv) = (RowAxes::of(&op.q_storage), RowAxes::of(&op.kv_storage));
    let rows_tensor = |role, id, axes: &RowAxes| {
        find(tensors, role, id)?.rank(axes.rank, axes.expected)?.of_type(Types::Float)
    };
    let q = rows_tensor(Role::Q, op.q, &on_q)?;
    let k = rows_tensor(Role::K, op.k, &on_kv)?;
    let v = rows_tensor(Role::V, op.v, &on_kv)?;
    let o = rows_tensor(Role::O, op.o, &on_q)?;

    let num_q_heads = q.nonzero(on_q.heads)?;
    let num_kv_heads = k.nonzero(on_kv.heads)?;
    let head_dim_qk = q.nonzero(on_q.columns)?;
    let head_dim_v = v.nonzero(on_kv.columns)?;
    v.extent(on_kv.heads, num_kv_heads, "heads of k")?;
    o.extent(on_q.heads, num_q_heads, "heads of q")?;
    if num_q_heads % num_kv_heads != 0 {
        return Err(InvalidGraph::HeadGroups { op: OP, num_q_heads, num_kv_heads });
    }
    k.extent(on_kv.columns, head_dim_qk, "head_dim of q")?;
    o.extent(on_q.columns, head_dim_v, "head_dim of v")?;

    let q_side = SideCheck { tensors, side: Side::Q, first: q, second: o }.shape(&op.q_storage)?;
    let kv_side =
        SideCheck { tensors, side: Side::Kv, first: k, second: v }.shape(&op.kv_storage)?;
    if q_side.batch != kv_side.batch {
        return Err(InvalidGraph::Extent {
            op: OP,
            tensor: k.name.into(),
            axis: "batch",
            found: kv_side.batch,
            expected: q_side.batch,
            of: "batch of q",
        });
    }
    let shape = SdpaFwdShape {
        batch: q_side.batch,
        num_q_heads,
        num_kv_heads,
        head_dim_qk,
        head_dim_v,
        q: q_side,
        kv: kv_side,
    };
    check_modifiers(op, tensors, &shape, q)?;
    let row_outputs =
        [(Role::Lse, op.lse.map(|(id, _)| id)), (Role::Max, op.max), (Role::SumExp, op.sum_exp)];
    for (role, id) in row_outputs {
        if let Some(id) = id {
            check_row_output(op, find(tensors, role, id)?, &shape)?;
        }
    }
    Ok(shape)
}
