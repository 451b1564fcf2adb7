//! What a GPU leaves undefined: an error, and kept.

use frazil_core::Version;
use frazil_core::target::fixtures;
use frazil_core::{ComputeCapability, DeviceProps};
use frazil_cuda::sim::{Misuse, SimulatedDriver};
use frazil_cuda::{CaptureMode, Driver, DriverCalls, DriverError, ImageKind, ModuleHandle};

use crate::contract::{ADD, Current, PTX, SHAPE, add_params, call, code, load};
use crate::{gpus, h200, open, simulation};

const INVALID_HANDLE: i32 = 400;

/// The one misuse, which is forgotten.
fn misuse(driver: &Driver) -> Misuse {
    let simulation = simulation(driver);
    let misuses = simulation.misuses();
    simulation.forget();
    assert_eq!(misuses.len(), 1, "{misuses:?}");
    misuses[0].clone()
}

#[test]
fn a_handle_that_was_destroyed_is_told_by_its_kind() {
    let current = h200();
    let driver = &current.0;
    let stream = driver.stream_create().unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    let event = driver.event_create().unwrap();
    call!(driver, event_destroy(event)).unwrap();
    let (module, function) = load(driver, ADD);
    call!(driver, module_unload(module)).unwrap();
    let other = driver.stream_create().unwrap();
    call!(driver, stream_begin_capture(other, CaptureMode::Relaxed)).unwrap();
    let graph = call!(driver, stream_end_capture(other)).unwrap();
    let exec = call!(driver, graph_instantiate(graph)).unwrap();
    call!(driver, graph_destroy(graph)).unwrap();
    call!(driver, graph_exec_destroy(exec)).unwrap();
    let params = add_params(0, 0);
    let rows: [(&str, u64, Result<(), DriverError>); 7] = [
        ("stream", stream, call!(driver, stream_synchronize(stream))),
        ("stream", 77, call!(driver, memset_d8_async(0, 0, 0, 77))),
        ("event", event.raw(), call!(driver, event_record(event, other))),
        (
            "function",
            function.raw(),
            call!(driver, launch_kernel_ex(&SHAPE, other, function, &params)),
        ),
        ("module", module.raw(), call!(driver, module_unload(module))),
        ("graph", graph.raw(), call!(driver, graph_instantiate(graph)).map(drop)),
        ("executable graph", exec.raw(), call!(driver, graph_launch(exec, other))),
    ];
    let expected: Vec<_> =
        rows.iter().map(|&(what, handle, _)| Misuse::DeadHandle { what, handle }).collect();
    assert_eq!(simulation(driver).misuses(), expected);
    for (what, _, answer) in rows {
        assert_eq!(code(answer), INVALID_HANDLE, "{what}");
    }
}

/// A handle of one driver is none of another's.
#[test]
fn handles_are_those_of_one_driver() {
    let (ours, theirs) = (h200(), h200());
    let event = theirs.0.event_create().unwrap();
    let stream = theirs.0.stream_create().unwrap();
    assert_eq!(code(call!(ours.0, event_synchronize(event))), INVALID_HANDLE);
    assert_eq!(code(call!(ours.0, stream_synchronize(stream))), INVALID_HANDLE);
    let context = theirs.0.primary_ctx_retain(0).unwrap();
    assert_eq!(code(call!(ours.0, ctx_push_current(context))), 201);
    let module = ModuleHandle::from_raw(0x1234).unwrap();
    assert_eq!(code(call!(ours.0, module_unload(module))), INVALID_HANDLE);
    assert_eq!(simulation(&theirs.0).misuses(), [], "theirs are as they were");
    call!(theirs.0, event_synchronize(event)).unwrap();
    call!(theirs.0, stream_synchronize(stream)).unwrap();
}

/// On a GPU a replay after the unload is undefined: the graph keeps the function and not its code.
#[test]
fn a_graph_whose_kernel_was_unloaded_is_not_replayed() {
    let current = h200();
    let driver = &current.0;
    let stream = driver.stream_create().unwrap();
    let at = driver.mem_alloc(4).unwrap();
    call!(driver, memset_d8_async(at, 0, 4, stream)).unwrap();
    let (module, function) = load(driver, ADD);
    call!(driver, stream_begin_capture(stream, CaptureMode::Relaxed)).unwrap();
    call!(driver, launch_kernel_ex(&SHAPE, stream, function, &add_params(at, 1))).unwrap();
    let graph = call!(driver, stream_end_capture(stream)).unwrap();
    let exec = call!(driver, graph_instantiate(graph)).unwrap();
    call!(driver, graph_launch(exec, stream)).unwrap();
    call!(driver, stream_synchronize(stream)).unwrap();

    call!(driver, module_unload(module)).unwrap();
    let unloaded = Misuse::UnloadedKernel { kernel: ADD.into() };
    assert_eq!(code(call!(driver, graph_launch(exec, stream))), INVALID_HANDLE);
    assert_eq!(misuse(driver), unloaded);
    assert_eq!(code(call!(driver, graph_instantiate(graph))), INVALID_HANDLE);
    assert_eq!(misuse(driver), unloaded);
    // Another module of the same text is no help, and the context goes on.
    load(driver, ADD);
    assert_eq!(code(call!(driver, graph_launch(exec, stream))), INVALID_HANDLE);
    call!(driver, stream_synchronize(stream)).unwrap();
}

#[test]
fn parameters_of_another_size_are_refused() {
    let current = h200();
    let driver = &current.0;
    let (_, function) = load(driver, ADD);
    for found in [0, 15, 17] {
        let launch = call!(driver, launch_kernel_ex(&SHAPE, 0, function, &vec![0; found]));
        assert_eq!(code(launch), 1);
        let kernel = ADD.into();
        let found = found as u64;
        assert_eq!(misuse(driver), Misuse::ParameterBytes { kernel, found, declared: 16 });
    }
}

#[test]
fn a_graph_that_fills_memory_after_its_free_is_a_fault() {
    let current = h200();
    let driver = &current.0;
    let stream = driver.stream_create().unwrap();
    let address = driver.mem_alloc(64).unwrap();
    call!(driver, stream_begin_capture(stream, CaptureMode::Relaxed)).unwrap();
    call!(driver, memset_d8_async(address, 1, 64, stream)).unwrap();
    let graph = call!(driver, stream_end_capture(stream)).unwrap();
    let exec = call!(driver, graph_instantiate(graph)).unwrap();
    call!(driver, graph_launch(exec, stream)).unwrap();
    call!(driver, mem_free(address)).unwrap();
    assert_eq!(code(call!(driver, graph_launch(exec, stream))), 0, "a launch does not wait");
    assert_eq!(misuse(driver), Misuse::DeadFill { address, bytes: 64 });
    assert_eq!(code(call!(driver, stream_synchronize(stream))), 700);
}

#[test]
fn memory_is_freed_once_by_its_first_address() {
    let current = h200();
    let driver = &current.0;
    let address = driver.mem_alloc(256).unwrap();
    for wrong in [0, address - 1, address + 1, address + 256] {
        assert_eq!(code(call!(driver, mem_free(wrong))), 1, "{wrong:#x}");
    }
    call!(driver, mem_free(address)).unwrap();
    assert_eq!(code(call!(driver, mem_free(address))), 1);
    assert_ne!(driver.mem_alloc(256).unwrap(), address, "addresses are not used twice");
}

#[test]
fn copies_and_fills_keep_to_their_allocation() {
    let current = h200();
    let driver = &current.0;
    let [first, second] = [(); 2].map(|()| driver.mem_alloc(256).unwrap());
    assert!(second >= first + 512, "a gap in which nothing lies");
    for (address, bytes) in [(first, 257), (first + 256, 1), (first - 1, 2), (second + 255, 2)] {
        let mut buffer = vec![0; bytes];
        let len = bytes as u64;
        assert_eq!(code(call!(driver, copy_to_device(address, &buffer, 0))), 1);
        assert_eq!(code(call!(driver, copy_to_host(&mut buffer, address, 0))), 1);
        assert_eq!(code(call!(driver, memset_d8_async(address, 0, len, 0))), 1);
    }
    call!(driver, memset_d8_async(first, 0, u64::MAX, 0)).unwrap_err();
    call!(driver, memset_d8_async(first, 0, 256, 0)).unwrap();
}

#[test]
fn bytes_that_nobody_wrote_are_nan_and_told_when_a_kernel_reads_them() {
    let current = h200();
    let driver = &current.0;
    let at = driver.mem_alloc(16).unwrap();
    let mut bytes = [0; 16];
    call!(driver, copy_to_host(&mut bytes, at, 0)).unwrap();
    assert_eq!(bytes, [0xff; 16]);
    assert!(f32::from_ne_bytes([0xff; 4]).is_nan());
    assert_eq!(simulation(driver).findings(), [], "a copy is no error");

    let (_, function) = load(driver, ADD);
    call!(driver, launch_kernel_ex(&SHAPE, 0, function, &add_params(at, 1))).unwrap();
    driver.ctx_synchronize().unwrap();
    let findings = simulation(driver).findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    let text = findings[0].to_string();
    assert!(text.starts_with("frazil_probe_add: ") && text.contains("nobody wrote"), "{text}");
    // Written by the host, they are read without a word.
    simulation(driver).forget();
    call!(driver, memset_d8_async(at, 0, 4, 0)).unwrap();
    call!(driver, launch_kernel_ex(&SHAPE, 0, function, &add_params(at, 1))).unwrap();
    assert_eq!(simulation(driver).findings(), []);
}

#[test]
fn images_are_ptx_text_that_ends() {
    let current = h200();
    let driver = &current.0;
    assert_eq!(driver.image_kind(), ImageKind::Ptx);
    let text = PTX.trim_end_matches('\0');
    assert_eq!(code(call!(driver, module_load_data(text.as_bytes()))), 200);
    assert_eq!(misuse(driver), Misuse::UnendedPtx);
    assert_eq!(code(call!(driver, module_load_data(b"\x7fELF\0"))), 209);
    assert_eq!(code(call!(driver, module_load_data(b"\xff\xfe\0"))), 200);
    let unknown = PTX.replace("atom.global.add.u32", "atom.global.frazil.u32");
    assert_eq!(code(call!(driver, module_load_data(unknown.as_bytes()))), 218);
    let errors = simulation(driver).load_errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().contains("atom.global.frazil.u32"), "{}", errors[0]);
    // What follows the zero byte is not looked at.
    let followed = format!("{PTX}anything");
    call!(driver, module_load_data(followed.as_bytes())).unwrap();
}

/// NVIDIA Warp, `capture_begin`: drivers from CUDA 12.3 on load modules during a capture.
#[test]
fn a_load_under_a_capture_needs_a_driver_of_cuda_12_3() {
    let DeviceProps::Cuda(props) = fixtures::sm90().device else { panic!("a GPU") };
    for (version, expected) in
        [(Version::new(12, 2, 0), 900), (Version::new(12, 3, 0), 0), (Version::new(13, 0, 0), 0)]
    {
        let driver = SimulatedDriver::new(props.clone(), version);
        let current = Current::new(std::sync::Arc::new(driver.into()));
        let driver = &current.0;
        let stream = driver.stream_create().unwrap();
        call!(driver, stream_begin_capture(stream, CaptureMode::Global)).unwrap();
        let found = code(call!(driver, module_load_data(PTX.as_bytes())));
        assert_eq!(found, expected, "{version}");
    }
}

/// Zeros are no map, which matters only where there are maps.
#[test]
fn a_tensor_map_is_not_moved_on_a_device_that_has_none() {
    for props in gpus() {
        let has_maps = props.compute_capability >= ComputeCapability::new(9, 0);
        let expected = if has_maps { 1 } else { 801 };
        let name = props.name.clone();
        let current = Current::new(open(props));
        let mut map = frazil_cuda::TensorMap([0; 16]);
        assert_eq!(code(current.0.tensor_map_replace_address(&mut map, 0)), expected, "{name}");
    }
}
