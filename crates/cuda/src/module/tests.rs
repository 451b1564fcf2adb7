//! Loading and launching on a driver that writes down what it is told.

use std::sync::Barrier;

use frazil_core::{Stream, Version};

use super::*;
use crate::driver::fake::{Fake, PARAM_BYTES};

type Params = [u64; 2];
const _: () = assert!(size_of::<Params>() == PARAM_BYTES);

const KERNEL: &str = "frazil_test_kernel";

fn artifact(key: u8) -> Artifact {
    Artifact {
        key: Key([key; 32]),
        kind: ImageKind::Cubin,
        image: b"\x7fELF and more".to_vec(),
        symbols: vec![KERNEL.into(), "frazil_test_other".into()],
        resources: None,
        compiler: Version::new(13, 0, 0),
    }
}

fn device(fake: &Fake, ordinal: u32) -> CudaDevice {
    CudaDevice::open(fake.driver(), ordinal, None).unwrap()
}

fn load<P: NoUninit>(
    device: &CudaDevice,
    artifact: &Artifact,
    dynamic_smem_bytes: u32,
) -> Result<Kernel<P>, LoadError> {
    // SAFETY: the fake reads neither image nor parameters but as bytes of the length that it states.
    unsafe { device.load(artifact, KERNEL, dynamic_smem_bytes) }
}

const SHAPE: LaunchShape = LaunchShape {
    grid: [4, 2, 1],
    block: [128, 1, 1],
    cluster: [1; 3],
    dynamic_smem_bytes: 0,
    programmatic: false,
};

#[test]
fn a_module_is_loaded_once_in_a_context_and_never_unloaded() {
    let fake = Fake::start();
    let (first, second) = (device(&fake, 0), device(&fake, 1));
    for (device, key, loads) in [
        (&first, 1, 1),
        (&first, 1, 1),
        (&first.clone(), 1, 1),
        (&first, 2, 2),
        (&second, 1, 3),
        (&second, 1, 3),
    ] {
        drop(load::<Params>(device, &artifact(key), 0).unwrap());
        assert_eq!(fake.count("cuModuleLoadData"), loads);
    }
    drop((first, second));
    assert_eq!(fake.count("cuModuleUnload"), 0);
    assert!(fake.contexts().is_empty(), "no context is left behind");
}

#[test]
fn of_threads_that_ask_at_once_one_loads() {
    let fake = Fake::start();
    let device = device(&fake, 0);
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                load::<Params>(&device, &artifact(1), 0).unwrap();
            });
        }
    });
    assert_eq!(fake.count("cuModuleLoadData"), 1);
}

/// What is promised beside somebody's capture in GLOBAL mode is promised to relaxed threads.
#[test]
fn a_load_happens_in_relaxed_mode_with_the_device_current() {
    let fake = Fake::start();
    load::<Params>(&device(&fake, 0), &artifact(1), 0).unwrap();
    let calls = fake.state(|state| state.calls.clone());
    let at = |call| calls.iter().position(|made| *made == call).unwrap();
    let exchanges =
        calls.iter().filter(|call| **call == "cuThreadExchangeStreamCaptureMode").count();
    assert_eq!(exchanges, 2);
    assert!(at("cuThreadExchangeStreamCaptureMode") < at("cuModuleLoadData"), "{calls:?}");
    assert!(at("cuCtxPushCurrent_v2") < at("cuModuleLoadData"), "{calls:?}");
    assert!(at("cuModuleGetFunction") < at("cuFuncLoad"), "nothing is left to the first launch");
    assert_eq!(fake.mode(), 0);
}

#[test]
fn whichever_call_of_a_load_fails_context_and_mode_come_back_and_it_may_be_tried_again() {
    for call in [
        "cuDevicePrimaryCtxRetain",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuThreadExchangeStreamCaptureMode",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncLoad",
        "cuFuncGetAttribute",
        "cuFuncSetAttribute",
        "cuFuncGetParamInfo",
    ] {
        let fake = Fake::start();
        let device = device(&fake, 0);
        fake.set_contexts(&[5]);
        fake.fail(call, 999);
        let error = load::<Params>(&device, &artifact(1), 100_000).unwrap_err();
        let expected = DriverError { call, code: 999 };
        assert_eq!(error, LoadError::Driver { kernel: KERNEL.into(), error: expected });
        assert_eq!((fake.contexts(), fake.mode()), (vec![5], 0), "{call}");
        fake.state(|state| state.failures.clear());
        load::<Params>(&device, &artifact(1), 100_000).unwrap();
        assert_eq!((fake.contexts(), fake.mode()), (vec![5], 0), "{call}");
        let loads = if call == "cuModuleLoadData" { 2 } else { 1 };
        assert_eq!(fake.count("cuModuleLoadData"), loads, "{call}");
    }
}

#[test]
fn what_an_artifact_is_not_is_told_before_the_driver_sees_it() {
    let fake = Fake::start();
    let device = device(&fake, 0);
    let kernel = || KERNEL.to_owned();
    let with = |change: fn(&mut Artifact)| {
        let mut artifact = artifact(1);
        change(&mut artifact);
        load::<Params>(&device, &artifact, 0).unwrap_err()
    };
    assert_eq!(
        with(|artifact| artifact.symbols.clear()),
        LoadError::NoSuchKernel { kernel: kernel(), key: Key([1; 32]), found: vec![] }
    );
    let (found, need) = (ImageKind::Cubin, ImageKind::Ptx);
    assert_eq!(
        check(&artifact(1), KERNEL, need),
        Err(LoadError::ImageKind { kernel: kernel(), found, need })
    );
    for kind in [ImageKind::Cubin, ImageKind::Ptx] {
        let mut artifact = artifact(1);
        (artifact.kind, artifact.image) = (kind, b"neither".to_vec());
        let error = load::<Params>(&device, &artifact, 0).unwrap_err();
        assert_eq!(error, LoadError::Image { kernel: kernel(), kind });
    }
    assert_eq!(fake.count("cuModuleLoadData"), 0);
}

#[test]
fn a_parameter_struct_of_another_size_is_refused() {
    let fake = Fake::start();
    let error = load::<[u64; 3]>(&device(&fake, 0), &artifact(1), 0).unwrap_err();
    let expected = LoadError::Params { kernel: KERNEL.into(), kernel_bytes: 16, host_bytes: 24 };
    assert_eq!(error, expected);
    let error = Error::from(error);
    assert!(matches!(&error, Error::Kernel { kernel, .. } if kernel == KERNEL), "{error}");
}

/// The limit belongs to the function, which several plans share.
#[test]
fn the_limit_of_dynamic_shared_memory_is_raised_and_never_lowered() {
    let fake = Fake::start();
    let device = device(&fake, 0);
    let mut function = None;
    for (bytes, sets) in [(0, 0), (100_000, 1), (50_000, 1), (200_000, 2), (100_000, 2)] {
        let kernel = load::<Params>(&device, &artifact(1), bytes).unwrap();
        assert_eq!(fake.count("cuFuncSetAttribute"), sets, "{bytes}");
        assert_eq!(*function.get_or_insert(kernel.function), kernel.function);
    }
    let error = load::<Params>(&device, &artifact(1), 300_000).unwrap_err();
    let expected = DriverError { call: "cuFuncSetAttribute", code: 1 };
    assert_eq!(error, LoadError::Driver { kernel: KERNEL.into(), error: expected });
}

#[test]
fn a_launch_is_one_call_with_the_bytes_of_its_parameters() {
    let fake = Fake::start();
    let device = device(&fake, 0);
    fake.state(|state| state.streams.extend([(70, 1000), (71, 1001)]));
    let kernel = load::<Params>(&device, &artifact(1), 0).unwrap();
    assert_eq!(kernel.resources().max_threads_per_block, 1024);
    // SAFETY: the fake knows the stream.
    let queue = device.queue(unsafe { Stream::from_raw(70) }).unwrap();
    let before = fake.state(|state| state.calls.len());
    // SAFETY: the fake writes the launch down.
    unsafe { kernel.launch(&queue, &SHAPE, &[7, 9]) }.unwrap();
    assert_eq!(fake.state(|state| state.calls[before..].to_vec()), ["cuLaunchKernelEx"]);
    let launched = fake.state(|state| state.launches.pop()).unwrap();
    assert_eq!((launched.stream, launched.grid), (70, [4, 2, 1]));
    assert_eq!(launched.params, [7_u64, 9].map(u64::to_ne_bytes).concat());

    fake.fail("cuLaunchKernelEx", 719);
    // SAFETY: the fake launches nothing.
    let error = unsafe { kernel.launch(&queue, &SHAPE, &[7, 9]) }.unwrap_err();
    let text = "cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_FAILED (719)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_kernel_is_not_launched_on_another_device() {
    let fake = Fake::start();
    fake.state(|state| state.streams.extend([(70, 1000), (71, 1001)]));
    let kernel = load::<Params>(&device(&fake, 0), &artifact(1), 0).unwrap();
    let other = device(&fake, 1);
    // SAFETY: the fake knows the stream.
    let queue = other.queue(unsafe { Stream::from_raw(71) }).unwrap();
    // SAFETY: nothing is launched.
    let error = unsafe { kernel.launch(&queue, &SHAPE, &[7, 9]) }.unwrap_err();
    let Error::WrongDevice { found, need } = error else { panic!("{error}") };
    assert_eq!((found.as_str(), need.as_str()), ("cuda:1", "cuda:0"));
    assert_eq!(fake.count("cuLaunchKernelEx"), 0);
}
