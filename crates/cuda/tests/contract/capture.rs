//! Every call while a stream is being captured.

use std::sync::Arc;

use frazil_cuda::{
    CaptureMode, DeviceAttribute, Driver, DriverCalls, DriverError, EventHandle, FunctionAttribute,
    FunctionHandle, GraphExecHandle, GraphHandle, L2Promotion, LaunchShape, ModuleHandle, Swizzle,
    TensorMapElement, TensorMapSpec,
};

use super::{ADD, Current, Differences, PTX, SHAPE, add_params, call, code, elsewhere, load};

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

/// Who calls what, while which capture is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The capturing thread, in its default mode.
    Own(CaptureMode),
    /// The capturing thread, which has set its own mode to relaxed for the call.
    Guarded,
    /// Another thread, in its default mode.
    Other(CaptureMode),
}

const COLUMNS: [Column; 6] = [
    Column::Own(CaptureMode::Global),
    Column::Own(CaptureMode::ThreadLocal),
    Column::Own(CaptureMode::Relaxed),
    Column::Guarded,
    Column::Other(CaptureMode::Global),
    Column::Other(CaptureMode::ThreadLocal),
];

/// What a call answers in the columns.
#[derive(Clone, Copy)]
enum Rule {
    /// Success, and the capture goes on.
    Allowed,
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` wherever a mode forbids unsafe calls, and the capture
    /// is broken.
    Unsafe,
    /// The same in every column.
    Forbidden,
    /// That code in every column, and the capture goes on.
    Refused(i32),
}

impl Rule {
    /// Code of the call, and of the end of the capture.
    fn answer(self, column: Column) -> (i32, i32) {
        const UNSUPPORTED: i32 = 900;
        const INVALIDATED: i32 = 901;
        match self {
            Self::Allowed => (0, 0),
            Self::Refused(code) => (code, 0),
            Self::Forbidden => (UNSUPPORTED, INVALIDATED),
            // `cuThreadExchangeStreamCaptureMode`, sentence by sentence.
            Self::Unsafe => match column {
                Column::Own(CaptureMode::Global | CaptureMode::ThreadLocal)
                | Column::Other(CaptureMode::Global) => (UNSUPPORTED, INVALIDATED),
                _ => (0, 0),
            },
        }
    }
}

type Call = fn(&Made) -> Result<Left, DriverError>;

fn nothing<T>(answer: Result<T, DriverError>) -> Result<Left, DriverError> {
    answer.map(|_| Left::Nothing)
}

/// What the documentation gives, or what is known of GPUs.
const DOCUMENTED: &[(&str, Rule, Call)] = &[
    // `cuThreadExchangeStreamCaptureMode` names an allocation.
    ("an allocation", Rule::Unsafe, |made| made.driver.mem_alloc(64).map(Left::Memory)),
    // Measured on an H200, and NVIDIA/warp issue 401.
    ("an unload", Rule::Unsafe, |made| nothing(call!(made.driver, module_unload(made.module)))),
    // NVIDIA Warp: from CUDA 12.3 on.
    ("a load", Rule::Allowed, |made| {
        call!(made.driver, module_load_data(PTX.as_bytes())).map(Left::Module)
    }),
    // Programming Guide, "Prohibited and Unhandled Operations".
    ("a wait for the capturing stream", Rule::Forbidden, |made| {
        nothing(call!(made.driver, stream_synchronize(made.capturing)))
    }),
    ("a wait for the context", Rule::Forbidden, |made| nothing(made.driver.ctx_synchronize())),
    ("a copy and a wait on the capturing stream", Rule::Forbidden, |made| {
        nothing(call!(made.driver, copy_to_device(made.memory, &[0; 4], made.capturing)))
    }),
    ("a launch on the legacy stream", Rule::Allowed, |made| nothing(launch(made, &SHAPE, 0))),
    ("a fill on the capturing stream", Rule::Allowed, |made| nothing(fill(made, made.capturing))),
    ("a fill on another stream", Rule::Allowed, |made| nothing(fill(made, made.other))),
    ("a launch on the capturing stream", Rule::Allowed, |made| {
        nothing(launch(made, &SHAPE, made.capturing))
    }),
    ("a launch on another stream", Rule::Allowed, |made| nothing(launch(made, &SHAPE, made.other))),
    ("the capturing stream's status", Rule::Allowed, |made| {
        nothing(call!(made.driver, stream_is_capturing(made.capturing)))
    }),
    ("the legacy stream's status", Rule::Allowed, |made| {
        nothing(call!(made.driver, stream_is_capturing(0)))
    }),
    ("a capture of another stream", Rule::Allowed, |made| {
        let begun = call!(made.driver, stream_begin_capture(made.other, CaptureMode::Relaxed));
        begun.map(|()| Left::Capture(made.other))
    }),
];

/// What the documentation leaves open.
const ASSUMED: &[(&str, Rule, Call)] = &[
    ("a free", Rule::Unsafe, |made| nothing(call!(made.driver, mem_free(made.memory)))),
    ("a wait for another stream", Rule::Unsafe, |made| {
        nothing(call!(made.driver, stream_synchronize(made.other)))
    }),
    ("a wait for the legacy stream", Rule::Unsafe, |made| {
        nothing(call!(made.driver, stream_synchronize(0)))
    }),
    ("a wait for an event", Rule::Unsafe, |made| {
        nothing(call!(made.driver, event_synchronize(made.event)))
    }),
    ("a copy and a wait on another stream", Rule::Unsafe, |made| {
        nothing(call!(made.driver, copy_to_device(made.memory, &[0; 4], made.other)))
    }),
    ("a second capture of the stream", Rule::Refused(401), |made| {
        nothing(call!(made.driver, stream_begin_capture(made.capturing, CaptureMode::Global)))
    }),
    ("a capture of the legacy stream", Rule::Refused(900), |made| {
        nothing(call!(made.driver, stream_begin_capture(0, CaptureMode::Global)))
    }),
    ("a launch of no threads", Rule::Refused(1), |made| {
        nothing(launch(made, &LaunchShape { block: [0, 1, 1], ..SHAPE }, made.capturing))
    }),
    ("a kernel by name", Rule::Allowed, |made| {
        nothing(call!(made.driver, module_get_function(made.module, "frazil_probe_static")))
    }),
    ("an attribute of a kernel", Rule::Allowed, |made| {
        let attribute = FunctionAttribute::SharedSizeBytes;
        nothing(call!(made.driver, func_get_attribute(attribute, made.function)))
    }),
    ("a kernel's shared memory", Rule::Allowed, |made| {
        let attribute = FunctionAttribute::MaxDynamicSharedSizeBytes;
        nothing(call!(made.driver, func_set_attribute(made.function, attribute, 60_000)))
    }),
    ("an event", Rule::Allowed, |made| made.driver.event_create().map(Left::Event)),
    ("the end of an event", Rule::Allowed, |made| {
        let event = made.driver.event_create()?;
        nothing(call!(made.driver, event_destroy(event)))
    }),
    ("an event recorded by the capturing stream", Rule::Allowed, |made| {
        nothing(call!(made.driver, event_record(made.event, made.capturing)))
    }),
    ("an event recorded by another stream", Rule::Allowed, |made| {
        nothing(call!(made.driver, event_record(made.event, made.other)))
    }),
    ("a stream", Rule::Allowed, |made| made.driver.stream_create().map(Left::Stream)),
    ("a stream's context", Rule::Allowed, |made| {
        nothing(call!(made.driver, stream_get_ctx(made.capturing)))
    }),
    ("the legacy stream's context", Rule::Allowed, |made| {
        nothing(call!(made.driver, stream_get_ctx(0)))
    }),
    ("the primary context", Rule::Allowed, |made| nothing(made.driver.primary_ctx_retain(0))),
    ("a context pushed and popped", Rule::Allowed, |made| {
        drop(Current::new(Arc::clone(&made.driver)));
        Ok(Left::Nothing)
    }),
    ("an address looked up", Rule::Allowed, |made| {
        nothing(made.driver.pointer_get_attributes(made.memory))
    }),
    ("a tensor map, where there are any", Rule::Allowed, |made| {
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
    ("a graph made executable", Rule::Allowed, |made| {
        call!(made.driver, graph_instantiate(made.graph)).map(Left::Exec)
    }),
    ("the nodes of a graph", Rule::Allowed, |made| {
        nothing(call!(made.driver, graph_get_nodes(made.graph)))
    }),
    ("a graph launched into the capture", Rule::Allowed, |made| {
        nothing(call!(made.driver, graph_launch(made.exec, made.capturing)))
    }),
    ("a graph launched on another stream", Rule::Allowed, |made| {
        nothing(call!(made.driver, graph_launch(made.exec, made.other)))
    }),
    ("the end of an executable graph", Rule::Allowed, |made| {
        let exec = call!(made.driver, graph_instantiate(made.graph))?;
        nothing(call!(made.driver, graph_exec_destroy(exec)))
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
    for (basis, rows) in [("documented", DOCUMENTED), ("assumed", ASSUMED)] {
        for &(name, rule, call) in rows {
            for column in COLUMNS {
                let what = format!("{name}, {column:?} ({basis})");
                differences.compare(&what, try_call(driver, column, call), rule.answer(column));
            }
        }
    }
    differences.assert_none();
}

/// Code of a call under a capture, and of the end of the capture.
fn try_call(driver: &Arc<Driver>, column: Column, call: Call) -> (i32, i32) {
    let made = Made::new(driver);
    let mode = match column {
        Column::Own(mode) | Column::Other(mode) => mode,
        Column::Guarded => CaptureMode::Global,
    };
    call!(driver, stream_begin_capture(made.capturing, mode)).unwrap();
    fill(&made, made.capturing).unwrap();
    let answer = match column {
        Column::Own(_) => call(&made),
        Column::Guarded => {
            let before = driver.thread_exchange_stream_capture_mode(CaptureMode::Relaxed).unwrap();
            let answer = call(&made);
            driver.thread_exchange_stream_capture_mode(before).unwrap();
            answer
        }
        Column::Other(_) => elsewhere(driver, || call(&made)),
    };
    let end = call!(driver, stream_end_capture(made.capturing));
    let end = end.and_then(|graph| call!(driver, graph_destroy(graph)));
    let code = match answer {
        Ok(left) => {
            left.undo(driver);
            0
        }
        Err(error) => error.code,
    };
    (code, super::code(end))
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
        let driver = Arc::clone(driver);
        Self { driver, capturing, other, memory, event, module, function, graph, exec }
    }
}

/// Memory and module stay: some rows end them, and a GPU does not define ending them twice.
impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.driver.ctx_synchronize();
        let _ = call!(self.driver, graph_exec_destroy(self.exec));
        let _ = call!(self.driver, graph_destroy(self.graph));
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
/// Programming Guide, "Prohibited and Unhandled Operations".
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
