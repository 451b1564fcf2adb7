//! Simulated devices as devices of core.

use frazil_core::target::fixtures;
use frazil_core::{ComputeCapability, DeviceId, DeviceProps, Nvrtc, Target, Toolchain, Version};
use frazil_cuda::sim::{NotSimulated, Simulation};
use frazil_cuda::{CudaDevice, DriverCalls, LaunchShape, simulated};

use crate::contract::{ADD, PTX, SHAPE, add_params, call, code, load, load_u32, store_u32};

/// All that a target says but cuDNN, which is no part of a simulation.
#[test]
fn a_device_is_what_its_target_says() {
    for (name, make) in fixtures::ALL {
        let target = make();
        if !matches!(target.device, DeviceProps::Cuda(_)) {
            let refused = simulated(&target).unwrap_err();
            assert_eq!(refused, NotSimulated::NotCuda(target.device), "{name}");
            continue;
        }
        let device = simulated(&target).unwrap();
        assert_eq!(*device.target(), target, "{name}");
        assert!(matches!(device.id(), DeviceId::Simulated(_)), "{name}");
        assert!(Simulation::of(&device).is_some(), "{name}");
    }
}

#[test]
fn the_compiler_is_the_one_given_and_a_driver_is_needed() {
    let mut target = fixtures::sm86();
    for nvrtc in
        [None, Some(Nvrtc { version: Version::new(12, 2, 0), targets: vec!["sm_80".into()] })]
    {
        target.toolchain.nvrtc = nvrtc.clone();
        assert_eq!(simulated(&target).unwrap().target().toolchain.nvrtc, nvrtc);
    }
    let target = Target { toolchain: Toolchain::default(), ..target };
    assert_eq!(simulated(&target).unwrap_err(), NotSimulated::NoDriver);
}

/// PTX ISA, `.target`, on devices of any compute capability, known or not.
#[test]
fn a_device_runs_what_is_for_it() {
    for (compute_capability, target, expected) in [
        ((8, 0), "sm_80", 0),
        ((9, 0), "sm_80", 0),
        ((13, 7), "sm_80", 0),
        ((7, 5), "sm_80", 218),
        ((9, 0), "sm_90a", 0),
        ((10, 0), "sm_90a", 218),
        ((9, 0), "sm_100a", 218),
        ((10, 3), "sm_100f", 0),
    ] {
        let (major, minor) = compute_capability;
        let mut fixture = fixtures::sm90();
        let DeviceProps::Cuda(props) = &mut fixture.device else { panic!("a GPU") };
        props.compute_capability = ComputeCapability::new(major, minor);
        let device = simulated(&fixture).unwrap();
        let device = CudaDevice::of(&device).unwrap();
        let _current = device.make_current().unwrap();
        let ptx = PTX.replace(".version 7.0", ".version 8.8").replace("sm_80", target);
        let module = call!(device.driver(), module_load_data(ptx.as_bytes()));
        assert_eq!(code(module), expected, "{target} on {major}.{minor}");
    }
}

/// Two devices share neither addresses nor memory, nor a current context, nor captures.
#[test]
fn devices_are_worlds_of_their_own() {
    let devices = [(); 2].map(|()| simulated(&fixtures::sm90()).unwrap());
    assert_ne!(devices[0].id(), devices[1].id());
    let [ours, theirs] = devices.each_ref().map(|device| CudaDevice::of(device).unwrap());
    let _current = ours.make_current().unwrap();
    assert_eq!(theirs.driver().ctx_get_current().unwrap(), None);
    let address = ours.driver().mem_alloc(64).unwrap();
    let stream = ours.driver().stream_create().unwrap();
    call!(ours.driver(), stream_begin_capture(stream, frazil_cuda::CaptureMode::Global)).unwrap();

    let _current = theirs.make_current().unwrap();
    assert_eq!(theirs.driver().pointer_get_attributes(address).unwrap(), None);
    let their_address = theirs.driver().mem_alloc(64).unwrap();
    assert_ne!(their_address, address);
    assert_eq!(code(call!(theirs.driver(), memset_d8_async(address, 0, 64, 0))), 1);

    // No pointer of this process is so high.
    let here = (&raw const stream).addr() as u64;
    assert!(here < address.min(their_address), "{here:#x}");
}

/// The clock of events is the count of instructions, a nanosecond each.
#[test]
fn a_simulation_counts_instructions_and_events_tell_them_as_time() {
    let device = simulated(&fixtures::sm90()).unwrap();
    let simulation = Simulation::of(&device).unwrap();
    let cuda = CudaDevice::of(&device).unwrap();
    let _current = cuda.make_current().unwrap();
    let driver = cuda.driver();
    let (_, function) = load(driver, ADD);
    let at = driver.mem_alloc(4).unwrap();
    store_u32(driver, at, 0, 0);
    let [start, end] = [(); 2].map(|()| driver.event_create().unwrap());
    call!(driver, event_record(start, 0)).unwrap();
    call!(driver, launch_kernel_ex(&SHAPE, 0, function, &add_params(at, 1))).unwrap();
    call!(driver, event_record(end, 0)).unwrap();
    assert_eq!(load_u32(driver, at, 0), 1);
    // The kernel has eight instructions, and its one warp runs each once.
    assert_eq!(simulation.warp_instructions(), 8);
    assert_eq!(call!(driver, event_elapsed_time(start, end)).unwrap(), 8.0 / 1e6);
}

/// Every thread of two warps stores its number to one place. Which warp comes last is the seed's to
/// say, launch by launch.
#[test]
fn a_seed_decides_what_a_race_leaves_and_the_same_one_the_same() {
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n\
               .visible .entry frazil_race(.param .u64 at)\n{\n\
               .reg .b64 %a;\n.reg .b32 %t;\n\
               ld.param.u64 %a, [at];\nmov.u32 %t, %tid.x;\n\
               st.global.u32 [%a], %t;\nret;\n}\n\0";
    let run = |seed| {
        let device = simulated(&fixtures::sm90()).unwrap();
        let cuda = CudaDevice::of(&device).unwrap();
        let _current = cuda.make_current().unwrap();
        let driver = cuda.driver();
        Simulation::of(&device).unwrap().set_seed(seed);
        let module = call!(driver, module_load_data(ptx.as_bytes())).unwrap();
        let function = call!(driver, module_get_function(module, "frazil_race")).unwrap();
        let at = driver.mem_alloc(4).unwrap();
        let shape = LaunchShape { block: [64, 1, 1], ..SHAPE };
        let left = |_| {
            call!(driver, launch_kernel_ex(&shape, 0, function, &at.to_ne_bytes())).unwrap();
            load_u32(driver, at, 0) / 32
        };
        (0..16).map(left).collect::<Vec<_>>()
    };
    let first = run(1);
    assert!(first.contains(&0) && first.contains(&1), "either warp may be the last: {first:?}");
    assert_eq!(run(1), first);
    assert_ne!(run(100), first);
}

#[test]
fn a_launch_that_does_not_end_is_a_timeout() {
    let device = simulated(&fixtures::sm90()).unwrap();
    let cuda = CudaDevice::of(&device).unwrap();
    let _current = cuda.make_current().unwrap();
    let driver = cuda.driver();
    Simulation::of(&device).unwrap().set_instruction_limit(1000);
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n\
               .visible .entry frazil_for_ever(.param .b8 a[1])\n{\nL: bra L;\n}\n\0";
    let module = call!(driver, module_load_data(ptx.as_bytes())).unwrap();
    let function = call!(driver, module_get_function(module, "frazil_for_ever")).unwrap();
    call!(driver, launch_kernel_ex(&SHAPE, 0, function, &[0])).unwrap();
    assert_eq!(code(driver.ctx_synchronize()), 702);
    let findings = Simulation::of(&device).unwrap().findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
}
