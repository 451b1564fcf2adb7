//! Graphs that mean nothing.

use crate::{DType, Geometry, GeometryError, MAX_BINDINGS, TensorId};

/// Why a graph is refused: it contradicts itself, whoever would run it.
///
/// Every variant names the operation or tensor, what came, and the limit. Tests match variants,
/// never text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidGraph {
    /// Extents and strides that describe no tensor.
    #[error("tensor `{tensor}`: {source}")]
    Geometry {
        /// Name of the tensor.
        tensor: String,
        /// What is wrong with them.
        source: GeometryError,
    },
    /// An alignment that is not a power of two or smaller than an element.
    #[error("tensor `{tensor}`: alignment {align} is not a power of two of at least {least} bytes")]
    Align {
        /// Name of the tensor.
        tensor: String,
        /// What was given, in bytes.
        align: u32,
        /// Size of an element, in bytes.
        least: u64,
    },
    /// Two tensors of one id.
    #[error("tensor `{tensor}`: id {id} is taken by tensor `{holder}`")]
    DuplicateId {
        /// Name of the later tensor.
        tensor: String,
        /// The id.
        id: TensorId,
        /// Name of the earlier tensor.
        holder: String,
    },
    /// More tensors than bindings can hold.
    #[error("tensor `{tensor}`: a graph holds at most {MAX_BINDINGS} tensors")]
    TooManyTensors {
        /// Name of the first tensor past the limit.
        tensor: String,
    },
    /// An operation names a tensor that was not declared.
    #[error("{op}: {role} is {id}, which no tensor of this graph has")]
    UnknownTensor {
        /// Operation.
        op: &'static str,
        /// What the tensor is for.
        role: &'static str,
        /// The id given.
        id: TensorId,
    },
    /// A tensor that no operation reads or writes.
    #[error("tensor `{tensor}` is used by no operation")]
    UnusedTensor {
        /// Name of the tensor.
        tensor: String,
    },
    /// A graph with nothing to do.
    #[error("the graph has no operation")]
    NoOperation,
    /// A graph that no family of facts can express.
    #[error("the graph has {count} operations; one is the limit")]
    TooManyOperations {
        /// Operations in the graph.
        count: usize,
    },
    /// A tensor with the wrong number of axes.
    #[error("{op}: `{tensor}` has rank {found}, expected {expected}")]
    Rank {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Its rank.
        found: usize,
        /// The axes that belong there.
        expected: &'static str,
    },
    /// A tensor of a type that cannot stand in its place.
    #[error("{op}: `{tensor}` is {found}, expected {expected}")]
    DType {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Its type.
        found: DType,
        /// The types that belong there.
        expected: &'static str,
    },
    /// An extent that must be at least 1.
    #[error("{op}: `{tensor}` has {axis} = 0, the least is 1")]
    Zero {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Name of the axis.
        axis: &'static str,
    },
    /// An extent that contradicts another tensor.
    #[error("{op}: `{tensor}` has {axis} = {found}, expected {expected} ({of})")]
    Extent {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Name of the axis.
        axis: &'static str,
        /// Its extent.
        found: u64,
        /// What it must be.
        expected: u64,
        /// Where that number comes from.
        of: &'static str,
    },
    /// An extent, or a pitch, smaller than what must fit into it.
    #[error("{op}: `{tensor}` has {axis} = {found}, at least {least} is needed ({of})")]
    TooSmall {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Name of the axis, or `head pitch`.
        axis: &'static str,
        /// What it is.
        found: u64,
        /// What must fit.
        least: u64,
        /// Where that number comes from.
        of: &'static str,
    },
    /// Query heads that do not divide among the key heads.
    #[error("{op}: num_q_heads = {num_q_heads} is not a multiple of num_kv_heads = {num_kv_heads}")]
    HeadGroups {
        /// Operation.
        op: &'static str,
        /// Heads of Q.
        num_q_heads: u64,
        /// Heads of K and V.
        num_kv_heads: u64,
    },
    /// A number outside its range.
    #[error("{op}: {what} = {value}, expected {expected}")]
    Value {
        /// Operation.
        op: &'static str,
        /// Name of the number.
        what: &'static str,
        /// What was given.
        value: f32,
        /// Its range.
        expected: &'static str,
    },
    /// A host bound that contradicts an extent or another bound.
    #[error("{op}: {what} = {value}, the limit is {limit} ({of})")]
    Bound {
        /// Operation.
        op: &'static str,
        /// Name of the bound.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What it may reach.
        limit: u64,
        /// Where the limit comes from.
        of: &'static str,
    },
    /// A storage form on a side that cannot have it.
    #[error("{op}: {side} cannot be {storage}: {reason}")]
    Storage {
        /// Operation.
        op: &'static str,
        /// `q` or `kv`.
        side: &'static str,
        /// Name of the form.
        storage: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// An output in which two indices name one element.
    #[error("{op}: output `{tensor}` {geometry} may write one element twice")]
    OutputOverlapsItself {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Its extents and strides.
        geometry: Geometry,
    },
    /// An output that is also something else.
    #[error("{op}: `{tensor}` is output {role} and also {other}")]
    OutputShared {
        /// Operation.
        op: &'static str,
        /// Name of the tensor.
        tensor: String,
        /// Its role as an output.
        role: &'static str,
        /// The other role.
        other: &'static str,
    },
}
