//! What stands in a graph.

use std::ffi::{CStr, c_char};

use super::super::layout::{GraphEdgeData, KernelNodeParams};
use super::super::order::in_order;
use super::super::{DriverError, GraphHandle, GraphNode, NodeKind, Result};
use super::{RealDriver, check};

impl RealDriver {
    /// Nodes of a graph, each after those it depends on.
    ///
    /// # Safety
    ///
    /// The graph is live.
    pub(super) unsafe fn nodes_in_order(&self, graph: GraphHandle) -> Result<Vec<GraphNode>> {
        const CALL: &str = "cuGraphGetNodes";
        let get_nodes = self.table.cuGraphGetNodes;
        let mut count = 0;
        let none = std::ptr::null_mut();
        // SAFETY: the caller's promise that the graph lives; with no place for nodes, their number
        // alone is written.
        check(CALL, unsafe { get_nodes(graph.raw(), none, &raw mut count) })?;
        // Room for none is refused (CUDA_ERROR_INVALID_VALUE on driver 580).
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut nodes = vec![0; count];
        let into = nodes.as_mut_ptr();
        // SAFETY: as above; the array has room for the number of nodes that is passed.
        check(CALL, unsafe { get_nodes(graph.raw(), into, &raw mut count) })?;
        nodes.truncate(count);
        // SAFETY: the caller's promise that the graph lives.
        let edges = unsafe { self.edges(graph) }?;
        let nodes = in_order(&nodes, &edges).into_iter();
        // SAFETY: the nodes are the graph's, which lives.
        nodes.map(|node| unsafe { self.describe(node) }).collect()
    }

    /// # Safety
    ///
    /// The node is of a live graph.
    unsafe fn describe(&self, node: u64) -> Result<GraphNode> {
        let mut kind = 0;
        // SAFETY: the caller's promise about the node; writes to a local.
        let code = unsafe { (self.table.cuGraphNodeGetType)(node, &raw mut kind) };
        check("cuGraphNodeGetType", code)?;
        let kind = NodeKind::from_raw(kind);
        // SAFETY: the caller's promise about the node.
        let kernel_of = || unsafe { self.kernel_of(node) };
        let kernel = (kind == NodeKind::Kernel).then(kernel_of).transpose()?;
        Ok(GraphNode { kind, kernel })
    }

    /// Name of the kernel of a node.
    ///
    /// # Safety
    ///
    /// The node is a kernel node of a live graph.
    unsafe fn kernel_of(&self, node: u64) -> Result<String> {
        let mut params = KernelNodeParams::default();
        let into = &raw mut params;
        // SAFETY: the caller's promise about the node; the answer goes to a local of the layout of
        // this version of the function.
        let code = unsafe { (self.table.cuGraphKernelNodeGetParams_v2)(node, into) };
        check("cuGraphKernelNodeGetParams_v2", code)?;
        // A launch through a library's kernel names that instead of a function.
        let (call, get_name, handle) = if params.function == 0 {
            ("cuKernelGetName", self.table.cuKernelGetName, params.kernel)
        } else {
            ("cuFuncGetName", self.table.cuFuncGetName, params.function)
        };
        let get_name = needs(call, get_name)?;
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the handle comes from the node, which keeps its kernel.
        check(call, unsafe { get_name(&raw mut name, handle) })?;
        if name.is_null() {
            return Err(DriverError { call, code: DriverError::UNKNOWN });
        }
        // SAFETY: the driver gives a string that lives as long as the function.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// Edges of a graph, from and to.
    ///
    /// # Safety
    ///
    /// The graph is live.
    unsafe fn edges(&self, graph: GraphHandle) -> Result<Vec<(u64, u64)>> {
        const CALL: &str = "cuGraphGetEdges_v2";
        // The older function refuses graphs with programmatic edges.
        let get_edges = needs(CALL, self.table.cuGraphGetEdges_v2)?;
        let mut count = 0;
        let (none, data) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: with no place for edges, their number alone is written.
        check(CALL, unsafe { get_edges(graph.raw(), none, none, data, &raw mut count) })?;
        // As with nodes: a graph of one node has none.
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut from, mut to) = (vec![0; count], vec![0; count]);
        let mut data = vec![GraphEdgeData::default(); count];
        let (from_to, to_to, data_to) = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
        // SAFETY: each array has room for the number of edges that is passed.
        check(CALL, unsafe { get_edges(graph.raw(), from_to, to_to, data_to, &raw mut count) })?;
        Ok(from.into_iter().zip(to).take(count).collect())
    }
}

/// A function that younger drivers brought.
pub(super) fn needs<F>(call: &'static str, function: Option<F>) -> Result<F> {
    let code = DriverError::CALL_REQUIRES_NEWER_DRIVER;
    function.ok_or(DriverError { call, code })
}
