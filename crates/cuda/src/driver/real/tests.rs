//! Starting a driver, without one: functions of this process stand for the library's.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use frazil_core::Version;

use super::super::fake::Fake;
use super::super::layout::LaunchAttribute;
use super::super::table::{OPTIONAL, REQUIRED, Symbols, failing};
use super::super::{
    CaptureMode, ContextHandle, Driver, DriverCalls, EventHandle, FunctionAttribute,
    FunctionHandle, GraphExecHandle, GraphHandle, L2Promotion, LaunchShape, ModuleHandle, Swizzle,
    TensorMap, TensorMapElement, TensorMapSpec,
};
use super::*;
use crate::DeviceAttribute;

thread_local! {
    static VERSION: Cell<i32> = const { Cell::new(12_000) };
    static INIT: Cell<i32> = const { Cell::new(0) };
    static COUNT: Cell<i32> = const { Cell::new(1) };
}

unsafe extern "system" fn version(to: *mut i32) -> i32 {
    // SAFETY: the caller gives a place for the answer.
    unsafe { to.write(VERSION.get()) };
    0
}

unsafe extern "system" fn init(_flags: u32) -> i32 {
    INIT.get()
}

unsafe extern "system" fn count(to: *mut i32) -> i32 {
    // SAFETY: the caller gives a place for the answer.
    unsafe { to.write(COUNT.get()) };
    0
}

/// A library with every function but some; what starts a driver works, all else fails.
struct Without(&'static [&'static str]);

impl Symbols for Without {
    fn address(&self, name: &'static str) -> Option<NonNull<c_void>> {
        if self.0.contains(&name) {
            return None;
        }
        match name {
            "cuDriverGetVersion" => NonNull::new(version as *mut c_void),
            "cuInit" => NonNull::new(init as *mut c_void),
            "cuDeviceGetCount" => NonNull::new(count as *mut c_void),
            _ => failing::address(name),
        }
    }
}

fn start(without: &'static [&'static str]) -> std::result::Result<RealDriver, NoDriver> {
    // SAFETY: each function has the signature that the table has for its name.
    unsafe { RealDriver::from_symbols(&Without(without), Path::new("lib")) }
}

fn lib() -> PathBuf {
    "lib".into()
}

#[test]
fn a_driver_of_the_oldest_version_starts() {
    for (version, expected) in [
        (12_000, Version::new(12, 0, 0)),
        (12_080, Version::new(12, 8, 0)),
        (13_000, Version::new(13, 0, 0)),
    ] {
        VERSION.set(version);
        assert_eq!(start(&[]).unwrap().version(), expected);
    }
}

/// An old driver lacks functions too; that it is old is what helps.
#[test]
fn an_older_driver_is_refused_as_old() {
    for (version, found) in [
        (11_080, Version::new(11, 8, 0)),
        (11_040, Version::new(11, 4, 0)),
        (0, Version::new(0, 0, 0)),
        (-1, Version::new(0, 0, 0)),
    ] {
        VERSION.set(version);
        let error = start(&["cuTensorMapEncodeTiled", "cuLaunchKernelEx"]).unwrap_err();
        assert_eq!(error, NoDriver::TooOld { path: lib(), found, need: OLDEST_DRIVER });
        let text = error.to_string();
        assert!(text.contains("12.0.0 is needed") && text.contains("525"), "{text}");
    }
}

/// One test for each function of the table.
#[test]
fn a_missing_function_is_named_before_any_is_called() {
    // Were it called, starting would end there.
    INIT.set(999);
    for symbol in REQUIRED {
        let error = start(std::slice::from_ref(symbol)).unwrap_err();
        let NoDriver::MissingSymbol { path, symbol: told, since, driver } = &error else {
            panic!("{symbol}: {error}")
        };
        assert_eq!((path, told), (&lib(), symbol));
        assert!(*since <= OLDEST_DRIVER && since.major >= 2, "{symbol}: {since}");
        let asked = *symbol != "cuDriverGetVersion";
        assert_eq!(*driver, asked.then_some(Version::new(12, 0, 0)), "{symbol}");
        assert!(error.to_string().contains(symbol), "{error}");
    }
    INIT.set(0);
    start(OPTIONAL).expect("a driver of CUDA 12.0 has none of them");
}

#[test]
fn a_driver_that_does_not_start_says_its_code_and_how_to_mend_it() {
    let mut helps = BTreeSet::new();
    for (code, name, help) in [
        (34, "CUDA_ERROR_STUB_LIBRARY", "`stubs`"),
        (100, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"),
        (304, "CUDA_ERROR_OPERATING_SYSTEM", "/dev/nvidia-uvm"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY", "fabric manager"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "two versions"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "`compat`"),
        (999, "CUDA_ERROR_UNKNOWN", "nvidia-smi"),
    ] {
        INIT.set(code);
        let error = start(&[]).unwrap_err();
        assert_eq!(
            error,
            NoDriver::Init { path: lib(), error: DriverError { call: "cuInit", code } }
        );
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(help), "{text}");
        helps.insert(error.help());
    }
    assert_eq!(helps.len(), 7);
}

#[test]
fn a_driver_without_a_gpu_is_told_from_one_that_fails() {
    COUNT.set(0);
    let driver = Version::new(12, 0, 0);
    assert_eq!(start(&[]).unwrap_err(), NoDriver::NoGpu { path: lib(), driver });
}

/// A name of a method, and the call that it says has failed.
type Failure = (&'static str, Option<DriverError>);

/// Every method on a driver all of whose functions fail.
fn failures(driver: &RealDriver) -> Vec<Failure> {
    let mut found = Vec::new();
    let (context, stream) = (ContextHandle::from_raw(8).unwrap(), 8);
    let (module, function) =
        (ModuleHandle::from_raw(8).unwrap(), FunctionHandle::from_raw(8).unwrap());
    let event = EventHandle::from_raw(8).unwrap();
    let (graph, exec) = (GraphHandle::from_raw(8).unwrap(), GraphExecHandle::from_raw(8).unwrap());
    let (mut map, mut bytes) = (TensorMap([0; 16]), [0_u8; 4]);
    let shape = LaunchShape {
        grid: [1; 3],
        block: [1; 3],
        cluster: [1; 3],
        dynamic_smem_bytes: 0,
        programmatic: false,
    };
    let spec = TensorMapSpec {
        element: TensorMapElement::F16,
        address: 0,
        extents: &[8],
        strides_bytes: &[],
        box_extents: &[8],
        swizzle: Swizzle::None,
        l2_promotion: L2Promotion::None,
    };
    let (threads, sms) =
        (FunctionAttribute::MaxThreadsPerBlock, DeviceAttribute::MultiprocessorCount);
    macro_rules! fails {
        ($($call:literal: $method:ident($($arg:expr),*);)*) => {$(
            // SAFETY: every function of the table fails without using its arguments.
            #[allow(unused_unsafe, reason = "some methods are safe")]
            let answer = unsafe { driver.$method($($arg),*) };
            found.push(($call, answer.err()));
        )*};
    }
    fails! {
        "cuDeviceGet": device_get_name(0);
        "cuDeviceGet": device_get_attribute(sms, 0);
        "cuDeviceGet": primary_ctx_retain(0);
        "cuCtxGetCurrent": ctx_get_current();
        "cuCtxPushCurrent_v2": ctx_push_current(context);
        "cuCtxPopCurrent_v2": ctx_pop_current();
        "cuCtxSynchronize": ctx_synchronize();
        "cuStreamCreate": stream_create();
        "cuStreamDestroy_v2": stream_destroy(stream);
        "cuStreamSynchronize": stream_synchronize(stream);
        "cuStreamGetCtx": stream_get_ctx(stream);
        "cuStreamIsCapturing": stream_is_capturing(stream);
        "cuStreamBeginCapture_v2": stream_begin_capture(stream, CaptureMode::Global);
        "cuStreamEndCapture": stream_end_capture(stream);
        "cuThreadExchangeStreamCaptureMode":
            thread_exchange_stream_capture_mode(CaptureMode::Relaxed);
        "cuModuleLoadData": module_load_data(&[0]);
        "cuModuleUnload": module_unload(module);
        "cuModuleGetFunction": module_get_function(module, "kernel");
        "cuFuncGetAttribute": func_get_attribute(threads, function);
        "cuFuncSetAttribute": func_set_attribute(function, threads, 0);
        "cuFuncGetParamInfo": func_param_bytes(function);
        "cuLaunchKernelEx": launch_kernel_ex(&shape, stream, function, &[]);
        "cuTensorMapEncodeTiled": tensor_map_encode_tiled(&spec);
        "cuTensorMapReplaceAddress": tensor_map_replace_address(&mut map, 0);
        "cuMemAlloc_v2": mem_alloc(1);
        "cuMemFree_v2": mem_free(8);
        "cuMemcpyHtoDAsync_v2": copy_to_device(8, &[0], stream);
        "cuMemcpyDtoHAsync_v2": copy_to_host(&mut bytes, 8, stream);
        "cuMemsetD8Async": memset_d8_async(8, 0, 1, stream);
        "cuPointerGetAttributes": pointer_get_attributes(8);
        "cuEventCreate": event_create();
        "cuEventDestroy_v2": event_destroy(event);
        "cuEventRecord": event_record(event, stream);
        "cuEventSynchronize": event_synchronize(event);
        "cuEventElapsedTime": event_elapsed_time(event, event);
        "cuGraphGetNodes": graph_get_nodes(graph);
        "cuGraphInstantiateWithFlags": graph_instantiate(graph);
        "cuGraphLaunch": graph_launch(exec, stream);
        "cuGraphExecDestroy": graph_exec_destroy(exec);
        "cuGraphDestroy": graph_destroy(graph);
    }
    found
}

#[test]
fn a_call_that_fails_is_named_with_its_code() {
    let failures = failures(&start(&[]).unwrap());
    for (call, error) in &failures {
        assert_eq!(*error, Some(DriverError { call, code: failing::CODE }), "{call}");
    }
    // Functions that are called in the course of another's method, and those of the start.
    let inner = [
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain",
        "cuGraphNodeGetType",
        "cuGraphKernelNodeGetParams_v2",
    ];
    let named: BTreeSet<&str> = failures.iter().map(|(call, _)| *call).chain(inner).collect();
    let all: BTreeSet<&str> = REQUIRED.iter().copied().collect();
    assert_eq!(all.difference(&named).count(), 0, "{:?}", all.difference(&named));
}

/// Calls inside a method are named too: the fake fails one call after another.
#[test]
fn an_inner_call_that_fails_is_named() {
    let fake = Fake::start();
    let driver = fake.driver();
    let fails = |call, ask: &dyn Fn(&Driver) -> Option<DriverError>| {
        fake.fail(call, 719);
        assert_eq!(ask(&driver), Some(DriverError { call, code: 719 }));
        fake.state(|state| state.failures.clear());
        assert_eq!(ask(&driver), None, "{call}");
    };
    let sms = DeviceAttribute::MultiprocessorCount;
    fails("cuDeviceGetCount", &|driver| driver.device_get_count().err());
    fails("cuDriverGetVersion", &|driver| driver.driver_get_version().err());
    fails("cuDeviceGetName", &|driver| driver.device_get_name(0).err());
    fails("cuDeviceGetAttribute", &|driver| driver.device_get_attribute(sms, 0).err());
    fails("cuDevicePrimaryCtxRetain", &|driver| driver.primary_ctx_retain(0).err());
    let module = ModuleHandle::from_raw(8).unwrap();
    fails("cuFuncLoad", &|driver| {
        // SAFETY: the fake does not look at the module.
        unsafe { driver.module_get_function(module, "kernel") }.err()
    });
    // SAFETY: the fake takes any stream.
    unsafe { driver.stream_begin_capture(8, CaptureMode::Global) }.unwrap();
    // SAFETY: the fake does not look at the module.
    let function = unsafe { driver.module_get_function(module, "kernel") }.unwrap();
    let shape = LaunchShape {
        grid: [1; 3],
        block: [1; 3],
        cluster: [1; 3],
        dynamic_smem_bytes: 0,
        programmatic: false,
    };
    for _ in 0..2 {
        // SAFETY: the fake reads as many bytes as are passed, and launches nothing.
        unsafe { driver.launch_kernel_ex(&shape, 8, function, &[0; 16]) }.unwrap();
    }
    // SAFETY: the fake takes any stream.
    let graph = unsafe { driver.stream_end_capture(8) }.unwrap();
    let inner = [
        "cuGraphGetNodes",
        "cuGraphGetEdges_v2",
        "cuGraphNodeGetType",
        "cuGraphKernelNodeGetParams_v2",
        "cuFuncGetName",
    ];
    for call in inner {
        fails(call, &|driver| {
            // SAFETY: the fake has one graph.
            unsafe { driver.graph_get_nodes(graph) }.err()
        });
    }
}

/// Functions of younger drivers: what needs one says so, what can do without does.
#[test]
fn what_an_old_driver_cannot_do_is_told_or_left_out() {
    let driver = start(OPTIONAL).unwrap();
    let function = FunctionHandle::from_raw(8).unwrap();
    // SAFETY: there is no function to call.
    let answer = unsafe { driver.func_param_bytes(function) };
    assert_eq!(answer, Ok(None));
    let name = graph::needs::<()>("cuFuncGetName", None).unwrap_err();
    assert_eq!(name.name(), "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER");
}

/// What the launch passes: shape, stream, attributes in the order of the header's numbers, and the
/// parameters' bytes.
#[test]
fn a_launch_passes_its_shape_its_attributes_and_the_bytes_of_its_parameters() {
    let fake = Fake::start();
    let driver = fake.driver();
    let (cluster, programmatic) = ([2, 3, 4], true);
    for (cluster, programmatic, attributes) in [
        ([1; 3], false, vec![]),
        (cluster, false, vec![LaunchAttribute::cluster(cluster)]),
        ([1; 3], programmatic, vec![LaunchAttribute::programmatic()]),
        (
            cluster,
            programmatic,
            vec![LaunchAttribute::cluster(cluster), LaunchAttribute::programmatic()],
        ),
    ] {
        let shape = LaunchShape {
            grid: [5, 6, 7],
            block: [32, 1, 1],
            cluster,
            dynamic_smem_bytes: 99,
            programmatic,
        };
        let params: Vec<u8> = (0..16).collect();
        // SAFETY: the fake reads as many bytes as are passed, and launches nothing.
        let answer = unsafe {
            driver.launch_kernel_ex(&shape, 2, FunctionHandle::from_raw(77).unwrap(), &params)
        };
        answer.unwrap();
        let launched = fake.state(|state| state.launches.pop()).unwrap();
        assert_eq!((launched.function, launched.stream), (77, 2));
        assert_eq!((launched.grid, launched.dynamic_smem_bytes), ([5, 6, 7], 99));
        assert_eq!(launched.params, params);
        assert_eq!(launched.attributes, attributes);
    }
}
