//! What must hold between the tensors of attention forward.
//!
//! [`check_sdpa_fwd`] asks of extents only what must hold for the declaration and for every
//! override alike, so one function serves both; what binds the declaration alone (host bounds
//! against extents, numbers, output aliasing) is in [`declare_sdpa_fwd`]. Nothing here allocates
//! unless it fails.

use super::{Operation, SdpaFwd, Sequences, Side, Storage};
use crate::facts::{SdpaFwdShape, SideShape};
use crate::geometry::MAX_EXTENT;
use crate::{DType, Geometry, InvalidGraph, Role, TensorId};

const OP: &str = "sdpa_fwd";

/// A tensor with the geometry that counts: the declared one, or an override.
#[derive(Clone, Copy)]
pub(crate) struct TensorRef<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    pub(crate) geometry: Geometry,
}

/// Where tensors are looked up.
pub(crate) trait Tensors {
    fn tensor(&self, id: TensorId) -> Option<TensorRef<'_>>;
}

/// Types allowed in a place.
#[derive(Clone, Copy)]
enum Types {
    Float,
    F32,
    I32,
    I64,
    U8,
    F32Or(DType),
}

impl Types {
    fn allow(self, dtype: DType) -> bool {
        match self {
            Self::Float => matches!(
                dtype,
                DType::F16 | DType::Bf16 | DType::F32 | DType::F8E4m3 | DType::F8E5m2
            ),
            Self::F32 => dtype == DType::F32,
            Self::I32 => dtype == DType::I32,
            Self::I64 => dtype == DType::I64,
            Self::U8 => dtype == DType::U8,
            Self::F32Or(other) => dtype == DType::F32 || dtype == other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Float => "a float",
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::F32Or(_) => "f32 or the type of q",
        }
    }
}

impl TensorRef<'_> {
    fn rank(self, rank: usize, expected: &'static str) -> Result<Self, InvalidGraph> {
        let found = self.geometry.rank();
        if found == rank {
            return Ok(self);
        }
        Err(InvalidGraph::Rank {
            op: OP,
            tensor: self.name.into(),
            found,
            expected,
        })
    }

    fn of_type(self, types: Types) -> Result<Self, InvalidGraph> {
        let Self { name, dtype, .. } = self;
        if types.allow(dtype) {
            return Ok(self);
        }
        Err(InvalidGraph::DType {
            op: OP,
            tensor: name.into(),
            found: dtype,
            expected: types.name(),
        })
    }

    fn extent(
        self,
        (index, axis): Axis,
        expected: u64,
        of: &'static str,
    ) -> Result<Self, InvalidGraph> {
        let found = self.geometry.extent(index);
        if found == expected {
            return Ok(self);
        }
        let tensor = self.name.into();
        Err(InvalidGraph::Extent {
            op: OP,
            tensor,
            axis,
            found,
            expected,
            of,
        })
    }

    fn at_least(
        self,
        (index, axis): Axis,
        least: u64,
        of: &'static str,
    ) -> Result<Self, InvalidGraph> {
        self.fits(axis, self.geometry.extent(index), least, of)
    }

    fn fits(
        self,
        axis: &'static str,
        found: u64,
        least: u64,
        of: &'static str,
    ) -> Result<Self, InvalidGraph> {
        if found >= least {
            return Ok(self);
        }
        let tensor = self.name.into();
        Err(InvalidGraph::TooSmall {
            op: OP,
            tensor,
            axis,
            found,
            least,
            of,
        })
    }

    /// An axis that is either broadcast (extent 1) or equal to `expected`.
    fn broadcast(
        self,
        (index, axis): Axis,
        expected: u64,
        of: &'static str,
    ) -> Result<Self, InvalidGraph> {
        if self.geometry.extent(index) == 1 {
            return Ok(self);
        }
        self.extent((index, axis), expected, of)
    }

    fn nonzero(self, (index, axis): Axis) -> Result<u64, InvalidGraph> {
        match self.geometry.extent(index) {
            0 => Err(InvalidGraph::Zero {
                op: OP,
                tensor: self.name.into(),
                axis,
            }),
            extent => Ok(extent),
        }
    }
}

/// Position of an axis and its name in messages.
type Axis = (usize, &'static str);

/// Looks a tensor up by the role it has in the operation.
fn find(tensors: &dyn Tensors, role: Role, id: TensorId) -> Result<TensorRef<'_>, InvalidGraph> {
    tensors.tensor(id).ok_or(InvalidGraph::UnknownTensor {
        op: OP,
        role: role.name(),
        id,
    })
}

/// Axes of a tensor with rows, by the form of its side.
struct RowAxes {
    heads: Axis,
    columns: Axis,
    rank: usize,
    expected: &'static str,
}

impl RowAxes {
    fn of(storage: &Storage) -> Self {
        let four = |expected| Self {
            heads: (1, "heads"),
            columns: (3, "head_dim"),
            rank: 4,
            expected,
        };
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
        find(tensors, role, id)?
            .rank(axes.rank, axes.expected)?
            .of_type(Types::Float)
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
        return Err(InvalidGraph::HeadGroups {
            op: OP,
            num_q_heads,
            num_kv_heads,
        });
    }
    k.extent(on_kv.columns, head_dim_qk, "head_dim of q")?;
    o.extent(on_q.columns, head_dim_v, "head_dim of v")?;

    let q_side = check_side(tensors, Side::Q, &op.q_storage, (q, o))?;
    let kv_side = check_side(tensors, Side::Kv, &op.kv_storage, (k, v))?;
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
    let row_outputs = [
        (Role::Lse, op.lse.map(|(id, _)| id)),
        (Role::Max, op.max),
        (Role::SumExp, op.sum_exp),
    ];
    for (role, id) in row_outputs {
        if let Some(id) = id {
            check_row_output(op, find(tensors, role, id)?, &shape)?;
        }
    }
    Ok(shape)
}

/// Batch, rows and limits of one side, with its length tensors checked. `pair` is (q, o) or (k, v).
fn check_side(
    tensors: &dyn Tensors,
    side: Side,
    storage: &Storage,
    pair: (TensorRef<'_>, TensorRef<'_>),
) -> Result<SideShape, InvalidGraph> {
    let (first, second) = pair;
    let (lengths, prefix, starts) = side.roles();
    let vector = |role, id, expected: &'static str| {
        find(tensors, role, id)?
            .of_type(Types::I32)?
            .rank(1, expected)
    };
    let count = |role, id| vector(role, id, "1: [batch]");
    match *storage {
        Storage::Dense | Storage::Padded { .. } => {
            let (batch, rows) = (first.geometry.extent(0), first.geometry.extent(2));
            let of = if side == Side::Q { "q" } else { "k" };
            second
                .extent((0, "batch"), batch, of)?
                .extent((2, "rows"), rows, of)?;
            let mut max_len = rows;
            if let Storage::Padded {
                lengths: id,
                bounds,
            } = *storage
            {
                count(lengths, id)?.extent((0, "batch"), batch, of)?;
                max_len = rows.min(bounds.max.into());
            }
            Ok(SideShape {
                batch,
                rows,
                max_len,
            })
        }
        Storage::Packed {
            sequences, bounds, ..
        } => {
            let batch = match sequences {
                Sequences::Lengths(id) => count(lengths, id)?.geometry.extent(0),
                Sequences::Prefix(id) => {
                    let tensor = vector(prefix, id, "1: [batch + 1]")?;
                    tensor.at_least((0, "batch + 1"), 1, "a prefix has batch + 1 entries")?;
                    tensor.geometry.extent(0) - 1
                }
                Sequences::Starts {
                    starts: first_rows,
                    lengths: id,
                } => {
                    let batch = count(lengths, id)?.geometry.extent(0);
                    count(starts, first_rows)?.extent((0, "batch"), batch, "lengths")?;
                    batch
                }
            };
            let rows = first.geometry.extent(0);
            Ok(SideShape {
                batch,
                rows,
                max_len: bounds.max.into(),
            })
        }
        Storage::Paged {
            table_k,
            table_v,
            lengths: id,
            bounds,
        } => {
            if side == Side::Q {
                let reason = "queries are never read through a page table";
                return Err(InvalidGraph::Storage {
                    op: OP,
                    side: "q",
                    storage: "paged",
                    reason,
                });
            }
            let page_size = first.nonzero((2, "page_size"))?;
            second.extent((2, "page_size"), page_size, "k")?;
            let batch = count(lengths, id)?.geometry.extent(0);
            let mut rows = u64::MAX;
            for (role, table) in [(Role::TableK, table_k), (Role::TableV, table_v)] {
                let table = find(tensors, role, table)?.of_type(Types::I32)?;
                table
                    .rank(2, "2: [batch, pages]")?
                    .extent((0, "batch"), batch, "kv lengths")?;
                rows = rows.min(table.geometry.extent(1) * page_size);
            }
            Ok(SideShape {
                batch,
                rows,
                max_len: rows.min(bounds.max.into()),
            })
        }
    }
}

fn check_modifiers(
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
        let sides = [
            (2, "rows of q", &op.q_storage, shape.q),
            (3, "rows of k", &op.kv_storage, shape.kv),
        ];
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
            slopes
                .extent((0, "batch"), shape.batch, "batch of q")?
                .extent((1, "heads"), shape.num_q_heads, "heads of q")?;
        } else {
            slopes
                .rank(1, "1 or 2: [num_q_heads] or [batch, num_q_heads]")?
                .extent((0, "heads"), shape.num_q_heads, "heads of q")?;
        }
    }
    if let Some(id) = op.sink {
        find(tensors, Role::Sink, id)?
            .of_type(Types::F32)?
            .rank(1, "1: [num_q_heads]")?
            .extent((0, "heads"), shape.num_q_heads, "heads of q")?;
    }
    if let Some(mask) = op.block_mask {
        const TILE: u64 = 128;
        find(tensors, Role::BlockMask, mask.bits)?
            .of_type(Types::U8)?
            .rank(
                4,
                "4: [batch, num_q_heads, tiles of q, bytes of tiles of k]",
            )?
            .extent((0, "batch"), shape.batch, "batch of q")?
            .extent((1, "heads"), shape.num_q_heads, "heads of q")?
            .extent(
                (2, "tiles of q"),
                shape.q.max_len.div_ceil(TILE),
                "ceil(rows of q / 128)",
            )?
            .extent(
                (3, "bytes of tiles of k"),
                shape.kv.max_len.div_ceil(TILE).div_ceil(8),
                "ceil(ceil(rows of k / 128) / 8)",
            )?;
    }
    if let Some(dropout) = op.dropout {
        for (role, id) in [
            (Role::DropoutSeed, dropout.seed),
            (Role::DropoutOffset, dropout.offset),
        ] {
            find(tensors, role, id)?
                .of_type(Types::I64)?
                .rank(1, "1: [1]")?
                .extent((0, "count"), 1, "one number")?;
        }
    }
    Ok(())
}

/// LSE, max and sum-exp: `[B, H, S]`, or one value per packed row, `[T, H]`.
fn check_row_output(
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

/// Everything that a declaration must satisfy.
pub(crate) fn declare_sdpa_fwd(op: &SdpaFwd, tensors: &dyn Tensors) -> Result<(), InvalidGraph> {
    let shape = check_sdpa_fwd(op, tensors)?;
    check_numbers(op)?;
    check_bounds(op, tensors, &shape)?;
    check_outputs(op, tensors)
}

fn check_numbers(op: &SdpaFwd) -> Result<(), InvalidGraph> {
    let refuse = |what, value, expected| {
        Err(InvalidGraph::Value {
            op: OP,
            what,
            value,
            expected,
        })
    };
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
            Err(InvalidGraph::Bound {
                op: OP,
                what,
                value,
                limit,
                of,
            })
        }
    };
    let sides = [
        (
            &op.q_storage,
            shape.q,
            "greatest length of q",
            [(Role::Q, op.q), (Role::O, op.o)],
        ),
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
            Storage::Packed {
                bounds, max_total, ..
            } => {
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
        bound(
            "least length",
            bounds.min.into(),
            bounds.max.into(),
            "greatest length",
        )?;
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
            verdict = Err(InvalidGraph::OutputOverlapsItself {
                op: OP,
                tensor,
                geometry,
            });
            return;
        }
        op.for_each_tensor(&mut |other, other_id| {
            if other_id == id && other != role && verdict.is_ok() {
                let (tensor, role, other) = (tensor.name.into(), role.name(), other.name());
                verdict = Err(InvalidGraph::OutputShared {
                    op: OP,
                    tensor,
                    role,
                    other,
                });
            }
        });
    });
    verdict
}
