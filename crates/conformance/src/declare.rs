//! From a case to the graph that it asks about.

use std::sync::Arc;

use frazil_core::{DType, Facts, Geometry, Graph, InvalidGraph, Role, TensorId};

use crate::case::Case;

/// Why a case cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The graph means nothing: an answer, for cases that ask for it.
    #[error(transparent)]
    Graph(#[from] InvalidGraph),
    /// The case contradicts itself: names case, field and value.
    #[error("{0}")]
    Case(String),
}

/// A case as a graph, with what is needed to bind it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Declared {
    /// The graph.
    pub graph: Graph,
    /// Its facts.
    pub facts: Arc<Facts>,
    /// Every tensor, once.
    pub tensors: Vec<DeclaredTensor>,
}

/// A tensor of a case: what to bind and where it lies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeclaredTensor {
    /// Its key in bindings.
    pub id: TensorId,
    /// What it is for; a table of both K and V counts as K's.
    pub role: Role,
    /// Type of its elements.
    pub dtype: DType,
    /// Extents and strides to run with.
    pub geometry: Geometry,
    /// Whether `geometry` overrides the declaration and must be bound with it.
    pub overridden: bool,
    /// Name of the buffer it lies in; roles with a buffer of their own give it their name.
    pub buffer: String,
    /// From the start of the buffer, in bytes.
    pub offset_bytes: u64,
}

/// Declares the graph of a case.
///
/// # Errors
///
/// [`CaseError::Graph`] when core refuses the graph; [`CaseError::Case`] when the case contradicts
/// itself.
pub fn declare(case: &Case) -> Result<Declared, CaseError> {
    Err(CaseError::Case(format!("{}: not written yet", case.name)))
}
