//! Slices and streams of cudarc, lent, on the first GPU of this computer.

#![cfg(feature = "cudarc")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUgraphInstantiate_flags;
use cudarc::driver::{CudaContext, CudaStream, sys::CUstreamCaptureMode};
use frazil_core::{DType, Device, DeviceId, Stream, Version};
use frazil_cuda::interop::{self, LendError};
use frazil_cuda::{Artifact, CudaDevice, ImageKind, Kernel, Key, LaunchShape};

const PTX: &str = concat!(include_str!("contract/probe.ptx"), "\0");
const ADD: &str = "frazil_probe_add";

const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [32, 1, 1],
    cluster: [1; 3],
    dynamic_smem_bytes: 0,
    programmatic: false,
};

/// cudarc panics without a driver, so that frazil is asked first.
fn with_gpu(body: impl FnOnce(&CudaDevice, &Arc<CudaContext>)) {
    let device: Device = match frazil_cuda::device(0) {
        Ok(device) => device,
        Err(error) => return frazil_conformance::skip::because(format_args!("no GPU: {error}")),
    };
    // A capture of one test forbids calls to the others.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    body(CudaDevice::of(&device).unwrap(), &CudaContext::new(0).unwrap());
}

fn load_add(device: &CudaDevice) -> Kernel<[u64; 2]> {
    let artifact = Artifact {
        key: Key([1; 32]),
        kind: ImageKind::Ptx,
        image: PTX.into(),
        symbols: vec![ADD.into()],
        resources: None,
        compiler: Version::new(13, 0, 0),
    };
    // SAFETY: the image is PTX that ends in a zero byte, and the kernel takes these 16 bytes.
    unsafe { device.load(&artifact, ADD, 0) }.unwrap()
}

fn stream(stream: &CudaStream) -> Stream {
    // SAFETY: streams of these tests outlive what is queued on them.
    unsafe { interop::stream(stream) }
}

/// Adds to the first number of a slice, on the stream that it is lent for.
fn add(kernel: &Kernel<[u64; 2]>, on: &CudaStream, lent: &mut interop::Lent<'_>, number: u64) {
    let queue = kernel.device().queue(stream(on)).unwrap();
    // SAFETY: the slice is at least four bytes and lent until the work is queued on this stream.
    unsafe { kernel.launch(&queue, &SHAPE, &[lent.buffer().addr(), number]) }.unwrap();
}

#[test]
fn a_lent_slice_is_memory_of_the_device_with_its_size_and_type() {
    with_gpu(|device, context| {
        let stream = context.default_stream();
        let mut numbers = stream.clone_htod(&[1_i32, 2, 3, 4]).unwrap();
        let half = stream.alloc_zeros::<u8>(100).unwrap();
        // SAFETY: no execute takes the buffer.
        let mut lent = unsafe { interop::lend_mut(&mut numbers, &stream) }.unwrap();
        let buffer = lent.buffer();
        assert_eq!((buffer.bytes(), buffer.dtype()), (16, Some(DType::I32)));
        assert_eq!(buffer.device(), DeviceId::Cuda(0));
        assert!(buffer.is_writable());
        drop(lent);
        let view = half.slice(10..30);
        // SAFETY: as above.
        let mut lent = unsafe { interop::lend(&view, &stream) }.unwrap();
        let buffer = lent.buffer();
        assert_eq!((buffer.bytes(), buffer.dtype()), (20, Some(DType::U8)));
        assert!(!buffer.is_writable());
        // The contexts are one, so that neither library is a stranger to the other.
        assert_eq!(device.context().unwrap().raw(), context.cu_ctx().expose_provenance() as u64);
    });
}

#[test]
fn a_kernel_writes_what_cudarc_reads_whichever_stream_it_is_lent_for() {
    with_gpu(|device, context| {
        let kernel = load_add(device);
        let (home, other) = (context.default_stream(), context.new_stream().unwrap());
        let mut number = home.clone_htod(&[5_i32]).unwrap();
        for on in [&other, &home, &other] {
            // SAFETY: the launch is queued on the stream that it is lent for.
            let mut lent = unsafe { interop::lend_mut(&mut number, on) }.unwrap();
            add(&kernel, on, &mut lent, 10);
        }
        // cudarc's copy waits for the event that the last lending recorded.
        assert_eq!(home.clone_dtoh(&number).unwrap(), [35]);
    });
}

#[test]
fn events_are_refused_by_name_in_a_capture_which_goes_on() {
    with_gpu(|device, context| {
        let kernel = load_add(device);
        let on = context.new_stream().unwrap();
        let mut tracked = on.clone_htod(&[0_i32]).unwrap();
        on.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        // SAFETY: no execute takes the buffer.
        let refused = unsafe { interop::lend_mut(&mut tracked, &on) };
        assert_eq!(refused.map(|_| ()).unwrap_err(), LendError::TracksEvents);
        // SAFETY: this test orders its streams itself: it has one.
        unsafe { context.disable_event_tracking() };
        {
            // SAFETY: the launch is queued on the stream that it is lent for.
            let mut lent = unsafe { interop::lend_mut(&mut tracked, &on) }.unwrap();
            add(&kernel, &on, &mut lent, 4);
        }
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = on.end_capture(flags).unwrap().unwrap();
        graph.launch().unwrap();
        graph.launch().unwrap();
        assert_eq!(on.clone_dtoh(&tracked).unwrap(), [8]);
    });
}
