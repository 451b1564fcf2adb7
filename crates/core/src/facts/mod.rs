//! Facts: what every engine is told of a graph. Read once, for all of them.

mod feature;
mod ports;
mod role;
mod sdpa_fwd;

pub use feature::{Feature, FeatureSet};
pub use ports::{Port, Ports};
pub use role::Role;
pub use sdpa_fwd::{SdpaFwdFacts, SdpaFwdShape, SideFacts, SideShape};

use crate::graph::Operation;
use crate::{Graph, InvalidGraph, Node};

/// What a graph asks for, by family of operations.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Facts {
    /// Attention forward.
    SdpaFwd(SdpaFwdFacts),
}

impl Facts {
    /// Reads a graph.
    ///
    /// # Errors
    ///
    /// [`InvalidGraph::TooManyOperations`]: no family expresses more than one operation yet.
    pub fn read(graph: &Graph) -> Result<Self, InvalidGraph> {
        match graph.nodes() {
            [Node::SdpaFwd(op)] => Ok(Self::SdpaFwd(SdpaFwdFacts::read(op, graph)?)),
            nodes => Err(InvalidGraph::TooManyOperations { count: nodes.len() }),
        }
    }

    /// Name of the operation, the first half of engine names.
    pub fn op_name(&self) -> &'static str {
        match self {
            Self::SdpaFwd(facts) => facts.op().op_name(),
        }
    }

    /// The features that an engine must name to be asked at all.
    pub fn features(&self) -> FeatureSet {
        match self {
            Self::SdpaFwd(facts) => facts.features,
        }
    }

    /// Demands a feature beyond those that the graph uses, so that only engines which name it
    /// answer yes.
    #[must_use]
    pub fn demanding(mut self, feature: Feature) -> Self {
        match &mut self {
            Self::SdpaFwd(facts) => facts.features = facts.features.with(feature),
        }
        self
    }

    /// The tensors to bind.
    pub fn ports(&self) -> &Ports {
        match self {
            Self::SdpaFwd(facts) => &facts.ports,
        }
    }

    /// Whether other extents and strides may be given at execute.
    pub fn is_overridable(&self) -> bool {
        match self {
            Self::SdpaFwd(facts) => facts.overridable,
        }
    }
}
