//! Every call while a stream is being captured.

use std::sync::Arc;

use frazil_cuda::{
    CaptureMode, DeviceAttribute, Driver, DriverCalls, DriverError, EventHandle, FunctionAttribute,
    FunctionHandle, GraphExecHandle, GraphHandle, L2Promotion, LaunchShape, ModuleHandle, Swizzle,
    TensorMapElement, TensorMapSpec,
};

use super::{ADD, Current, Differences, PTX, SHAPE, add_params, call, code, elsewhere, load};

/// What a GPU answered, with its date and driver.
const MEASURED: &str = include_str!("../data/capture-h200-2026-12-01.csv");

/// Rows of the table that are no calls of frazil's.
const NOT_CALLED: [&str; 9] = [
    "cuFuncLoad",
    "cuStreamQuery other",
    "cuEventQuery",
    "cuMemcpyHtoD",
    // Copies are made with a wait after them.
    "cuMemcpyHtoDAsync other",
    "cuMemcpyDtoHAsync other",
    "cuMemcpyHtoDAsync capturing",
    "cuMemcpyDtoHAsync capturing",
    // The driver's call for one attribute; frazil's asks for several.
    "cuPointerGetAttribute",
];

/// What was made before the capture began.
struct Made {
    driver: Arc<Driver>,
    capturing: u64,
    other: u64,
    memory: u64,
    event: EventHandle,
    module: ModuleHandle,
    function: FunctionHandle,
    graph: GraphHandle,
    exec: GraphExecHandle,
}

/// What a row made and the capture outlived.
enum Left {
    Nothing,
    Memory(u64),
    Module(ModuleHandle),
    Stream(u64),
    Capture(u64),
    Event(EventHandle),
    Exec(GraphExecHandle),
}

/// Who calls, while which capture is on.
#[derive(Clone, Copy, Debug)]
struct Column {
    capture: CaptureMode,
    /// Whether another thread than the capturing one calls.
    is_other: bool,
    /// Whether the caller has made its own mode relaxed for the call.
    is_relaxed: bool,
}

/// The columns of the table, by its header.
fn columns() -> Vec<Column> {
    let header = MEASURED.lines().find(|line| !line.starts_with('#')).unwrap();
    let column = |name: &str| {
        let mut words = name.split(' ');
        let capture = match words.next() {
            Some("global") => CaptureMode::Global,
            Some("thread_local") => CaptureMode::ThreadLocal,
            Some("relaxed") => CaptureMode::Relaxed,
            _ => panic!("a column of no mode: {name}"),
        };
        let is_other = match words.next() {
            Some("own") => false,
            Some("other") => true,
            _ => panic!("a column of no thread: {name}"),
        };
        Column { capture, is_other, is_relaxed: words.next() == Some("relaxed") }
    };
    header.split(',').skip(1).map(column).collect()
}

/// Name of each measured row, and its cells: `code of the call/code of the end:nodes`.
fn measured() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let rows = MEASURED.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|row| {
        let (name, cells) = row.split_once(',').unwrap();
        (name, cells.split(',').collect())
    })
}

type Call = fn(&Made) -> Result<Left, DriverError>;

fn nothing<T>(answer: Result<T, DriverError>) -> Result<Left, DriverError> {
    answer.map(|_| Left::Nothing)
}

/// The calls of the measured rows.
const CALLS: &[(&str, Call)] = &[
    ("cuMemAlloc", |made| made.driver.mem_alloc(64).map(Left::Memory)),
    ("cuMemFree", |made| nothing(call!(made.driver, mem_free(made.memory)))),
    ("cuModuleLoadData", |made| {
        call!(made.driver, module_load_data(PTX.as_bytes())).map(Left::Module)
    }),
    ("cuModuleGetFunction", |made| {
        nothing(call!(made.driver, module_get_function(made.module, "frazil_probe_static")))
    }),
    ("cuFuncGetAttribute", |made| {
        let attribute = FunctionAttribute::SharedSizeBytes;
        nothing(call!(made.driver, func_get_attribute(attribute, made.function)))
    }),
    ("cuFuncSetAttribute", |made| {
        let attribute = FunctionAttribute::MaxDynamicSharedSizeBytes;
        nothing(call!(made.driver, func_set_attribute(made.function, attribute, 60_000)))
    }),
    // Another module than the captured kernel's, whose node could not be described without it.
    ("cuModuleUnload", |made| {
        let module = call!(made.driver, module_load_data(PTX.as_bytes()))?;
        nothing(call!(made.driver, module_unload(module)))
    }),
    ("refused launch capturing", |made| {
        nothing(launch(made, &LaunchShape { block: [0, 1, 1], ..SHAPE }, made.capturing))
    }),
    ("cuStreamCreate", |made| made.driver.stream_create().map(Left::Stream)),
    ("cuStreamDestroy", |made| {
        let stream = made.driver.stream_create()?;
        nothing(call!(made.driver, stream_destroy(stream)))
    }),
    ("cuStreamSynchronize other", |made| {
        nothing(call!(made.driver, stream_synchronize(made.other)))
    }),
    ("cuStreamSynchronize capturing", |made| {
        nothing(call!(made.driver, stream_synchronize(made.capturing)))
    }),
    ("cuCtxSynchronize", |made| nothing(made.driver.ctx_synchronize())),
    ("cuEventCreate", |made| made.driver.event_create().map(Left::Event)),
    ("cuEventDestroy", |made| {
        let event = made.driver.event_create()?;
        nothing(call!(made.driver, event_destroy(event)))
    }),
    ("cuEventRecord other", |made| {
        nothing(call!(made.driver, event_record(made.event, made.other)))
    }),
    ("cuEventElapsedTime", |made| {
        nothing(call!(made.driver, event_elapsed_time(made.event, made.event)))
    }),
    ("cuEventSynchronize", |made| nothing(call!(made.driver, event_synchronize(made.event)))),
    ("cuMemsetD8Async other", |made| nothing(fill(made, made.other))),
    ("cuMemsetD8Async capturing", |made| nothing(fill(made, made.capturing))),
    ("launch capturing", |made| nothing(launch(made, &SHAPE, made.capturing))),
    ("launch other", |made| nothing(launch(made, &SHAPE, made.other))),
    ("launch legacy", |made| nothing(launch(made, &SHAPE, 0))),
    ("launch per-thread", |made| nothing(launch(made, &SHAPE, 2))),
    ("cuStreamGetCtx", |made| nothing(call!(made.driver, stream_get_ctx(made.capturing)))),
    ("cuStreamIsCapturing", |made| {
        nothing(call!(made.driver, stream_is_capturing(made.capturing)))
    }),
    ("cuGraphInstantiate", |made| {
        call!(made.driver, graph_instantiate(made.graph)).map(Left::Exec)
    }),
    ("cuGraphLaunch other", |made| {
        nothing(call!(made.driver, graph_launch(made.exec, made.other)))
    }),
    ("cuGraphLaunch capturing", |made| {
        nothing(call!(made.driver, graph_launch(made.exec, made.capturing)))
    }),
    ("cuGraphExecDestroy", |made| nothing(call!(made.driver, graph_exec_destroy(made.exec)))),
    ("cuGraphDestroy", |made| nothing(call!(made.driver, graph_destroy(made.graph)))),
    ("nested begin capture", |made| {
        nothing(call!(made.driver, stream_begin_capture(made.capturing, CaptureMode::Global)))
    }),
    ("begin capture legacy", |made| {
        nothing(call!(made.driver, stream_begin_capture(0, CaptureMode::Global)))
    }),
];

/// Rows that follow from a measured one: its name, a call that does the same among others.
const DERIVED: &[(&str, &str, Call)] = &[
    ("cuStreamSynchronize other", "a copy to the device and a wait on another stream", |made| {
        nothing(call!(made.driver, copy_to_device(made.memory, &[0; 4], made.other)))
    }),
    ("cuStreamSynchronize other", "a copy to the host and a wait on another stream", |made| {
        nothing(call!(made.driver, copy_to_host(&mut [0; 4], made.memory, made.other)))
    }),
    ("cuStreamSynchronize capturing", "a copy and a wait on the capturing stream", |made| {
        nothing(call!(made.driver, copy_to_device(made.memory, &[0; 4], made.capturing)))
    }),
    // `cuStreamIsCapturing`: the legacy stream may be asked beside a non-blocking capture.
    ("cuStreamIsCapturing", "the legacy stream's status", |made| {
        nothing(call!(made.driver, stream_is_capturing(0)))
    }),
    ("cuStreamGetCtx", "the legacy stream's context", |made| {
        nothing(call!(made.driver, stream_get_ctx(0)))
    }),
    ("cuPointerGetAttribute", "several attributes of a pointer", |made| {
        nothing(made.driver.pointer_get_attributes(made.memory))
    }),
];

/// Calls that the table does not have and that answer alike in every column: the code, and the nodes
/// of the graph.
const ALIKE: &[(&str, i32, usize, Call)] = &[
    ("an event recorded by the capturing stream", 0, 1, |made| {
        nothing(call!(made.driver, event_record(made.event, made.capturing)))
    }),
    ("a capture of another stream", 0, 1, |made| {
        let begun = call!(made.driver, stream_begin_capture(made.other, CaptureMode::Relaxed));
        begun.map(|()| Left::Capture(made.other))
    }),
    ("the primary context", 0, 1, |made| nothing(made.driver.primary_ctx_retain(0))),
    ("a context pushed and popped", 0, 1, |made| {
        drop(Current::new(Arc::clone(&made.driver)));
        Ok(Left::Nothing)
    }),
    ("the nodes of a graph", 0, 1, |made| nothing(call!(made.driver, graph_get_nodes(made.graph)))),
    ("a tensor map, where there are any", 0, 1, |made| {
        let major = made.driver.device_get_attribute(DeviceAttribute::ComputeCapabilityMajor, 0)?;
        if major < 9 {
            return Ok(Left::Nothing);
        }
        nothing(made.driver.tensor_map_encode_tiled(&TensorMapSpec {
            element: TensorMapElement::F32,
            address: made.memory,
            extents: &[4],
            strides_bytes: &[],
            box_extents: &[4],
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::None,
        }))
    }),
];

fn fill(made: &Made, stream: u64) -> Result<(), DriverError> {
    call!(made.driver, memset_d8_async(made.memory, 0, 64, stream))
}

fn launch(made: &Made, shape: &LaunchShape, stream: u64) -> Result<(), DriverError> {
    let params = add_params(made.memory, 1);
    call!(made.driver, launch_kernel_ex(shape, stream, made.function, &params))
}

/// Every row in every column.
pub(crate) fn calls(driver: &Arc<Driver>) {
    let mut differences = Differences::default();
    let columns = columns();
    let called = |name: &str| CALLS.iter().find(|(known, _)| *known == name);
    for (name, cells) in measured() {
        assert_eq!(cells.len(), columns.len(), "{name}");
        assert_ne!(called(name).is_some(), NOT_CALLED.contains(&name), "{name}");
        let derived = DERIVED.iter().filter(|(from, ..)| *from == name);
        let derived = derived.map(|&(_, what, call)| (what, call));
        for (what, call) in called(name).copied().into_iter().chain(derived) {
            for (column, cell) in columns.iter().zip(&cells) {
                let found = try_call(driver, *column, call);
                differences.compare(&format!("{what}, {column:?}"), found, (*cell).to_owned());
            }
        }
    }
    for &(what, code, nodes, call) in ALIKE {
        for column in &columns {
            let found = try_call(driver, *column, call);
            let what = format!("{what}, {column:?}");
            differences.compare(&what, found, format!("{code}/0:{nodes}"));
        }
    }
    differences.assert_none();
}

/// A cell of the table: code of the call, of the end of the capture, and nodes of its graph.
fn try_call(driver: &Arc<Driver>, column: Column, call: Call) -> String {
    let made = Made::new(driver);
    call!(driver, stream_begin_capture(made.capturing, column.capture)).unwrap();
    launch(&made, &SHAPE, made.capturing).unwrap();
    let call = || {
        if !column.is_relaxed {
            return call(&made);
        }
        let before = driver.thread_exchange_stream_capture_mode(CaptureMode::Relaxed).unwrap();
        let answer = call(&made);
        driver.thread_exchange_stream_capture_mode(before).unwrap();
        answer
    };
    let answer = if column.is_other { elsewhere(driver, call) } else { call() };
    let end = call!(driver, stream_end_capture(made.capturing));
    let (end, nodes) = match end {
        Ok(graph) => {
            let nodes = call!(driver, graph_get_nodes(graph)).unwrap().len();
            call!(driver, graph_destroy(graph)).unwrap();
            (0, nodes)
        }
        Err(error) => (error.code, 0),
    };
    let code = match answer {
        Ok(left) => {
            left.undo(driver);
            0
        }
        Err(error) => error.code,
    };
    format!("{code}/{end}:{nodes}")
}

impl Made {
    fn new(driver: &Arc<Driver>) -> Self {
        let (capturing, other) = (driver.stream_create().unwrap(), driver.stream_create().unwrap());
        let memory = driver.mem_alloc(256).unwrap();
        call!(driver, memset_d8_async(memory, 0, 256, other)).unwrap();
        let event = driver.event_create().unwrap();
        call!(driver, event_record(event, other)).unwrap();
        let (module, function) = load(driver, ADD);
        call!(driver, stream_begin_capture(other, CaptureMode::Relaxed)).unwrap();
        call!(driver, memset_d8_async(memory, 1, 64, other)).unwrap();
        let graph = call!(driver, stream_end_capture(other)).unwrap();
        let exec = call!(driver, graph_instantiate(graph)).unwrap();
        call!(driver, stream_synchronize(other)).unwrap();
        let driver = Arc::clone(driver);
        Self { driver, capturing, other, memory, event, module, function, graph, exec }
    }
}

/// What rows may end themselves stays: a GPU does not define ending it twice.
impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.driver.ctx_synchronize();
        let _ = call!(self.driver, event_destroy(self.event));
        let _ = call!(self.driver, stream_destroy(self.capturing));
        let _ = call!(self.driver, stream_destroy(self.other));
    }
}

impl Left {
    fn undo(self, driver: &Driver) {
        let undone = match self {
            Self::Nothing => Ok(()),
            Self::Memory(memory) => call!(driver, mem_free(memory)),
            Self::Module(module) => call!(driver, module_unload(module)),
            Self::Stream(stream) => call!(driver, stream_destroy(stream)),
            Self::Capture(stream) => {
                let graph = call!(driver, stream_end_capture(stream));
                graph.and_then(|graph| call!(driver, graph_destroy(graph)))
            }
            Self::Event(event) => call!(driver, event_destroy(event)),
            Self::Exec(exec) => call!(driver, graph_exec_destroy(exec)),
        };
        undone.unwrap();
    }
}

/// The per-thread stream waits for the legacy stream and is captured: `cuStreamIsCapturing`, and
/// Programming Guide, "Prohibited and Unhandled Operations"; a launch was measured.
pub(crate) fn legacy(driver: &Arc<Driver>) {
    const PER_THREAD: u64 = 2;
    const IMPLICIT: i32 = 906;
    let rows: &[(&str, i32, i32, Call)] = &[
        ("a fill on the legacy stream", IMPLICIT, 901, |made| nothing(fill(made, 0))),
        ("a fill on the legacy stream by its name", IMPLICIT, 901, |made| nothing(fill(made, 1))),
        ("a launch on the legacy stream", IMPLICIT, 901, |made| nothing(launch(made, &SHAPE, 0))),
        ("a wait for the legacy stream", IMPLICIT, 901, |made| {
            nothing(call!(made.driver, stream_synchronize(0)))
        }),
        ("an event of the legacy stream", IMPLICIT, 901, |made| {
            nothing(call!(made.driver, event_record(made.event, 0)))
        }),
        ("the legacy stream's status", IMPLICIT, 0, |made| {
            nothing(call!(made.driver, stream_is_capturing(0)))
        }),
        ("a fill on another stream", 0, 0, |made| nothing(fill(made, made.other))),
        ("a fill on the per-thread stream", 0, 0, |made| nothing(fill(made, PER_THREAD))),
    ];
    let mut differences = Differences::default();
    for &(name, expected, end, call) in rows {
        let made = Made::new(driver);
        call!(driver, stream_begin_capture(PER_THREAD, CaptureMode::Relaxed)).unwrap();
        let found = code(call(&made));
        let ended = call!(driver, stream_end_capture(PER_THREAD));
        let ended = ended.and_then(|graph| call!(driver, graph_destroy(graph)));
        differences.compare(name, (found, code(ended)), (expected, end));
    }
    differences.assert_none();
}
