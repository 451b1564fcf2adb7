//! Which memory stands for which tensor.

use std::cell::Cell;

use crate::{
    Buffer, BufferError, DType, Device, DeviceId, Error, Geometry, InvalidGraph, TensorId,
};

/// Most tensors that a graph, and so a call, may have.
pub const MAX_BINDINGS: usize = 32;

/// Buffers by tensor, some with extents and strides of their own. No heap.
#[derive(Debug, Default)]
pub struct Bindings<'a> {
    slots: [Option<Binding<'a>>; MAX_BINDINGS],
    len: usize,
    in_use: Cell<bool>,
}

/// Bindings during one execute.
pub(crate) struct Use<'b>(&'b Cell<bool>);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Memory bound to a tensor.
#[derive(Debug)]
pub(crate) struct Binding<'a> {
    pub(crate) id: TensorId,
    pub(crate) buffer: Buffer<'a>,
    pub(crate) geometry: Option<Geometry>,
}

impl<'a> Bindings<'a> {
    /// Nothing bound.
    pub fn new() -> Self {
        Self::default()
    }

    /// These tensors bound to these buffers; of two for one tensor the later one counts.
    ///
    /// # Errors
    ///
    /// [`BindingError::TooMany`] past [`MAX_BINDINGS`] tensors.
    pub fn of(
        buffers: impl IntoIterator<Item = (TensorId, Buffer<'a>)>,
    ) -> Result<Self, BindingError> {
        let mut bindings = Self::new();
        buffers.into_iter().try_for_each(|(id, buffer)| bindings.bind(id, buffer))?;
        Ok(bindings)
    }

    /// Binds a tensor, replacing what was bound to it.
    ///
    /// # Errors
    ///
    /// [`BindingError::TooMany`] past [`MAX_BINDINGS`] tensors.
    pub fn bind(&mut self, id: TensorId, buffer: Buffer<'a>) -> Result<(), BindingError> {
        self.insert(Binding { id, buffer, geometry: None })
    }

    /// Binds a tensor with other extents and strides than declared, for plans with
    /// [`OverrideRules`](crate::OverrideRules). Extents may shrink, never grow; heads, head dims
    /// and page sizes stay.
    ///
    /// # Errors
    ///
    /// [`BindingError::TooMany`] past [`MAX_BINDINGS`] tensors.
    pub fn bind_as(
        &mut self,
        id: TensorId,
        buffer: Buffer<'a>,
        geometry: Geometry,
    ) -> Result<(), BindingError> {
        self.insert(Binding { id, buffer, geometry: Some(geometry) })
    }

    /// Asks the device whether every buffer is what it claims to be: within one allocation of that
    /// device. For debugging, since it asks the driver once a tensor, and `execute` does not.
    ///
    /// The host keeps no account of its memory, so there the device alone is compared.
    ///
    /// # Errors
    ///
    /// [`BindingError::Buffer`] naming the first tensor; [`Error::Driver`] where the device cannot
    /// be asked.
    pub fn verify(&self, device: &Device) -> Result<(), Error> {
        for binding in self.iter() {
            let verdict = binding.buffer.verify(device)?;
            verdict.map_err(|error| BindingError::Buffer { id: binding.id, error })?;
        }
        Ok(())
    }

    fn insert(&mut self, binding: Binding<'a>) -> Result<(), BindingError> {
        let taken = &mut self.slots[..self.len];
        if let Some(slot) = taken.iter_mut().flatten().find(|slot| slot.id == binding.id) {
            *slot = binding;
            return Ok(());
        }
        let id = binding.id;
        let slot = self.slots.get_mut(self.len).ok_or(BindingError::TooMany { id })?;
        *slot = Some(binding);
        self.len += 1;
        Ok(())
    }

    /// Marks the bindings as used until the result is dropped. Types keep them on one thread, but a
    /// thread that waits in a pool may be lent to a job that comes back to them.
    pub(crate) fn start_use(&self) -> Result<Use<'_>, BindingError> {
        if self.in_use.replace(true) { Err(BindingError::InUse) } else { Ok(Use(&self.in_use)) }
    }

    pub(crate) fn get(&self, id: TensorId) -> Option<&Binding<'a>> {
        self.iter().find(|binding| binding.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Binding<'a>> {
        self.slots[..self.len].iter().flatten()
    }
}

/// Why a binding does not fit a plan. Nothing was launched and nothing written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// More tensors than a call can have.
    #[error("tensor {id}: at most {MAX_BINDINGS} tensors can be bound")]
    TooMany {
        /// The first one past the limit.
        id: TensorId,
    },
    /// An execute over the same bindings has not returned yet.
    #[error("the bindings are in use by an execute that has not returned")]
    InUse,
    /// The plan needs a tensor that is not bound.
    #[error("tensor `{tensor}` ({id}) is not bound")]
    Missing {
        /// Name of the tensor.
        tensor: String,
        /// Its id.
        id: TensorId,
    },
    /// A tensor is bound that the plan does not know.
    #[error("tensor {id} is bound, but the plan has no such tensor")]
    Unknown {
        /// The id bound.
        id: TensorId,
    },
    /// Memory of another device than the plan's.
    #[error("tensor `{tensor}` lies on {found}, the plan runs on {need}")]
    Device {
        /// Name of the tensor.
        tensor: String,
        /// Where the memory is.
        found: DeviceId,
        /// Where it must be.
        need: DeviceId,
    },
    /// Memory whose producer gives another element type.
    #[error("tensor `{tensor}` is bound to {found} memory, declared {need}")]
    DType {
        /// Name of the tensor.
        tensor: String,
        /// Type of the memory.
        found: DType,
        /// Type declared.
        need: DType,
    },
    /// Memory smaller than what the extents and strides reach.
    #[error("tensor `{tensor}` {geometry} spans {need} bytes, the buffer has {found}")]
    TooShort {
        /// Name of the tensor.
        tensor: String,
        /// Extents and strides, overridden where they are.
        geometry: Geometry,
        /// Bytes of the buffer.
        found: u64,
        /// Bytes spanned.
        need: u64,
    },
    /// An address that memory of this size cannot have: null, or wrapping around.
    #[error("tensor `{tensor}` is bound to {bytes} bytes at {addr:#x}, which cannot be")]
    Address {
        /// Name of the tensor.
        tensor: String,
        /// The address.
        addr: u64,
        /// The size.
        bytes: u64,
    },
    /// A buffer that is not what it claims to be, as [`Bindings::verify`] has found.
    #[error("tensor {id}: {error}")]
    Buffer {
        /// The tensor.
        id: TensorId,
        /// What is wrong.
        error: BufferError,
    },
    /// An address that is not aligned as declared.
    #[error("tensor `{tensor}` is bound at {addr:#x}, declared as aligned to {need} bytes")]
    Misaligned {
        /// Name of the tensor.
        tensor: String,
        /// The address.
        addr: u64,
        /// The alignment declared.
        need: u32,
    },
    /// An output bound to memory that may only be read.
    #[error("tensor `{tensor}` is an output, the buffer may only be read")]
    ReadOnly {
        /// Name of the tensor.
        tensor: String,
    },
    /// An output that may share an address with another tensor.
    #[error("output `{tensor}` shares memory with `{other}`")]
    Overlap {
        /// Name of the output.
        tensor: String,
        /// Name of the other tensor.
        other: String,
    },
    /// A stream of another kind of device.
    #[error("the stream is {found}, the plan runs on {need}")]
    Stream {
        /// What the stream is.
        found: &'static str,
        /// The device of the plan.
        need: DeviceId,
    },
    /// Other extents and strides for a plan that takes none.
    #[error("tensor `{tensor}` is overridden, the plan takes no overrides")]
    OverridesNotTaken {
        /// Name of the tensor.
        tensor: String,
    },
    /// An extent that an override may not have.
    #[error("tensor `{tensor}` axis {axis} is overridden to {found}, declared {declared}: {rule}")]
    OverrideExtent {
        /// Name of the tensor.
        tensor: String,
        /// Position of the axis.
        axis: usize,
        /// Extent given.
        found: u64,
        /// Extent declared.
        declared: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// A rank that an override may not have.
    #[error("tensor `{tensor}` is overridden with rank {found}, declared {declared}")]
    OverrideRank {
        /// Name of the tensor.
        tensor: String,
        /// Rank given.
        found: usize,
        /// Rank declared.
        declared: usize,
    },
    /// A stride that the plan's rules do not take.
    #[error("tensor `{tensor}` axis {axis} is overridden to stride {found}: {rule}")]
    OverrideStride {
        /// Name of the tensor.
        tensor: String,
        /// Position of the axis.
        axis: usize,
        /// Stride given, in elements.
        found: u64,
        /// What is taken.
        rule: &'static str,
    },
    /// Overrides that contradict one another or the tensors left as declared.
    #[error("overrides: {0}")]
    OverridesDisagree(InvalidGraph),
}

/// Why a workspace does not fit a plan. Nothing was launched and nothing written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// Missing, or too few bytes.
    #[error("the workspace has {found} bytes, the plan needs {need}")]
    TooShort {
        /// Bytes given.
        found: u64,
        /// Bytes needed.
        need: u64,
    },
    /// An address that memory of this size cannot have: null, or wrapping around.
    #[error("the workspace has {bytes} bytes at {addr:#x}, which cannot be")]
    Address {
        /// The address.
        addr: u64,
        /// The size.
        bytes: u64,
    },
    /// An address that is not aligned.
    #[error("the workspace is at {addr:#x}, {need}-byte alignment is needed")]
    Misaligned {
        /// The address.
        addr: u64,
        /// The alignment needed.
        need: u64,
    },
    /// Memory of another device than the plan's.
    #[error("the workspace lies on {found}, the plan runs on {need}")]
    Device {
        /// Where the memory is.
        found: DeviceId,
        /// Where it must be.
        need: DeviceId,
    },
    /// It is not what it claims to be, as [`Workspace::verify`](crate::Workspace::verify) has found.
    #[error("the workspace: {0}")]
    Buffer(BufferError),
    /// Memory that may only be read.
    #[error("the workspace may only be read")]
    ReadOnly,
    /// Memory that is also a tensor's.
    #[error("the workspace shares memory with `{tensor}`")]
    Overlap {
        /// Name of the tensor.
        tensor: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_buffers_for_one_tensor_the_later_one_counts() {
        let (first, second) = ([0.0_f32; 1], [0.0_f32; 2]);
        let buffers = [(TensorId(3), first.as_slice()), (TensorId(3), second.as_slice())];
        let bindings = Bindings::of(buffers.map(|(id, slice)| (id, Buffer::from_slice(slice))));
        let bound: Vec<u64> =
            bindings.iter().flat_map(Bindings::iter).map(|b| b.buffer.bytes()).collect();
        assert_eq!(bound, [8]);
    }

    #[test]
    fn more_tensors_than_a_call_can_have_are_refused_by_the_first_one_too_many() {
        let ids = (0..40).map(TensorId);
        let error = Bindings::of(ids.map(|id| (id, Buffer::empty(DeviceId::Host)))).unwrap_err();
        assert_eq!(error, BindingError::TooMany { id: TensorId(32) });
    }
}
