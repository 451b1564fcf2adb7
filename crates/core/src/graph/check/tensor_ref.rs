//! One tensor under check, and what may be asked of it.

use super::OP;
use crate::{DType, Geometry, InvalidGraph, Role, TensorId};

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
pub(super) enum Types {
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
    pub(super) fn rank(self, rank: usize, expected: &'static str) -> Result<Self, InvalidGraph> {
        let found = self.geometry.rank();
        if found == rank {
            return Ok(self);
        }
        Err(InvalidGraph::Rank { op: OP, tensor: self.name.into(), found, expected })
    }

    pub(super) fn of_type(self, types: Types) -> Result<Self, InvalidGraph> {
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

    pub(super) fn extent(
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
        Err(InvalidGraph::Extent { op: OP, tensor, axis, found, expected, of })
    }

    pub(super) fn at_least(
        self,
        (index, axis): Axis,
        least: u64,
        of: &'static str,
    ) -> Result<Self, InvalidGraph> {
        self.fits(axis, self.geometry.extent(index), least, of)
    }

    pub(super) fn fits(
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
        Err(InvalidGraph::TooSmall { op: OP, tensor, axis, found, least, of })
    }

    /// An axis that is either broadcast (extent 1) or equal to `expected`.
    pub(super) fn broadcast(
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

    pub(super) fn nonzero(self, (index, axis): Axis) -> Result<u64, InvalidGraph> {
        match self.geometry.extent(index) {
            0 => Err(InvalidGraph::Zero { op: OP, tensor: self.name.into(), axis }),
            extent => Ok(extent),
        }
    }
}

/// Position of an axis and its name in messages.
pub(super) type Axis = (usize, &'static str);

/// Looks a tensor up by the role it has in the operation.
pub(super) fn find(
    tensors: &dyn Tensors,
    role: Role,
    id: TensorId,
) -> Result<TensorRef<'_>, InvalidGraph> {
    tensors.tensor(id).ok_or(InvalidGraph::UnknownTensor { op: OP, role: role.name(), id })
}
