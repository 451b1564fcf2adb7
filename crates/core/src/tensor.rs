//! Tensors as the caller describes them and as the graph holds them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DType, Geometry, GeometryError};

/// Alignment of the first element of a tensor of floats that is assumed when none is stated, in
/// bytes. Integers (lengths, tables, …) need only be aligned to an element then.
pub const DEFAULT_ALIGN: u32 = 16;

/// Names a tensor in a graph and in [`Bindings`](crate::Bindings). May be chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TensorId(pub i64);

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a caller writes down about a tensor, unchecked.
///
/// [`GraphBuilder::tensor`](crate::GraphBuilder::tensor) turns it into a [`TensorDesc`].
#[derive(Clone, Debug)]
#[must_use]
pub struct TensorSpec {
    pub(crate) id: Option<TensorId>,
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) geometry: Result<Geometry, GeometryError>,
    pub(crate) align: u32,
}

impl TensorSpec {
    /// A row-major tensor: the last axis is contiguous.
    pub fn contiguous(name: impl Into<String>, dtype: DType, extents: impl AsRef<[i64]>) -> Self {
        Self::new(name, dtype, Geometry::contiguous(extents.as_ref()))
    }

    /// A tensor with strides of its own, in elements.
    pub fn strided(
        name: impl Into<String>,
        dtype: DType,
        extents: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
    ) -> Self {
        Self::new(name, dtype, Geometry::strided(extents.as_ref(), strides.as_ref()))
    }

    fn new(
        name: impl Into<String>,
        dtype: DType,
        geometry: Result<Geometry, GeometryError>,
    ) -> Self {
        let align = match dtype {
            DType::U8 => 1,
            DType::I32 => 4,
            DType::I64 => 8,
            _ => DEFAULT_ALIGN,
        };
        Self { id: None, name: name.into(), dtype, geometry, align }
    }

    /// Chooses the id; without this the builder takes the lowest one from 0 that is free.
    pub fn id(mut self, id: TensorId) -> Self {
        self.id = Some(id);
        self
    }

    /// States the alignment of the first element, in bytes: a power of two, at least the size of
    /// an element. Every binding is held to it, and an engine that needs more declines.
    pub fn align(mut self, bytes: u32) -> Self {
        self.align = bytes;
        self
    }
}

/// A tensor of a graph: named, typed, addressable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorDesc {
    pub(crate) id: TensorId,
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) geometry: Geometry,
    pub(crate) align: u32,
}

impl TensorDesc {
    /// Key of this tensor in bindings.
    pub fn id(&self) -> TensorId {
        self.id
    }

    /// Label used in messages; need not be unique.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents and strides, in elements.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Alignment that every binding must have, in bytes.
    pub fn align(&self) -> u32 {
        self.align
    }

    /// Bytes from the first element to the end of the last.
    pub fn span_bytes(&self) -> u64 {
        self.geometry.span() * self.dtype.bytes()
    }
}
