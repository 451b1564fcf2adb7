//! The graph: what a caller declares. Frozen once finished, and meaningful from then on.

mod check;
mod sdpa_fwd;

use enum_dispatch::enum_dispatch;

pub(crate) use check::{TensorRef, Tensors, check_sdpa_fwd};
pub use sdpa_fwd::{
    Align, Band, BlockMask, Dropout, LengthBounds, LseForm, SdpaFwd, Sequences, Storage,
    alibi_slopes,
};

use crate::{InvalidGraph, MAX_BINDINGS, Role, TensorDesc, TensorId, TensorSpec};

/// What every operation can be asked, whichever it is.
#[enum_dispatch]
pub(crate) trait Operation {
    /// Name used in messages and as the first half of engine names.
    fn op_name(&self) -> &'static str;
    /// Calls `visit` for each tensor that the operation reads or writes, with its role there.
    fn for_each_tensor(&self, visit: &mut dyn FnMut(Role, TensorId));
}

/// An operation of a graph. Holds only operations that some engine serves.
#[derive(Clone, Debug, PartialEq)]
#[enum_dispatch(Operation)]
#[non_exhaustive]
pub enum Node {
    /// Attention forward.
    SdpaFwd(SdpaFwd),
}

/// Collects tensors and operations, refusing at once what means nothing.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    graph: Graph,
}

/// Tensors and operations that agree with one another. Made by [`GraphBuilder::finish`] alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    tensors: Vec<TensorDesc>,
    nodes: Vec<Node>,
    overridable: bool,
}

impl Default for GraphBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl GraphBuilder {
    /// A graph with nothing in it.
    pub fn new() -> Self {
        Self { graph: Graph { tensors: Vec::new(), nodes: Vec::new(), overridable: false } }
    }

    /// Declares a tensor and gives its id.
    ///
    /// # Errors
    ///
    /// [`InvalidGraph`] when extents, strides or alignment describe no tensor, when the id is taken
    /// or when there are too many tensors.
    pub fn tensor(&mut self, spec: TensorSpec) -> Result<TensorId, InvalidGraph> {
        let TensorSpec { id, name: tensor, dtype, geometry, align } = spec;
        let geometry = match geometry {
            Ok(geometry) => geometry,
            Err(source) => return Err(InvalidGraph::Geometry { tensor, source }),
        };
        if !align.is_power_of_two() || u64::from(align) < dtype.bytes() {
            return Err(InvalidGraph::Align { tensor, align, least: dtype.bytes() });
        }
        if self.graph.tensors.len() == MAX_BINDINGS {
            return Err(InvalidGraph::TooManyTensors { tensor });
        }
        let id = id.unwrap_or_else(|| self.lowest_free_id());
        if let Some(holder) = self.graph.tensor(id) {
            return Err(InvalidGraph::DuplicateId { tensor, id, holder: holder.name.clone() });
        }
        self.graph.tensors.push(TensorDesc { id, name: tensor, dtype, geometry, align });
        Ok(id)
    }

    fn lowest_free_id(&self) -> TensorId {
        let mut id = TensorId(0);
        while self.graph.tensor(id).is_some() {
            id.0 += 1;
        }
        id
    }

    /// Adds attention forward.
    ///
    /// # Errors
    ///
    /// [`InvalidGraph`] when its tensors or numbers contradict one another.
    pub fn sdpa_fwd(&mut self, op: SdpaFwd) -> Result<(), InvalidGraph> {
        check::declare_sdpa_fwd(&op, &self.graph)?;
        self.graph.nodes.push(Node::SdpaFwd(op));
        Ok(())
    }

    /// Asks for plans that take other extents and strides at execute
    /// ([`Geometry`](crate::Geometry) overrides); plans that cannot are filtered out.
    pub fn overridable(&mut self) {
        self.graph.overridable = true;
    }

    /// Freezes the graph.
    ///
    /// # Errors
    ///
    /// [`InvalidGraph::NoOperation`] and [`InvalidGraph::UnusedTensor`].
    pub fn finish(self) -> Result<Graph, InvalidGraph> {
        if self.graph.nodes.is_empty() {
            return Err(InvalidGraph::NoOperation);
        }
        let mut used = [false; MAX_BINDINGS];
        for node in &self.graph.nodes {
            node.for_each_tensor(&mut |_, id| {
                if let Some(at) = self.graph.tensors.iter().position(|tensor| tensor.id == id) {
                    used[at] = true;
                }
            });
        }
        match self.graph.tensors.iter().zip(used).find(|&(_, used)| !used) {
            Some((tensor, _)) => Err(InvalidGraph::UnusedTensor { tensor: tensor.name.clone() }),
            None => Ok(self.graph),
        }
    }
}

impl Graph {
    /// Tensors in the order of their declaration.
    pub fn tensors(&self) -> &[TensorDesc] {
        &self.tensors
    }

    /// Operations in the order they were added.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether other extents and strides may be given at execute.
    pub fn is_overridable(&self) -> bool {
        self.overridable
    }

    pub(crate) fn tensor(&self, id: TensorId) -> Option<&TensorDesc> {
        self.tensors.iter().find(|tensor| tensor.id == id)
    }
}

impl Tensors for Graph {
    fn tensor(&self, id: TensorId) -> Option<TensorRef<'_>> {
        Self::tensor(self, id).map(|desc| TensorRef {
            name: &desc.name,
            dtype: desc.dtype,
            geometry: desc.geometry,
        })
    }
}

impl Operation for SdpaFwd {
    fn op_name(&self) -> &'static str {
        "sdpa_fwd"
    }

    fn for_each_tensor(&self, visit: &mut dyn FnMut(Role, TensorId)) {
        let mut some = |role, id: Option<TensorId>| {
            if let Some(id) = id {
                visit(role, id);
            }
        };
        some(Role::Q, Some(self.q));
        some(Role::K, Some(self.k));
        some(Role::V, Some(self.v));
        some(Role::O, Some(self.o));
        for (side, storage) in [(Side::Q, self.q_storage), (Side::Kv, self.kv_storage)] {
            let (lengths, prefix, starts) = side.roles();
            match storage {
                Storage::Dense => {}
                Storage::Padded { lengths: id, .. }
                | Storage::Packed { sequences: Sequences::Lengths(id), .. } => {
                    some(lengths, Some(id));
                }
                Storage::Packed { sequences: Sequences::Prefix(id), .. } => some(prefix, Some(id)),
                Storage::Packed {
                    sequences: Sequences::Starts { starts: first, lengths: id },
                    ..
                } => {
                    some(starts, Some(first));
                    some(lengths, Some(id));
                }
                Storage::Paged { table_k, table_v, lengths: id, .. } => {
                    some(Role::TableK, Some(table_k));
                    some(Role::TableV, Some(table_v));
                    some(lengths, Some(id));
                }
            }
        }
        some(Role::Bias, self.bias);
        some(Role::AlibiSlopes, self.alibi_slopes);
        some(Role::Sink, self.sink);
        some(Role::BlockMask, self.block_mask.map(|mask| mask.bits));
        some(Role::DropoutSeed, self.dropout.map(|dropout| dropout.seed));
        some(Role::DropoutOffset, self.dropout.map(|dropout| dropout.offset));
        some(Role::Lse, self.lse.map(|(id, _)| id));
        some(Role::Max, self.max);
        some(Role::SumExp, self.sum_exp);
    }
}

/// One of the two sides of attention that have rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Q,
    Kv,
}

impl Side {
    /// Roles of this side's lengths, prefix and starts.
    pub(crate) fn roles(self) -> (Role, Role, Role) {
        match self {
            Self::Q => (Role::QLengths, Role::QPrefix, Role::QStarts),
            Self::Kv => (Role::KvLengths, Role::KvPrefix, Role::KvStarts),
        }
    }
}
