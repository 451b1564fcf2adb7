//! Graphs, from a capture to a replay.

use std::sync::Arc;

use frazil_cuda::{CaptureMode, Driver, DriverCalls, GraphHandle, GraphNode, NodeKind};

use super::{ADD, SHAPE, add_params, call, load, load_u32, store_u32};

/// The graph of what `body` puts on the stream.
fn capture(driver: &Driver, stream: u64, body: impl FnOnce()) -> GraphHandle {
    call!(driver, stream_begin_capture(stream, CaptureMode::Global)).unwrap();
    body();
    call!(driver, stream_end_capture(stream)).unwrap()
}

fn kernel(name: &str) -> GraphNode {
    GraphNode { kind: NodeKind::Kernel, kernel: Some(name.into()) }
}

fn node(kind: NodeKind) -> GraphNode {
    GraphNode { kind, kernel: None }
}

pub(crate) fn replays(driver: &Arc<Driver>) {
    let [stream, other] = [(); 2].map(|()| driver.stream_create().unwrap());
    let (module, function) = load(driver, ADD);
    let at = driver.mem_alloc(8).unwrap();
    store_u32(driver, at, 100, stream);
    let params = add_params(at, 5);
    let add = || call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params)).unwrap();
    let graph = capture(driver, stream, || {
        add();
        call!(driver, memset_d8_async(at + 4, 0, 4, stream)).unwrap();
        add();
    });
    assert_eq!(load_u32(driver, at, stream), 100, "what is captured does not run");
    let nodes = call!(driver, graph_get_nodes(graph)).unwrap();
    assert_eq!(nodes, [kernel(ADD), node(NodeKind::Memset), kernel(ADD)]);

    let exec = call!(driver, graph_instantiate(graph)).unwrap();
    call!(driver, graph_destroy(graph)).unwrap();
    call!(driver, graph_launch(exec, stream)).unwrap();
    assert_eq!(load_u32(driver, at, stream), 110, "an executable outlives its graph");
    // On another stream, with memory changed in place.
    store_u32(driver, at, 1000, other);
    call!(driver, graph_launch(exec, other)).unwrap();
    assert_eq!(load_u32(driver, at, other), 1010);

    let empty = capture(driver, stream, || ());
    assert_eq!(call!(driver, graph_get_nodes(empty)).unwrap(), []);
    let empty_exec = call!(driver, graph_instantiate(empty)).unwrap();
    call!(driver, graph_launch(empty_exec, stream)).unwrap();
    call!(driver, stream_synchronize(stream)).unwrap();

    call!(driver, graph_exec_destroy(empty_exec)).unwrap();
    call!(driver, graph_destroy(empty)).unwrap();
    call!(driver, graph_exec_destroy(exec)).unwrap();
    call!(driver, mem_free(at)).unwrap();
    call!(driver, module_unload(module)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    call!(driver, stream_destroy(other)).unwrap();
}

pub(crate) fn children(driver: &Arc<Driver>) {
    let stream = driver.stream_create().unwrap();
    let (module, function) = load(driver, ADD);
    let at = driver.mem_alloc(4).unwrap();
    let params = add_params(at, 3);
    let add = || call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params)).unwrap();
    let child = capture(driver, stream, add);
    let child_exec = call!(driver, graph_instantiate(child)).unwrap();
    let parent = capture(driver, stream, || {
        add();
        call!(driver, graph_launch(child_exec, stream)).unwrap();
    });
    let nodes = call!(driver, graph_get_nodes(parent)).unwrap();
    assert_eq!(nodes, [kernel(ADD), node(NodeKind::ChildGraph)]);
    let exec = call!(driver, graph_instantiate(parent)).unwrap();
    // The parent has copied the child.
    call!(driver, graph_exec_destroy(child_exec)).unwrap();
    call!(driver, graph_destroy(child)).unwrap();
    store_u32(driver, at, 0, stream);
    call!(driver, graph_launch(exec, stream)).unwrap();
    assert_eq!(load_u32(driver, at, stream), 6);

    call!(driver, graph_exec_destroy(exec)).unwrap();
    call!(driver, graph_destroy(parent)).unwrap();
    call!(driver, mem_free(at)).unwrap();
    call!(driver, module_unload(module)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
}

pub(crate) fn parameters(driver: &Arc<Driver>) {
    let stream = driver.stream_create().unwrap();
    let (module, function) = load(driver, ADD);
    let at = driver.mem_alloc(4).unwrap();
    let mut params = add_params(at, 7);
    let graph = capture(driver, stream, || {
        call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params)).unwrap();
        params.fill(0xff);
    });
    let exec = call!(driver, graph_instantiate(graph)).unwrap();
    store_u32(driver, at, 0, stream);
    for launches in 1..=3 {
        call!(driver, graph_launch(exec, stream)).unwrap();
        assert_eq!(load_u32(driver, at, stream), 7 * launches);
    }
    call!(driver, graph_exec_destroy(exec)).unwrap();
    call!(driver, graph_destroy(graph)).unwrap();
    call!(driver, mem_free(at)).unwrap();
    call!(driver, module_unload(module)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
}
