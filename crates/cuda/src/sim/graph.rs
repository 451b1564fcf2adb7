//! Graphs: what a capture recorded, kept as values, and replayed in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use super::capture::Fate;
use super::code::{Code, Outcome};
use super::misuse::Misuse;
use crate::{FunctionHandle, GraphExecHandle, GraphHandle, GraphNode, LaunchShape, NodeKind};

/// Work of a stream, with all that it needs but the memory it points to.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A launch; the parameters are those of the time of the call.
    Kernel { function: FunctionHandle, kernel: Arc<str>, shape: LaunchShape, params: Arc<[u8]> },
    /// A fill.
    Fill { address: u64, value: u8, bytes: u64 },
}

/// Live graphs and the executables made from them. Both share the work, which nothing changes, so
/// that each outlives the other.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    graphs: BTreeMap<u64, Arc<[Work]>>,
    execs: BTreeMap<u64, Arc<[Work]>>,
}

impl State {
    pub(super) fn new_graph(&mut self, work: Vec<Work>) -> Outcome<GraphHandle> {
        let handle = super::new_handle();
        self.graphs.graphs.insert(handle, work.into());
        GraphHandle::from_raw(handle).ok_or(Code::INVALID_VALUE)
    }

    pub(super) fn graph_nodes(&mut self, graph: GraphHandle) -> Outcome<Vec<GraphNode>> {
        let node = |work: &Work| match work {
            Work::Kernel { kernel, .. } => {
                GraphNode { kind: NodeKind::Kernel, kernel: Some(kernel.to_string()) }
            }
            Work::Fill { .. } => GraphNode { kind: NodeKind::Memset, kernel: None },
        };
        Ok(self.graph(graph)?.iter().map(node).collect())
    }

    fn graph(&mut self, graph: GraphHandle) -> Outcome<Arc<[Work]>> {
        match self.graphs.graphs.get(&graph.raw()) {
            Some(work) => Ok(Arc::clone(work)),
            None => Err(self.dead("graph", graph.raw())),
        }
    }

    pub(super) fn graph_instantiate(&mut self, graph: GraphHandle) -> Outcome<GraphExecHandle> {
        self.unsafe_under_capture()?;
        let work = self.graph(graph)?;
        self.all_loaded(&work)?;
        let handle = super::new_handle();
        self.graphs.execs.insert(handle, work);
        GraphExecHandle::from_raw(handle).ok_or(Code::INVALID_VALUE)
    }

    pub(super) fn graph_launch(&mut self, exec: GraphExecHandle, stream: u64) -> Outcome<()> {
        let Some(work) = self.graphs.execs.get(&exec.raw()).cloned() else {
            return Err(self.dead("executable graph", exec.raw()));
        };
        let stream = self.stream(stream)?;
        match self.fate(stream)? {
            Fate::Record(capture) => Err(self.forbid_in_capture(capture)),
            Fate::Run => {
                self.all_loaded(&work)?;
                work.iter().for_each(|work| self.run(work));
                Ok(())
            }
        }
    }

    pub(super) fn graph_exec_destroy(&mut self, exec: GraphExecHandle) -> Outcome<()> {
        self.unsafe_under_capture()?;
        let removed = self.graphs.execs.remove(&exec.raw());
        removed.map(drop).ok_or_else(|| self.dead("executable graph", exec.raw()))
    }

    pub(super) fn graph_destroy(&mut self, graph: GraphHandle) -> Outcome<()> {
        let removed = self.graphs.graphs.remove(&graph.raw());
        removed.map(drop).ok_or_else(|| self.dead("graph", graph.raw()))
    }

    /// Runs or records work that was checked.
    pub(super) fn put(&mut self, stream: u64, work: Work) -> Outcome<()> {
        let stream = self.stream(stream)?;
        match self.fate(stream)? {
            Fate::Record(_) => self.record(stream, work),
            Fate::Run => self.run(&work),
        }
        Ok(())
    }

    /// Runs work, unless an earlier fault has stopped the context.
    fn run(&mut self, work: &Work) {
        if self.fault.is_some() {
            return;
        }
        match work {
            Work::Kernel { function, kernel, shape, params } => {
                self.run_kernel(*function, kernel, shape, params);
            }
            Work::Fill { address, value, bytes } => {
                if self.machine.fill(*address, *value, *bytes).is_err() {
                    let (address, bytes) = (*address, *bytes);
                    self.misused(Misuse::DeadFill { address, bytes });
                    self.fault = Some(super::Fault { code: Code::ILLEGAL_ADDRESS, seen: false });
                }
            }
        }
    }

    /// Whether every kernel's module is still loaded: on a GPU the launch of another is undefined.
    fn all_loaded(&mut self, work: &[Work]) -> Outcome<()> {
        for work in work {
            match work {
                Work::Kernel { function, kernel, .. } if !self.modules.has(*function) => {
                    let kernel = kernel.to_string();
                    return Err(self.misused(Misuse::UnloadedKernel { kernel }));
                }
                Work::Kernel { .. } | Work::Fill { .. } => {}
            }
        }
        Ok(())
    }
}
