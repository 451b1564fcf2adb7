//! Devices, their streams, kernels and memory, on the first GPU of this computer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::{Mutex, PoisonError};

use frazil_core::{
    BindingError, Bindings, Buffer, BufferError, ComputeCapability, Device, DeviceId, DeviceProps,
    Error, MemoryAt, Stream, TensorId, Version,
};
use frazil_cuda::tools::{DeviceMemory, Event, OwnedStream};
use frazil_cuda::{
    Artifact, CaptureMode, CudaDevice, DriverCalls, ImageKind, Kernel, Key, L2Promotion,
    LaunchShape, LoadError, NodeKind, OLDEST_DRIVER, Swizzle, TensorMap, TensorMapElement,
    TensorMapSpec,
};

/// Kernels that are nobody's but the tests'.
const PTX: &str = concat!(include_str!("contract/probe.ptx"), "\0");
const ADD: &str = "frazil_probe_add";

const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [32, 1, 1],
    cluster: [1; 3],
    dynamic_smem_bytes: 0,
    programmatic: false,
};

/// Parameters of [`ADD`]: an address, a number, four bytes unused.
type Add = [u64; 2];

fn with_gpu(body: impl FnOnce(&Device, &CudaDevice)) {
    static TURN: Mutex<()> = Mutex::new(());
    let device = match frazil_cuda::device(0) {
        Ok(device) => device,
        Err(error) => return frazil_conformance::skip::because(format_args!("no GPU: {error}")),
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    body(&device, CudaDevice::of(&device).unwrap());
}

/// The kernels under a name of their own, so that a test loads them anew.
fn artifact(name: u8) -> Artifact {
    Artifact {
        key: Key([name; 32]),
        kind: ImageKind::Ptx,
        image: PTX.into(),
        symbols: vec![ADD.into()],
        resources: None,
        compiler: Version::new(13, 0, 0),
    }
}

fn load_add(device: &CudaDevice, name: u8) -> Kernel<Add> {
    // SAFETY: the image is PTX that ends in a zero byte, and the kernel takes these 16 bytes.
    unsafe { device.load(&artifact(name), ADD, 0) }.unwrap()
}

/// Adds to a number in device memory; `address` is within memory that outlives the work.
fn add(kernel: &Kernel<Add>, stream: Stream, address: u64, number: u32) -> Result<(), Error> {
    let queue = kernel.device().queue(stream)?;
    // SAFETY: callers keep the memory until they have waited for the stream.
    unsafe { kernel.launch(&queue, &SHAPE, &[address, u64::from(number)]) }
}

#[test]
fn a_target_says_what_the_gpu_is() {
    with_gpu(|device, _| {
        let DeviceProps::Cuda(props) = &device.target().device else { panic!("{device:?}") };
        assert!(device.target().toolchain.driver.unwrap() >= OLDEST_DRIVER);
        assert_eq!(device.id(), DeviceId::Cuda(0));
        assert!(!props.name.is_empty() && props.num_sms > 0 && props.l2_bytes > 1 << 20);
        assert!(props.smem_per_block_bytes < props.smem_per_sm_bytes, "{props:?}");
        // NVIDIA's table of technical specifications, and the data sheet.
        if props.name == "NVIDIA H200" {
            assert_eq!(props.compute_capability, ComputeCapability::new(9, 0));
            let smem = (props.smem_per_block_bytes, props.smem_per_sm_bytes);
            assert_eq!((props.num_sms, smem), (132, (227 << 10, 228 << 10)));
        }
    });
}

#[test]
fn every_sentinel_is_a_stream_of_the_device_and_no_context_is_left_behind() {
    with_gpu(|_, device| {
        let kernel = load_add(device, 1);
        let memory = DeviceMemory::of(device, &[0_u32; 4]).unwrap();
        for sentinel in [0, 1, 2] {
            // SAFETY: sentinels are always streams.
            let stream = unsafe { Stream::from_raw(sentinel) };
            let driver = device.driver();
            assert_eq!(driver.ctx_get_current().unwrap(), None);
            add(&kernel, stream, memory.addr() + 4 * sentinel, 7).unwrap();
            assert_eq!(driver.ctx_get_current().unwrap(), None);
            let _current = device.make_current().unwrap();
            // SAFETY: as above.
            unsafe { driver.stream_synchronize(sentinel) }.unwrap();
        }
        assert_eq!(memory.read::<u32>(0, 4).unwrap(), [7, 7, 7, 0]);
    });
}

/// A context that is not the primary one, as other libraries make; not among frazil's own calls.
struct Foreign {
    library: libloading::Library,
    context: u64,
}

impl Foreign {
    /// Current on this thread once made.
    fn new() -> Self {
        // SAFETY: the driver is loaded already.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
        let mut context = 0_u64;
        {
            type Create = unsafe extern "C" fn(*mut u64, u32, i32) -> i32;
            // SAFETY: the signature is that of the driver's documentation.
            let create = unsafe { library.get::<Create>("cuCtxCreate_v2") }.unwrap();
            // SAFETY: the answer goes to a local.
            assert_eq!(unsafe { create(&raw mut context, 0, 0) }, 0);
        }
        Self { library, context }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(u64) -> i32;
        // SAFETY: as above.
        let destroy = unsafe { self.library.get::<Destroy>("cuCtxDestroy_v2") }.unwrap();
        // SAFETY: the context is this value's; it is popped from the thread with it.
        assert_eq!(unsafe { destroy(self.context) }, 0);
    }
}

#[test]
fn a_stream_of_another_context_is_refused_and_that_context_comes_back() {
    with_gpu(|_, device| {
        let kernel = load_add(device, 2);
        let memory = DeviceMemory::of(device, &[0_u32]).unwrap();
        let driver = device.driver();
        {
            let foreign = Foreign::new();
            let is_current = || driver.ctx_get_current().unwrap().unwrap().raw() == foreign.context;
            assert!(is_current());
            let raw = driver.stream_create().unwrap();
            // SAFETY: the stream lives until the end of the block.
            let error = add(&kernel, unsafe { Stream::from_raw(raw) }, memory.addr(), 1);
            let Err(Error::Binding(BindingError::Stream { need, .. })) = error else {
                panic!("{error:?}")
            };
            assert_eq!(need, DeviceId::Cuda(0));
            assert!(is_current(), "after a refusal");
            // The device's own streams work all the same.
            let own = OwnedStream::new(device).unwrap();
            add(&kernel, own.stream(), memory.addr(), 5).unwrap();
            own.synchronize().unwrap();
            assert!(is_current(), "after a launch");
            // SAFETY: the stream is this test's, and nothing is queued on it.
            unsafe { driver.stream_destroy(raw) }.unwrap();
        }
        assert_eq!(memory.read::<u32>(0, 1).unwrap(), [5]);
    });
}

#[test]
fn a_build_beside_a_capture_leaves_it_whole_and_the_graph_has_the_launches() {
    with_gpu(|_, device| {
        for (at, mode) in
            [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed].iter().enumerate()
        {
            let name = 10 + 2 * u8::try_from(at).unwrap();
            let memory = DeviceMemory::of(device, &[0_u32]).unwrap();
            let stream = OwnedStream::new(device).unwrap();
            let capture = stream.capture(*mode).unwrap();
            // Built within the capture, then in another thread; owned memory comes and goes.
            let kernel = load_add(device, name);
            add(&kernel, stream.stream(), memory.addr(), 3).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let kernel = load_add(device, name + 1);
                    let mut other = DeviceMemory::of(device, &[1_u32, 2]).unwrap();
                    other.write(0, &[8_u32]).unwrap();
                    let stream = OwnedStream::new(device).unwrap();
                    add(&kernel, stream.stream(), other.addr(), 1).unwrap();
                    assert_eq!(other.read::<u32>(0, 2).unwrap(), [9, 2]);
                });
            });
            drop(DeviceMemory::of(device, &[1_u8]).unwrap());
            drop(kernel);
            let graph = capture.end().unwrap_or_else(|error| panic!("{mode:?}: {error}"));
            let nodes = graph.nodes().unwrap();
            assert_eq!(nodes.len(), 1, "{mode:?}: {nodes:?}");
            assert_eq!(nodes[0].kind, NodeKind::Kernel);
            assert_eq!(nodes[0].kernel.as_deref(), Some(ADD));
            assert_eq!(memory.read::<u32>(0, 1).unwrap(), [0], "captured work has not run");
            let exec = graph.instantiate().unwrap();
            drop(graph);
            for _ in 0..3 {
                // SAFETY: the memory lives until it is read below, which waits.
                unsafe { exec.launch(&stream) }.unwrap();
            }
            assert_eq!(memory.read::<u32>(0, 1).unwrap(), [9], "{mode:?}");
        }
    });
}

#[test]
fn host_and_kernel_that_disagree_on_the_parameters_are_found_when_loading() {
    with_gpu(|device, gpu| {
        // SAFETY: nothing is launched.
        let answer = unsafe { gpu.load::<[u64; 3]>(&artifact(20), ADD, 0) };
        if device.target().toolchain.driver < Some(Version::new(12, 4, 0)) {
            assert!(answer.is_ok(), "such a driver cannot tell");
            return;
        }
        let expected = LoadError::Params { kernel: ADD.into(), kernel_bytes: 16, host_bytes: 24 };
        assert_eq!(answer.map(|_| ()).unwrap_err(), expected);
    });
}

#[test]
fn two_threads_launch_at_once_on_streams_of_their_own() {
    with_gpu(|_, device| {
        let kernel = load_add(device, 30);
        let memory = DeviceMemory::of(device, &[0_u32; 2]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (kernel, memory) = (&kernel, &memory);
                scope.spawn(move || {
                    let stream = OwnedStream::new(kernel.device()).unwrap();
                    for _ in 0..1000 {
                        add(kernel, stream.stream(), memory.addr() + 4 * thread, 1).unwrap();
                    }
                    stream.synchronize().unwrap();
                });
            }
        });
        assert_eq!(memory.read::<u32>(0, 2).unwrap(), [1000, 1000]);
    });
}

#[test]
fn memory_is_told_by_the_driver_as_it_was_taken() {
    with_gpu(|device, gpu| {
        let memory = DeviceMemory::of(gpu, &[1_u8; 4096]).unwrap();
        let (addr, here) = (memory.addr(), DeviceId::Cuda(0));
        let MemoryAt::Allocated { device: found, addr: start, bytes } =
            device.memory_at(addr + 4095).unwrap()
        else {
            panic!("an allocation")
        };
        assert_eq!((found, start, bytes), (here, addr, 4096));
        let verify = |addr, bytes| {
            // SAFETY: no execute takes the buffer.
            let buffer = unsafe { Buffer::from_raw(addr, bytes, here) };
            match Bindings::of([(TensorId(1), buffer)]).unwrap().verify(device) {
                Ok(()) => None,
                Err(Error::Binding(BindingError::Buffer { error, .. })) => Some(error),
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(verify(addr, 4096), None);
        let too_long = BufferError::TooLong { addr: addr + 1, bytes: 4096, left: 4095 };
        assert_eq!(verify(addr + 1, 4096), Some(too_long));
        drop(memory);
        let unallocated = BufferError::Unallocated { addr, claimed: here };
        assert_eq!(verify(addr, 4096), Some(unallocated));
        let host = [0_u8; 16];
        let addr = host.as_ptr().expose_provenance() as u64;
        let unallocated = BufferError::Unallocated { addr, claimed: here };
        assert_eq!(verify(addr, 16), Some(unallocated), "pageable memory of the host");
    });
}

#[test]
fn owned_memory_keeps_what_is_written() {
    with_gpu(|_, device| {
        let mut memory = DeviceMemory::new(device, 1 << 20).unwrap();
        memory.fill(0xab).unwrap();
        let values: Vec<u32> = (0..1000).collect();
        memory.write(4096, &values).unwrap();
        assert_eq!(memory.read::<u32>(4096, 1000).unwrap(), values);
        assert_eq!(memory.read::<u8>(4095, 1).unwrap(), [0xab]);
        assert_eq!(memory.read::<u8>(8096, 1).unwrap(), [0xab]);
    });
}

#[test]
fn events_tell_the_time_between_them() {
    with_gpu(|_, device| {
        let kernel = load_add(device, 40);
        let memory = DeviceMemory::of(device, &[0_u32]).unwrap();
        let stream = OwnedStream::new(device).unwrap();
        let (start, end) = (Event::new(device).unwrap(), Event::new(device).unwrap());
        assert!(end.milliseconds_since(&start).is_err(), "neither was recorded");
        start.record(&stream).unwrap();
        (0..100).for_each(|_| add(&kernel, stream.stream(), memory.addr(), 1).unwrap());
        end.record(&stream).unwrap();
        end.synchronize().unwrap();
        let milliseconds = end.milliseconds_since(&start).unwrap();
        assert!((0.001..1000.0).contains(&milliseconds), "{milliseconds}");
        assert_eq!(memory.read::<u32>(0, 1).unwrap(), [100]);
    });
}

/// What passes the rules is what the driver takes; another address in a map is the map of that
/// address.
#[test]
fn maps_that_keep_the_rules_are_taken() {
    with_gpu(|_, device| {
        let memory = DeviceMemory::new(device, 1 << 16).unwrap();
        let plain = TensorMapSpec {
            element: TensorMapElement::Bf16,
            address: memory.addr(),
            extents: &[128, 16, 4],
            strides_bytes: &[1024, 256],
            box_extents: &[64, 16, 1],
            swizzle: Swizzle::Bytes128,
            l2_promotion: L2Promotion::Bytes256,
        };
        // Each sequence's rows end where the extent of an axis does, whatever their number.
        let ragged = TensorMapSpec {
            extents: &[128, 1 << 30, 4, 0x7fff_0000, 0x7fff_0000],
            strides_bytes: &[1024, 256, (1 << 34) - 1024, 1024],
            box_extents: &[64, 128, 1, 1, 1],
            ..plain
        };
        let largest = TensorMapSpec {
            element: TensorMapElement::U8,
            extents: &[1 << 31],
            strides_bytes: &[],
            box_extents: &[256],
            swizzle: Swizzle::None,
            ..plain
        };
        let current = device.make_current().unwrap();
        for spec in [plain, ragged, largest, TensorMapSpec { address: 0, ..plain }] {
            let mut map = TensorMap::encode(&current, &spec).unwrap();
            let address = memory.addr() + 4096;
            map.replace_address(&current, address).unwrap();
            let anew = TensorMap::encode(&current, &TensorMapSpec { address, ..spec }).unwrap();
            assert_eq!(map, anew, "{spec:?}");
        }
    });
}
