//! What binds a declaration, and not an override of it.

use super::tensor_ref::{Tensors, find};
use super::{OP, check_sdpa_fwd};
use crate::facts::SdpaFwdShape;
use crate::geometry::MAX_EXTENT;
use crate::graph::{Operation, SdpaFwd, Storage};
use crate::{InvalidGraph, Role};

/// Everything that a declaration must satisfy.
pub(in crate::graph) fn declare_sdpa_fwd(
    op: &SdpaFwd,
    tensors: &dyn Tensors,
) -> Result<(), InvalidGraph> {
    let shape = check_sdpa_fwd(op, tensors)?;
    check_numbers(op)?;
    check_bounds(op, tensors, &shape)?;
    check_outputs(op, tensors)
}

fn check_numbers(op: &SdpaFwd) -> Result<(), InvalidGraph> {
    let refuse = |what, value, expected| Err(InvalidGraph::Value { op: OP, what, value, expected });
    match op.softmax_scale {
        Some(scale) if !scale.is_finite() => {
            return refuse("softmax_scale", scale, "a finite number");
        }
        _ => {}
    }
    match op.soft_cap {
        Some(cap) if !(cap.is_finite() && cap > 0.0) => {
            return refuse("soft_cap", cap, "a positive finite number");
        }
        _ => {}
    }
    match op.dropout {
        Some(dropout) if !(0.0..1.0).contains(&dropout.probability) => {
            refuse("dropout probability", dropout.probability, "0.0 <= p < 1.0")
        }
        _ => Ok(()),
    }
}

/// Host bounds against the extents that were declared.
fn check_bounds(
    op: &SdpaFwd,
    tensors: &dyn Tensors,
    shape: &SdpaFwdShape,
) -> Result<(), InvalidGraph> {
    let bound = |what, value: u64, limit: u64, of| {
        if value <= limit {
            Ok(())
        } else {
            Err(InvalidGraph::Bound { op: OP, what, value, limit, of })
        }
    };
    let sides = [
        (&op.q_storage, shape.q, "greatest length of q", [(Role::Q, op.q), (Role::O, op.o)]),
        (
            &op.kv_storage,
            shape.kv,
            "greatest length of k and v",
            [(Role::K, op.k), (Role::V, op.v)],
        ),
    ];
    for (storage, side, what, pair) in sides {
        let (bounds, limit, of) = match *storage {
            Storage::Dense => continue,
            Storage::Padded { bounds, .. } => (bounds, side.rows, "rows of the extent"),
            Storage::Paged { bounds, .. } => (bounds, side.rows, "pages of the table x page_size"),
            Storage::Packed { bounds, max_total, .. } => {
                bound("max_total", max_total.into(), MAX_EXTENT, "int32")?;
                for (role, id) in pair {
                    find(tensors, role, id)?.at_least(
                        (0, "rows"),
                        max_total.into(),
                        "max_total",
                    )?;
                }
                (bounds, MAX_EXTENT, "int32")
            }
        };
        bound(what, bounds.max.into(), limit, of)?;
        bound("least length", bounds.min.into(), bounds.max.into(), "greatest length")?;
    }
    if let Storage::Packed { max_total, .. } = op.q_storage {
        let row_outputs = [
            (Role::Lse, op.lse.map(|(id, _)| id)),
            (Role::Max, op.max),
            (Role::SumExp, op.sum_exp),
        ];
        for (role, id) in row_outputs {
            let Some(id) = id else { continue };
            let tensor = find(tensors, role, id)?;
            if tensor.geometry.rank() == 2 {
                tensor.at_least((0, "rows"), max_total.into(), "max_total")?;
            }
        }
    }
    Ok(())
}

/// Outputs write each element once and are nothing else.
fn check_outputs(op: &SdpaFwd, tensors: &dyn Tensors) -> Result<(), InvalidGraph> {
    let mut verdict = Ok(());
    op.for_each_tensor(&mut |role, id| {
        if verdict.is_err() || !role.is_output() {
            return;
        }
        let Some(tensor) = tensors.tensor(id) else {
            return;
        };
        if tensor.geometry.may_overlap_itself() {
            let (tensor, geometry) = (tensor.name.into(), tensor.geometry);
            verdict = Err(InvalidGraph::OutputOverlapsItself { op: OP, tensor, geometry });
            return;
        }
        op.for_each_tensor(&mut |other, other_id| {
            if other_id == id && other != role && verdict.is_ok() {
                let (tensor, role, other) = (tensor.name.into(), role.name(), other.name());
                verdict = Err(InvalidGraph::OutputShared { op: OP, tensor, role, other });
            }
        });
    });
    verdict
}
