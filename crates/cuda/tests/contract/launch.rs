//! Modules, functions and the shapes of launches.

use std::sync::Arc;

use frazil_cuda::{DeviceAttribute, Driver, DriverCalls, FunctionAttribute, LaunchShape};

use super::{ADD, Differences, PTX, SHAPE, add_params, call, code, load, load_u32, store_u32};

/// Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA, `.maxntid`,
/// `.reqntid`; `cuLaunchKernelEx`.
pub(crate) fn shapes(driver: &Arc<Driver>) {
    let mut differences = Differences::default();
    let stream = driver.stream_create().unwrap();
    let at = driver.mem_alloc(64).unwrap();
    store_u32(driver, at, 0, stream);
    let (module, add) = load(driver, ADD);
    let function = |name| call!(driver, module_get_function(module, name)).unwrap();
    let (max64, exactly32) = (function("frazil_probe_max64"), function("frazil_probe_exactly32"));
    let major = driver.device_get_attribute(DeviceAttribute::ComputeCapabilityMajor, 0).unwrap();
    let clusters = |expected| if major >= 9 { expected } else { 801 };
    let with = |change: fn(&mut LaunchShape)| {
        let mut shape = SHAPE;
        change(&mut shape);
        shape
    };
    for (what, function, shape, expected) in [
        ("one block", add, SHAPE, 0),
        ("many blocks", add, with(|shape| shape.grid = [64, 3, 2]), 0),
        ("1024 threads along x", add, with(|shape| shape.block = [1024, 1, 1]), 0),
        ("1024 threads along y", add, with(|shape| shape.block = [1, 1024, 1]), 0),
        ("64 threads along z", add, with(|shape| shape.block = [1, 1, 64]), 0),
        ("65 threads along z", add, with(|shape| shape.block = [1, 1, 65]), 1),
        ("1025 threads", add, with(|shape| shape.block = [1025, 1, 1]), 1),
        ("2048 threads", add, with(|shape| shape.block = [64, 32, 1]), 1),
        ("no threads", add, with(|shape| shape.block = [0, 1, 1]), 1),
        ("no blocks", add, with(|shape| shape.grid = [1, 0, 1]), 1),
        ("65536 blocks along y", add, with(|shape| shape.grid = [1, 65_536, 1]), 1),
        ("65536 blocks along z", add, with(|shape| shape.grid = [1, 1, 65_536]), 1),
        ("2^31 blocks along x", add, with(|shape| shape.grid = [1 << 31, 1, 1]), 1),
        ("48 KiB", add, with(|shape| shape.dynamic_smem_bytes = 48 << 10), 0),
        ("48 KiB and a byte", add, with(|shape| shape.dynamic_smem_bytes = (48 << 10) + 1), 1),
        ("64 threads of at most 64", max64, with(|shape| shape.block = [64, 1, 1]), 0),
        ("65 threads of at most 64", max64, with(|shape| shape.block = [65, 1, 1]), 1),
        ("32 threads of exactly 32", exactly32, SHAPE, 0),
        ("31 of exactly 32", exactly32, with(|shape| shape.block = [31, 1, 1]), 1),
        ("a cluster", add, with(|shape| (shape.grid[0], shape.cluster[0]) = (4, 2)), clusters(0)),
        (
            "a grid that is no multiple of the cluster",
            add,
            with(|shape| (shape.grid[0], shape.cluster[0]) = (3, 2)),
            clusters(912),
        ),
        (
            "a cluster of 16",
            add,
            with(|shape| (shape.grid[0], shape.cluster[0]) = (16, 16)),
            clusters(912),
        ),
        ("a programmatic launch", add, with(|shape| shape.programmatic = true), clusters(0)),
    ] {
        // The kernels with limits declare 8 bytes of parameters.
        let params = add_params(at, 1);
        let params = if function == add { &params[..] } else { &params[..8] };
        let launch = call!(driver, launch_kernel_ex(&shape, stream, function, params));
        differences.compare(what, code(launch), expected);
        differences.compare(what, code(call!(driver, stream_synchronize(stream))), 0);
    }
    // Every thread whose x is 0 adds one: 1, 384, 1, 1024, 64, and 1 with 48 KiB; where there are
    // clusters, 4 and 1 more.
    let added = 1475 + if major >= 9 { 5 } else { 0 };
    differences.compare("threads that added", load_u32(driver, at, stream), added);
    call!(driver, mem_free(at)).unwrap();
    call!(driver, module_unload(module)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    differences.assert_none();
}

/// `cuFuncGetAttribute`, `cuFuncSetAttribute`, `cuFuncGetParamInfo`.
pub(crate) fn attributes(driver: &Arc<Driver>) {
    const DYNAMIC: FunctionAttribute = FunctionAttribute::MaxDynamicSharedSizeBytes;
    let mut differences = Differences::default();
    let (module, add) = load(driver, ADD);
    let function = |name| call!(driver, module_get_function(module, name)).unwrap();
    let (with_static, max64) = (function("frazil_probe_static"), function("frazil_probe_max64"));
    let get = |attribute, function| call!(driver, func_get_attribute(attribute, function)).unwrap();
    for (what, found, expected) in [
        ("threads", get(FunctionAttribute::MaxThreadsPerBlock, add), 1024),
        ("threads of at most 64", get(FunctionAttribute::MaxThreadsPerBlock, max64), 64),
        ("static shared memory", get(FunctionAttribute::SharedSizeBytes, with_static), 1024),
        ("no static shared memory", get(FunctionAttribute::SharedSizeBytes, add), 0),
        ("local memory", get(FunctionAttribute::LocalSizeBytes, add), 0),
        ("dynamic shared memory", get(DYNAMIC, add), 48 << 10),
        ("beside static", get(DYNAMIC, with_static), (48 << 10) - 1024),
    ] {
        differences.compare(what, found, expected);
    }
    for (what, function, bytes) in
        [("parameters of two", add, 16), ("parameters of one", with_static, 8)]
    {
        // Drivers before CUDA 12.4 cannot tell.
        if let Some(found) = call!(driver, func_param_bytes(function)).unwrap() {
            differences.compare(what, found, bytes);
        }
    }

    let optin = DeviceAttribute::MaxSharedMemoryPerBlockOptin;
    let optin = driver.device_get_attribute(optin, 0).unwrap();
    let mut set = |what: &str, function, bytes, expected| {
        let found = call!(driver, func_set_attribute(function, DYNAMIC, bytes));
        differences.compare(what, code(found), expected);
    };
    set("more than a block may have", add, optin + 1, 1);
    set("less than nothing", add, -1, 1);
    set("all that a block may have", add, optin, 0);
    set("all of it beside static shared memory", with_static, optin, 1);
    set("the rest beside static shared memory", with_static, optin - 1024, 0);

    // A launch may ask for what was set, and no more.
    let stream = driver.stream_create().unwrap();
    let at = driver.mem_alloc(64).unwrap();
    store_u32(driver, at, 0, stream);
    let mut launch = |what: &str, dynamic_smem_bytes, expected| {
        let (shape, params) = (LaunchShape { dynamic_smem_bytes, ..SHAPE }, add_params(at, 1));
        let found = call!(driver, launch_kernel_ex(&shape, stream, add, &params));
        differences.compare(what, code(found), expected);
    };
    launch("all of it", optin.unsigned_abs(), 0);
    launch("a byte more", optin.unsigned_abs() + 1, 1);
    call!(driver, func_set_attribute(add, DYNAMIC, 1000)).unwrap();
    launch("as little as was set", 1000, 0);
    launch("a byte more than the little that was set", 1001, 1);
    call!(driver, stream_synchronize(stream)).unwrap();
    call!(driver, mem_free(at)).unwrap();
    call!(driver, module_unload(module)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    differences.assert_none();
}

/// `cuModuleLoadData`, `cuModuleGetFunction`; PTX ISA, `.target`.
pub(crate) fn modules(driver: &Arc<Driver>) {
    let mut differences = Differences::default();
    let attribute = |attribute| driver.device_get_attribute(attribute, 0).unwrap();
    let major = attribute(DeviceAttribute::ComputeCapabilityMajor);
    let minor = attribute(DeviceAttribute::ComputeCapabilityMinor);
    let own = format!("sm_{major}{minor}");
    let (next_major, newer) = (format!("sm_{}0", major + 1), format!("sm_{major}{}", minor + 1));
    // Text for a target that a reader of PTX does not know yet is refused as text.
    let newer = [next_major, newer].into_iter().find(|target| KNOWN.contains(&target.as_str()));
    for (target, expected) in [(own, 0)].into_iter().chain(newer.map(|target| (target, 218))) {
        let ptx = PTX.replace(".version 7.0", ".version 8.7").replace("sm_80", &target);
        let module = call!(driver, module_load_data(ptx.as_bytes()));
        differences.compare(&target, code(module), expected);
        if let Ok(module) = module {
            call!(driver, module_unload(module)).unwrap();
        }
    }
    for (what, ptx, expected) in [
        ("no PTX", "no PTX\0", 200),
        ("half a kernel", ".version 7.0\n.target sm_80\n.visible .entry frazil_x(\0", 218),
        (
            "an instruction that there is not",
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry frazil_x()\n{\n\
             frazil.u32 %r1;\nret;\n}\n\0",
            218,
        ),
    ] {
        differences.compare(what, code(call!(driver, module_load_data(ptx.as_bytes()))), expected);
    }
    let (module, function) = load(driver, ADD);
    let again = call!(driver, module_get_function(module, ADD)).unwrap();
    differences.compare("a kernel asked for twice", again, function);
    for (name, expected) in [("frazil_probe_absent", 500), ("", 1)] {
        let absent = call!(driver, module_get_function(module, name));
        differences.compare(&format!("a kernel of the name `{name}`"), code(absent), expected);
    }
    call!(driver, module_unload(module)).unwrap();
    differences.assert_none();
}

/// Targets of PTX 8.7.
const KNOWN: [&str; 7] = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_101", "sm_120"];
