//! Contexts: what needs one, and whose it is.

use std::sync::Arc;

use frazil_cuda::{
    CaptureMode, Driver, DriverCalls, FunctionAttribute, L2Promotion, Swizzle, TensorMapElement,
    TensorMapSpec,
};

use super::{ADD, Current, Differences, PTX, SHAPE, add_params, call, code, load};

/// On a thread without a context.
pub(crate) fn absent(driver: &Arc<Driver>) {
    const NO_CONTEXT: i32 = 201;
    let mut differences = Differences::default();
    let stream = driver.stream_create().unwrap();
    let memory = driver.mem_alloc(64).unwrap();
    call!(driver, memset_d8_async(memory, 0, 64, stream)).unwrap();
    let (_, function) = load(driver, ADD);
    let context = driver.ctx_get_current().unwrap();
    std::thread::scope(|scope| {
        let mut row = |what: &str, found, expected| differences.compare(what, found, expected);
        let thread = scope.spawn(move || {
            row("the current context", code(driver.ctx_get_current()), 0);
            row("none is there", driver.ctx_get_current().unwrap().is_none().into(), 1);
            row("a pop of none", code(driver.ctx_pop_current()), NO_CONTEXT);
            row("an allocation", code(driver.mem_alloc(64)), NO_CONTEXT);
            row("a stream", code(driver.stream_create()), NO_CONTEXT);
            row("an event", code(driver.event_create()), NO_CONTEXT);
            row("a wait for the context", code(driver.ctx_synchronize()), NO_CONTEXT);
            let module = call!(driver, module_load_data(PTX.as_bytes()));
            row("a load", code(module), NO_CONTEXT);
            row("the legacy stream's context", code(call!(driver, stream_get_ctx(0))), NO_CONTEXT);
            let fill = call!(driver, memset_d8_async(memory, 0, 64, 0));
            row("a fill on the legacy stream", code(fill), NO_CONTEXT);
            let params = add_params(memory, 0);
            let launch = call!(driver, launch_kernel_ex(&SHAPE, 0, function, &params));
            row("a launch on the legacy stream", code(launch), NO_CONTEXT);

            let map = driver.tensor_map_encode_tiled(&TensorMapSpec {
                element: TensorMapElement::F32,
                address: memory,
                extents: &[4],
                strides_bytes: &[],
                box_extents: &[4],
                swizzle: Swizzle::None,
                l2_promotion: L2Promotion::None,
            });
            row("a tensor map", code(map), NO_CONTEXT);

            // These need none.
            let mode = driver.thread_exchange_stream_capture_mode(CaptureMode::Global);
            row("the thread's mode", code(mode), 0);
            row("the primary context", code(driver.primary_ctx_retain(0)), 0);
            row("the number of GPUs", code(driver.device_get_count()), 0);
            let of_stream = call!(driver, stream_get_ctx(stream));
            row("a stream's context", code(of_stream), 0);
            let same = of_stream.ok() == context;
            row("it is the one the stream was made in", same.into(), 1);
            // A stream carries its context (measured for a launch).
            let launch = call!(driver, launch_kernel_ex(&SHAPE, stream, function, &params));
            row("a launch on a stream", code(launch), 0);
            let fill = call!(driver, memset_d8_async(memory, 0, 64, stream));
            row("a fill on a stream", code(fill), 0);
            let wait = call!(driver, stream_synchronize(stream));
            row("a wait for a stream", code(wait), 0);
            let status = call!(driver, stream_is_capturing(stream));
            row("a stream's status", code(status), 0);
            // So does a function (measured).
            let attribute = FunctionAttribute::SharedSizeBytes;
            let threads = call!(driver, func_get_attribute(attribute, function));
            row("an attribute of a function", code(threads), 0);
        });
        thread.join().unwrap();
    });
    call!(driver, mem_free(memory)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    differences.assert_none();
}

/// `cuCtxPushCurrent`, `cuCtxPopCurrent`.
pub(crate) fn stacked(driver: &Arc<Driver>) {
    let context = driver.ctx_get_current().unwrap();
    assert_eq!(context, Some(driver.primary_ctx_retain(0).unwrap()), "one context a GPU");
    {
        let _again = Current::new(Arc::clone(driver));
        assert_eq!(driver.ctx_get_current().unwrap(), context);
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| driver.ctx_get_current().unwrap()).join().unwrap();
            assert_eq!(seen, None, "a thread starts without");
        });
    }
    assert_eq!(driver.ctx_get_current().unwrap(), context, "a pop gives back the one before");
}
