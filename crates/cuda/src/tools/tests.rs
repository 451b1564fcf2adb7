//! Values over a driver whose device memory is host memory.

use frazil_core::DeviceId;

use super::*;
use crate::driver::fake::Fake;
use crate::{CaptureMode, CudaDevice, DriverCalls, FunctionHandle, LaunchShape, NodeKind};

fn device(fake: &Fake) -> CudaDevice {
    CudaDevice::open(fake.driver(), 1, None).unwrap()
}

#[test]
fn memory_keeps_what_is_written_and_is_freed_once() {
    let fake = Fake::start();
    let device = device(&fake);
    let mut memory = DeviceMemory::of(&device, &[1_u32, 2, 3, 4]).unwrap();
    memory.write(4, &[20_u32, 30]).unwrap();
    assert_eq!(memory.read::<u32>(0, 4).unwrap(), [1, 20, 30, 4]);
    assert_eq!(memory.read::<u32>(8, 2).unwrap(), [30, 4]);
    memory.fill(0xff).unwrap();
    assert_eq!(memory.read::<u32>(12, 1).unwrap(), [u32::MAX]);
    assert!(fake.contexts().is_empty());
    drop(memory);
    assert_eq!(fake.count("cuMemFree_v2"), 1);
    assert!(fake.state(|state| state.memory.is_empty()));
}

#[test]
fn a_transfer_past_the_end_is_refused_before_the_driver_sees_it() {
    let fake = Fake::start();
    let mut memory = DeviceMemory::new(&device(&fake), 16).unwrap();
    let size = 16;
    let at = |offset, bytes| TransferError::OutOfRange { offset, bytes, size };
    assert_eq!(memory.write(12, &[0_u32, 0]).unwrap_err(), at(12, 8));
    assert_eq!(memory.read::<u32>(17, 0).unwrap_err(), at(17, 0));
    assert_eq!(memory.read::<u32>(u64::MAX, 1).unwrap_err(), at(u64::MAX, 4));
    assert_eq!(fake.count("cuMemcpyHtoDAsync_v2") + fake.count("cuMemcpyDtoHAsync_v2"), 0);
}

/// No work may be under way while memory is read, written or freed; and a wait for the context
/// would break every capture in it.
#[test]
fn transfers_and_frees_come_after_the_work_of_every_stream() {
    let fake = Fake::start();
    let device = device(&fake);
    let stream = OwnedStream::new(&device).unwrap();
    let mut memory = DeviceMemory::of(&device, &[1_u8; 8]).unwrap();
    memory.fill(0).unwrap();
    memory.read::<u8>(0, 8).unwrap();
    drop(memory);
    let calls = fake.state(|state| state.calls.clone());
    for call in ["cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuMemcpyDtoHAsync_v2", "cuMemFree_v2"]
    {
        let at = calls.iter().position(|made| *made == call).unwrap();
        let waits = ["cuStreamIsCapturing", "cuStreamSynchronize"];
        assert_eq!(calls[at - 4..at], [waits, waits].concat(), "{call}: this stream and its own");
        let relaxed = calls[..at].iter().filter(|c| **c == "cuThreadExchangeStreamCaptureMode");
        assert_eq!(relaxed.count() % 2, 1, "{call}");
    }
    assert_eq!(fake.count("cuCtxSynchronize"), 0);
    drop(stream);
}

#[test]
fn a_stream_that_captures_is_not_waited_for() {
    let fake = Fake::start();
    let device = device(&fake);
    let stream = OwnedStream::new(&device).unwrap();
    let memory = DeviceMemory::new(&device, 16).unwrap();
    let capture = stream.capture(CaptureMode::Global).unwrap();
    drop(memory);
    assert_eq!((fake.count("cuStreamSynchronize"), fake.count("cuMemFree_v2")), (0, 1));
    capture.end().unwrap();
}

#[test]
fn memory_that_may_be_in_use_is_not_freed() {
    let fake = Fake::start();
    let device = device(&fake);
    let _stream = OwnedStream::new(&device).unwrap();
    let memory = DeviceMemory::new(&device, 16).unwrap();
    fake.fail("cuStreamSynchronize", 719);
    drop(memory);
    assert_eq!(fake.count("cuMemFree_v2"), 0);
}

#[test]
fn no_memory_is_taken_for_no_bytes() {
    let fake = Fake::start();
    let mut memory = DeviceMemory::of::<u32>(&device(&fake), &[]).unwrap();
    memory.fill(1).unwrap();
    assert!(memory.read::<u32>(0, 0).unwrap().is_empty());
    assert_eq!((memory.addr(), memory.bytes()), (0, 0));
    drop(memory);
    assert_eq!(fake.count("cuMemAlloc_v2") + fake.count("cuMemFree_v2"), 0);
}

#[test]
fn buffers_are_of_the_device_and_written_only_where_borrowed_so() {
    let fake = Fake::start();
    let mut memory = DeviceMemory::new(&device(&fake), 16).unwrap();
    let addr = memory.addr();
    let (input, also) = (memory.buffer(), memory.buffer());
    assert_eq!((input.addr(), input.bytes(), input.device()), (addr, 16, DeviceId::Cuda(1)));
    assert!(!input.is_writable() && !also.is_writable());
    assert!(memory.buffer_mut().is_writable());
}

/// A stream outlives its owner, since whoever has copied it may still use it.
#[test]
fn a_stream_is_given_back_and_never_destroyed() {
    let fake = Fake::start();
    let device = device(&fake);
    let (first, second) = (OwnedStream::new(&device).unwrap(), OwnedStream::new(&device).unwrap());
    assert_ne!(first.raw(), second.raw());
    let raw = first.raw();
    drop(first);
    let third = OwnedStream::new(&device).unwrap();
    assert_eq!(third.raw(), raw);
    assert!(device.queue(third.stream()).is_ok());
    assert_eq!((fake.count("cuStreamCreate"), fake.count("cuStreamDestroy_v2")), (2, 0));
}

#[test]
fn a_captured_graph_tells_its_launches_in_order_and_is_launched_again() {
    let fake = Fake::start();
    let device = device(&fake);
    let stream = OwnedStream::new(&device).unwrap();
    let driver = fake.driver();
    let function = |name| {
        let module = crate::ModuleHandle::from_raw(8).unwrap();
        // SAFETY: the fake does not look at the module.
        unsafe { driver.module_get_function(module, name) }.unwrap()
    };
    let (first, second) = (function("frazil_first"), function("frazil_second"));
    let launch = |function: FunctionHandle| {
        let (grid, block, cluster) = ([1; 3], [1; 3], [1; 3]);
        let (dynamic_smem_bytes, programmatic) = (0, false);
        let shape = LaunchShape { grid, block, cluster, dynamic_smem_bytes, programmatic };
        // SAFETY: the fake reads as many bytes as are passed, and launches nothing.
        unsafe { driver.launch_kernel_ex(&shape, stream.raw(), function, &[0; 16]) }.unwrap();
    };
    let capture = stream.capture(CaptureMode::Global).unwrap();
    [first, second, first].into_iter().for_each(launch);
    let graph = capture.end().unwrap();
    let nodes = graph.nodes().unwrap();
    assert!(nodes.iter().all(|node| node.kind == NodeKind::Kernel));
    let names: Vec<_> = nodes.iter().filter_map(|node| node.kernel.as_deref()).collect();
    assert_eq!(names, ["frazil_first", "frazil_second", "frazil_first"]);
    let exec = graph.instantiate().unwrap();
    drop(graph);
    // SAFETY: the fake runs nothing.
    unsafe { exec.launch(&stream) }.unwrap();
    drop(exec);
    let made = ["cuGraphDestroy", "cuGraphLaunch", "cuGraphExecDestroy"].map(|c| fake.count(c));
    assert_eq!(made, [1, 1, 1]);
    assert!(fake.contexts().is_empty());
}

#[test]
fn a_capture_that_is_dropped_ends_and_leaves_no_graph() {
    let fake = Fake::start();
    let stream = OwnedStream::new(&device(&fake)).unwrap();
    drop(stream.capture(CaptureMode::Relaxed).unwrap());
    assert_eq!((fake.count("cuStreamEndCapture"), fake.count("cuGraphDestroy")), (1, 1));
    fake.fail("cuStreamEndCapture", 901);
    let error = stream.capture(CaptureMode::Global).unwrap().end().unwrap_err();
    assert_eq!(error.name(), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    assert_eq!(fake.count("cuStreamEndCapture"), 2);
}

#[test]
fn events_give_the_time_between_them() {
    let fake = Fake::start();
    let device = device(&fake);
    let stream = OwnedStream::new(&device).unwrap();
    let (start, end) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    start.record(&stream).unwrap();
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    assert!((end.milliseconds_since(&start).unwrap() - 1.5).abs() < f32::EPSILON);
    drop((start, end));
    assert_eq!(fake.count("cuEventDestroy_v2"), 2);
}

#[test]
fn whichever_call_fails_context_and_mode_come_back() {
    type Step = fn(&CudaDevice) -> Option<&'static str>;
    fn failed<T>(result: Result<T, crate::DriverError>) -> Option<&'static str> {
        result.err().map(|error| error.call)
    }
    fn transfer<T>(result: Result<T, TransferError>) -> Option<&'static str> {
        match result.err()? {
            TransferError::Driver(error) => Some(error.call),
            TransferError::OutOfRange { .. } => None,
        }
    }
    let allocate: Step = |device| failed(DeviceMemory::new(device, 16));
    let write: Step = |device| failed(DeviceMemory::of(device, &[1_u8; 16]));
    let fill: Step = |device| failed(DeviceMemory::new(device, 16).and_then(|mut m| m.fill(1)));
    let read: Step = |device| transfer(DeviceMemory::new(device, 16).unwrap().read::<u8>(0, 16));
    let stream: Step = |device| failed(OwnedStream::new(device));
    let wait: Step = |device| failed(OwnedStream::new(device).unwrap().synchronize());
    let capture: Step = |device| {
        let stream = OwnedStream::new(device).unwrap();
        let captured = stream.capture(CaptureMode::Global).and_then(Capture::end);
        failed(captured.and_then(|graph| graph.instantiate()))
    };
    for (call, step) in [
        ("cuMemAlloc_v2", allocate),
        ("cuThreadExchangeStreamCaptureMode", allocate),
        ("cuMemcpyHtoDAsync_v2", write),
        ("cuStreamIsCapturing", write),
        ("cuMemsetD8Async", fill),
        ("cuMemcpyDtoHAsync_v2", read),
        ("cuStreamCreate", stream),
        ("cuStreamSynchronize", wait),
        ("cuStreamBeginCapture_v2", capture),
        ("cuStreamEndCapture", capture),
        ("cuGraphInstantiateWithFlags", capture),
    ] {
        let fake = Fake::start();
        let device = device(&fake);
        fake.set_contexts(&[5]);
        fake.fail(call, 999);
        assert_eq!(step(&device), Some(call));
        assert_eq!((fake.contexts(), fake.mode()), (vec![5], 0), "{call}");
    }
}
