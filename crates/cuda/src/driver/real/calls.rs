//! Each call of the trait as calls of the library.

use std::ffi::{CStr, CString, c_void};

use super::super::layout::{LaunchAttribute, LaunchConfig};
use super::super::{
    CaptureMode, CaptureStatus, ContextHandle, DeviceAttribute, DriverCalls, DriverError,
    EventHandle, FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle, GraphNode,
    ImageKind, LaunchShape, MemoryInfo, ModuleHandle, Result, TensorMap, TensorMapSpec,
};
use super::{RealDriver, check};

/// Calls a function of the table and names it in the error.
macro_rules! call {
    ($driver:ident.$name:ident($($arg:expr),* $(,)?)) => {
        check(stringify!($name), ($driver.table.$name)($($arg),*))
    };
}

impl DriverCalls for RealDriver {
    fn image_kind(&self) -> ImageKind {
        ImageKind::Cubin
    }

    fn driver_get_version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuDriverGetVersion(&raw mut version)) }?;
        Ok(version)
    }

    fn device_get_count(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuDeviceGetCount(&raw mut count)) }?;
        Ok(count)
    }

    fn device_get_name(&self, ordinal: i32) -> Result<String> {
        const LEN: i32 = 256;
        let device = self.device(ordinal)?;
        let mut name = [0_u8; LEN as usize];
        // SAFETY: writes at most the length passed, which is the array's.
        unsafe { call!(self.cuDeviceGetName(name.as_mut_ptr().cast(), LEN, device)) }?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    fn device_get_attribute(&self, attribute: DeviceAttribute, ordinal: i32) -> Result<i32> {
        let device = self.device(ordinal)?;
        let mut value = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuDeviceGetAttribute(&raw mut value, attribute as i32, device)) }?;
        Ok(value)
    }

    fn primary_ctx_retain(&self, ordinal: i32) -> Result<ContextHandle> {
        let device = self.device(ordinal)?;
        let mut context = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuDevicePrimaryCtxRetain(&raw mut context, device)) }?;
        handle("cuDevicePrimaryCtxRetain", context, ContextHandle::from_raw)
    }

    fn ctx_get_current(&self) -> Result<Option<ContextHandle>> {
        let mut context = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuCtxGetCurrent(&raw mut context)) }?;
        Ok(ContextHandle::from_raw(context))
    }

    unsafe fn ctx_push_current(&self, context: ContextHandle) -> Result<()> {
        // SAFETY: the caller's promise that the context lives.
        unsafe { call!(self.cuCtxPushCurrent_v2(context.raw())) }
    }

    fn ctx_pop_current(&self) -> Result<()> {
        let mut context = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuCtxPopCurrent_v2(&raw mut context)) }
    }

    fn ctx_synchronize(&self) -> Result<()> {
        // SAFETY: takes nothing; without a current context it answers with an error.
        unsafe { call!(self.cuCtxSynchronize()) }
    }

    fn stream_create(&self) -> Result<u64> {
        const NON_BLOCKING: u32 = 1;
        let mut stream = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuStreamCreate(&raw mut stream, NON_BLOCKING)) }?;
        Ok(stream)
    }

    unsafe fn stream_destroy(&self, stream: u64) -> Result<()> {
        // SAFETY: the caller's promise that the stream is its own and used no more.
        unsafe { call!(self.cuStreamDestroy_v2(stream)) }
    }

    unsafe fn stream_synchronize(&self, stream: u64) -> Result<()> {
        // SAFETY: the caller's promise that the stream lives.
        unsafe { call!(self.cuStreamSynchronize(stream)) }
    }

    unsafe fn stream_get_ctx(&self, stream: u64) -> Result<ContextHandle> {
        let mut context = 0;
        // SAFETY: the caller's promise that the stream lives; writes to a local.
        unsafe { call!(self.cuStreamGetCtx(stream, &raw mut context)) }?;
        handle("cuStreamGetCtx", context, ContextHandle::from_raw)
    }

    unsafe fn stream_is_capturing(&self, stream: u64) -> Result<CaptureStatus> {
        let mut status = 0;
        // SAFETY: the caller's promise that the stream lives; writes to a local.
        unsafe { call!(self.cuStreamIsCapturing(stream, &raw mut status)) }?;
        match status {
            0 => Ok(CaptureStatus::None),
            1 => Ok(CaptureStatus::Active),
            2 => Ok(CaptureStatus::Invalidated),
            _ => Err(DriverError { call: "cuStreamIsCapturing", code: DriverError::UNKNOWN }),
        }
    }

    unsafe fn stream_begin_capture(&self, stream: u64, mode: CaptureMode) -> Result<()> {
        // SAFETY: the caller's promise that the stream lives.
        unsafe { call!(self.cuStreamBeginCapture_v2(stream, mode as i32)) }
    }

    unsafe fn stream_end_capture(&self, stream: u64) -> Result<GraphHandle> {
        let mut graph = 0;
        // SAFETY: the caller's promise that the stream lives; writes to a local.
        unsafe { call!(self.cuStreamEndCapture(stream, &raw mut graph)) }?;
        handle("cuStreamEndCapture", graph, GraphHandle::from_raw)
    }

    fn thread_exchange_stream_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        let mut mode = mode as i32;
        // SAFETY: reads and writes a local.
        unsafe { call!(self.cuThreadExchangeStreamCaptureMode(&raw mut mode)) }?;
        match mode {
            0 => Ok(CaptureMode::Global),
            1 => Ok(CaptureMode::ThreadLocal),
            2 => Ok(CaptureMode::Relaxed),
            _ => {
                let (call, code) = ("cuThreadExchangeStreamCaptureMode", DriverError::UNKNOWN);
                Err(DriverError { call, code })
            }
        }
    }

    unsafe fn module_load_data(&self, image: &[u8]) -> Result<ModuleHandle> {
        let mut module = 0;
        // SAFETY: the caller's promise that the image is whole; writes to a local.
        unsafe { call!(self.cuModuleLoadData(&raw mut module, image.as_ptr().cast())) }?;
        handle("cuModuleLoadData", module, ModuleHandle::from_raw)
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        // SAFETY: the caller's promise that the module is used no more.
        unsafe { call!(self.cuModuleUnload(module.raw())) }
    }

    unsafe fn module_get_function(
        &self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle> {
        const CALL: &str = "cuModuleGetFunction";
        let not_a_name = |_| DriverError { call: CALL, code: DriverError::INVALID_VALUE };
        let name = CString::new(name).map_err(not_a_name)?;
        let mut raw = 0;
        // SAFETY: the caller's promise that the module is loaded; the name ends in a zero byte;
        // writes to a local.
        unsafe { call!(self.cuModuleGetFunction(&raw mut raw, module.raw(), name.as_ptr())) }?;
        let function = handle(CALL, raw, FunctionHandle::from_raw)?;
        if let Some(load) = self.table.cuFuncLoad {
            // SAFETY: the function is the one just found.
            check("cuFuncLoad", unsafe { load(function.raw()) })?;
        }
        Ok(function)
    }

    unsafe fn func_get_attribute(
        &self,
        attribute: FunctionAttribute,
        function: FunctionHandle,
    ) -> Result<i32> {
        let mut value = 0;
        let (into, attribute) = (&raw mut value, attribute as i32);
        // SAFETY: the caller's promise that the function is loaded; writes to a local.
        unsafe { call!(self.cuFuncGetAttribute(into, attribute, function.raw())) }?;
        Ok(value)
    }

    unsafe fn func_set_attribute(
        &self,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<()> {
        // SAFETY: the caller's promise that the function is loaded.
        unsafe { call!(self.cuFuncSetAttribute(function.raw(), attribute as i32, value)) }
    }

    unsafe fn func_param_bytes(&self, function: FunctionHandle) -> Result<Option<u64>> {
        const CALL: &str = "cuFuncGetParamInfo";
        let Some(get_info) = self.table.cuFuncGetParamInfo else { return Ok(None) };
        let mut end = 0;
        for index in 0.. {
            let (mut offset, mut bytes) = (0, 0);
            let (to_offset, to_bytes) = (&raw mut offset, &raw mut bytes);
            // SAFETY: the caller's promise that the function is loaded; writes to locals.
            let code = unsafe { get_info(function.raw(), index, to_offset, to_bytes) };
            // The documented answer past the last parameter, of which there may be none.
            if code == DriverError::INVALID_VALUE {
                break;
            }
            check(CALL, code)?;
            end = offset + bytes;
        }
        Ok(Some(end as u64))
    }

    unsafe fn launch_kernel_ex(
        &self,
        shape: &LaunchShape,
        stream: u64,
        function: FunctionHandle,
        params: &[u8],
    ) -> Result<()> {
        let mut attributes = [LaunchAttribute::IGNORE; 2];
        let mut num_attributes = 0;
        if shape.cluster != [1; 3] {
            attributes[0] = LaunchAttribute::cluster(shape.cluster);
            num_attributes = 1;
        }
        if shape.programmatic {
            attributes[num_attributes as usize] = LaunchAttribute::programmatic();
            num_attributes += 1;
        }
        let config = LaunchConfig {
            grid: shape.grid,
            block: shape.block,
            dynamic_smem_bytes: shape.dynamic_smem_bytes,
            stream,
            attributes: attributes.as_ptr(),
            num_attributes,
        };
        let params = [params.as_ptr().cast::<c_void>()];
        let (config, params, extra) = (&raw const config, params.as_ptr(), std::ptr::null());
        // SAFETY: the caller's promise about function, parameters and stream; the driver copies
        // config, attributes and parameters, all on this stack, before it returns.
        unsafe { call!(self.cuLaunchKernelEx(config, function.raw(), params, extra)) }
    }

    fn tensor_map_encode_tiled(&self, spec: &TensorMapSpec<'_>) -> Result<TensorMap> {
        const CALL: &str = "cuTensorMapEncodeTiled";
        const ONES: [u32; 5] = [1; 5];
        const NO_INTERLEAVE: u32 = 0;
        const ZEROS_OUTSIDE: u32 = 0;
        let rank = spec.extents.len();
        let fits = (1..=ONES.len()).contains(&rank)
            && spec.strides_bytes.len() == rank - 1
            && spec.box_extents.len() == rank;
        if !fits {
            return Err(DriverError { call: CALL, code: DriverError::INVALID_VALUE });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 5")]
        let rank = rank as u32;
        let mut map = TensorMap([0; 16]);
        // SAFETY: the arrays have as many entries as the rank says (one less for strides), which
        // was looked at above; writes to a local of the size and alignment needed.
        unsafe {
            call!(self.cuTensorMapEncodeTiled(
                &raw mut map,
                spec.element as u32,
                rank,
                spec.address,
                spec.extents.as_ptr(),
                spec.strides_bytes.as_ptr(),
                spec.box_extents.as_ptr(),
                ONES.as_ptr(),
                NO_INTERLEAVE,
                spec.swizzle as u32,
                spec.l2_promotion as u32,
                ZEROS_OUTSIDE,
            ))
        }?;
        Ok(map)
    }

    fn tensor_map_replace_address(&self, map: &mut TensorMap, address: u64) -> Result<()> {
        // SAFETY: the map is 128 bytes, aligned to 128; the address is only written into it.
        unsafe { call!(self.cuTensorMapReplaceAddress(&raw mut *map, address)) }
    }

    fn mem_alloc(&self, bytes: u64) -> Result<u64> {
        let bytes = size("cuMemAlloc_v2", bytes)?;
        let mut address = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuMemAlloc_v2(&raw mut address, bytes)) }?;
        Ok(address)
    }

    unsafe fn mem_free(&self, address: u64) -> Result<()> {
        // SAFETY: the caller's promise that the memory is its own and used no more.
        unsafe { call!(self.cuMemFree_v2(address)) }
    }

    unsafe fn copy_to_device(&self, address: u64, bytes: &[u8], stream: u64) -> Result<()> {
        let (from, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the caller's promise about the device memory; the slice is borrowed until the
        // wait below has ended.
        unsafe { call!(self.cuMemcpyHtoDAsync_v2(address, from, len, stream)) }?;
        // SAFETY: the caller's promise that the stream lives.
        unsafe { self.stream_synchronize(stream) }
    }

    unsafe fn copy_to_host(&self, bytes: &mut [u8], address: u64, stream: u64) -> Result<()> {
        let (to, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the caller's promise about the device memory; the slice is borrowed until the
        // wait below has ended.
        unsafe { call!(self.cuMemcpyDtoHAsync_v2(to, address, len, stream)) }?;
        // SAFETY: the caller's promise that the stream lives.
        unsafe { self.stream_synchronize(stream) }
    }

    unsafe fn memset_d8_async(
        &self,
        address: u64,
        value: u8,
        bytes: u64,
        stream: u64,
    ) -> Result<()> {
        let bytes = size("cuMemsetD8Async", bytes)?;
        // SAFETY: the caller's promise about the device memory and the stream.
        unsafe { call!(self.cuMemsetD8Async(address, value, bytes, stream)) }
    }

    fn pointer_get_attributes(&self, address: u64) -> Result<Option<MemoryInfo>> {
        const MEMORY_TYPE: i32 = 2;
        const DEVICE_ORDINAL: i32 = 9;
        const RANGE_START: i32 = 11;
        const RANGE_SIZE: i32 = 12;
        const HOST: u32 = 1;
        let attributes = [MEMORY_TYPE, DEVICE_ORDINAL, RANGE_START, RANGE_SIZE];
        let (mut kind, mut ordinal, mut base, mut bytes) = (0_u32, 0_i32, 0_u64, 0_usize);
        let into: [*mut c_void; 4] = [
            (&raw mut kind).cast(),
            (&raw mut ordinal).cast(),
            (&raw mut base).cast(),
            (&raw mut bytes).cast(),
        ];
        let (names, into) = (attributes.as_ptr(), into.as_ptr());
        // SAFETY: four names and four places of the type that each name stands for; the address is
        // looked up and not read.
        unsafe { call!(self.cuPointerGetAttributes(4, names, into, address)) }?;
        // An address that the driver does not know gets zeros.
        if kind == 0 {
            return Ok(None);
        }
        let ordinal = (kind != HOST).then_some(ordinal);
        Ok(Some(MemoryInfo { ordinal, base, bytes: bytes as u64 }))
    }

    fn event_create(&self) -> Result<EventHandle> {
        const WITH_TIMING: u32 = 0;
        let mut event = 0;
        // SAFETY: writes to a local.
        unsafe { call!(self.cuEventCreate(&raw mut event, WITH_TIMING)) }?;
        handle("cuEventCreate", event, EventHandle::from_raw)
    }

    unsafe fn event_destroy(&self, event: EventHandle) -> Result<()> {
        // SAFETY: the caller's promise that the event is its own and used no more.
        unsafe { call!(self.cuEventDestroy_v2(event.raw())) }
    }

    unsafe fn event_record(&self, event: EventHandle, stream: u64) -> Result<()> {
        // SAFETY: the caller's promise that both live.
        unsafe { call!(self.cuEventRecord(event.raw(), stream)) }
    }

    unsafe fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        // SAFETY: the caller's promise that the event lives.
        unsafe { call!(self.cuEventSynchronize(event.raw())) }
    }

    unsafe fn event_elapsed_time(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let mut milliseconds = 0.0;
        let (start, end) = (start.raw(), end.raw());
        // SAFETY: the caller's promise that both live; writes to a local.
        unsafe { call!(self.cuEventElapsedTime(&raw mut milliseconds, start, end)) }?;
        Ok(milliseconds)
    }

    unsafe fn graph_get_nodes(&self, graph: GraphHandle) -> Result<Vec<GraphNode>> {
        // SAFETY: the caller's promise that the graph lives.
        unsafe { self.nodes_in_order(graph) }
    }

    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        const NO_FLAGS: u64 = 0;
        let mut exec = 0;
        // SAFETY: the caller's promise that the graph lives; writes to a local.
        unsafe { call!(self.cuGraphInstantiateWithFlags(&raw mut exec, graph.raw(), NO_FLAGS)) }?;
        handle("cuGraphInstantiateWithFlags", exec, GraphExecHandle::from_raw)
    }

    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: u64) -> Result<()> {
        // SAFETY: the caller's promise about the handles and what the graph's work uses.
        unsafe { call!(self.cuGraphLaunch(exec.raw(), stream)) }
    }

    unsafe fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()> {
        // SAFETY: the caller's promise that the handle is its own and used no more.
        unsafe { call!(self.cuGraphExecDestroy(exec.raw())) }
    }

    unsafe fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        // SAFETY: the caller's promise that the handle is its own and used no more.
        unsafe { call!(self.cuGraphDestroy(graph.raw())) }
    }
}

impl RealDriver {
    fn device(&self, ordinal: i32) -> Result<i32> {
        let mut device = 0;
        // SAFETY: the answer is written to a local of the right type.
        check("cuDeviceGet", unsafe { (self.table.cuDeviceGet)(&raw mut device, ordinal) })?;
        Ok(device)
    }
}

/// A handle that a call which succeeded has written.
fn handle<H>(call: &'static str, raw: u64, from_raw: impl FnOnce(u64) -> Option<H>) -> Result<H> {
    from_raw(raw).ok_or(DriverError { call, code: DriverError::UNKNOWN })
}

/// A size that the driver takes as `size_t`.
fn size(call: &'static str, bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| DriverError { call, code: DriverError::INVALID_VALUE })
}
