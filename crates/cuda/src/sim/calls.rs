//! The driver's calls over the state: which need the context, in which order things are checked.

use frazil_core::Version;

use super::code::Code;
use super::event::Recorded;
use super::{SimulatedDriver, tensor_map};
use crate::driver::Result;
use crate::{
    CaptureMode, CaptureStatus, ContextHandle, DeviceAttribute, DriverCalls, EventHandle,
    FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle, GraphNode, ImageKind,
    LaunchShape, MemoryInfo, ModuleHandle, TensorMap, TensorMapSpec,
};

impl DriverCalls for SimulatedDriver {
    fn image_kind(&self) -> ImageKind {
        ImageKind::Ptx
    }

    fn driver_get_version(&self) -> Result<i32> {
        let Version { major, minor, .. } = self.version;
        let version = i32::try_from(1000 * u64::from(major) + 10 * u64::from(minor));
        self.call("cuDriverGetVersion", |_| version.map_err(|_| Code::INVALID_VALUE))
    }

    fn device_get_count(&self) -> Result<i32> {
        Ok(1)
    }

    fn device_get_name(&self, ordinal: i32) -> Result<String> {
        self.call("cuDeviceGet", |_| only_device(ordinal))?;
        Ok(self.props.name.clone())
    }

    fn device_get_attribute(&self, attribute: DeviceAttribute, ordinal: i32) -> Result<i32> {
        self.call("cuDeviceGet", |_| only_device(ordinal))?;
        let props = &self.props;
        let value = match attribute {
            DeviceAttribute::MultiprocessorCount => props.num_sms.into(),
            DeviceAttribute::L2CacheSize => props.l2_bytes,
            DeviceAttribute::ComputeCapabilityMajor => props.compute_capability.major.into(),
            DeviceAttribute::ComputeCapabilityMinor => props.compute_capability.minor.into(),
            DeviceAttribute::MaxSharedMemoryPerMultiprocessor => props.smem_per_sm_bytes.into(),
            DeviceAttribute::MaxSharedMemoryPerBlockOptin => props.smem_per_block_bytes.into(),
        };
        let value = i32::try_from(value);
        self.call("cuDeviceGetAttribute", |_| value.map_err(|_| Code::INVALID_VALUE))
    }

    fn primary_ctx_retain(&self, ordinal: i32) -> Result<ContextHandle> {
        self.call("cuDeviceGet", |_| only_device(ordinal))?;
        self.call("cuDevicePrimaryCtxRetain", |state| {
            state.retained = true;
            Ok(state.context)
        })
    }

    fn ctx_get_current(&self) -> Result<Option<ContextHandle>> {
        self.call("cuCtxGetCurrent", |state| Ok(state.threads.current()))
    }

    unsafe fn ctx_push_current(&self, context: ContextHandle) -> Result<()> {
        self.call("cuCtxPushCurrent_v2", |state| {
            if !state.retained || context != state.context {
                return Err(Code::INVALID_CONTEXT);
            }
            state.threads.push(context);
            Ok(())
        })
    }

    fn ctx_pop_current(&self) -> Result<()> {
        self.call("cuCtxPopCurrent_v2", |state| state.threads.pop())
    }

    fn ctx_synchronize(&self) -> Result<()> {
        self.call("cuCtxSynchronize", |state| {
            state.ready()?;
            state.forbid_any_capture()?;
            state.surface_fault()
        })
    }

    fn stream_create(&self) -> Result<u64> {
        self.call("cuStreamCreate", |state| {
            state.ready()?;
            Ok(state.stream_create())
        })
    }

    unsafe fn stream_destroy(&self, stream: u64) -> Result<()> {
        self.call("cuStreamDestroy_v2", |state| {
            state.ready_on(stream)?;
            state.stream_destroy(stream)
        })
    }

    unsafe fn stream_synchronize(&self, stream: u64) -> Result<()> {
        self.call("cuStreamSynchronize", |state| {
            state.ready_on(stream)?;
            state.stream_synchronize(stream)
        })
    }

    unsafe fn stream_get_ctx(&self, stream: u64) -> Result<ContextHandle> {
        self.call("cuStreamGetCtx", |state| match state.stream(stream)? {
            super::capture::StreamKey::Created(_) => Ok(state.context),
            _ => state.threads.current().ok_or(Code::INVALID_CONTEXT),
        })
    }

    unsafe fn stream_is_capturing(&self, stream: u64) -> Result<CaptureStatus> {
        self.call("cuStreamIsCapturing", |state| {
            state.ready_on(stream)?;
            state.capture_status(stream)
        })
    }

    unsafe fn stream_begin_capture(&self, stream: u64, mode: CaptureMode) -> Result<()> {
        self.call("cuStreamBeginCapture_v2", |state| {
            state.ready_on(stream)?;
            state.begin_capture(stream, mode)
        })
    }

    unsafe fn stream_end_capture(&self, stream: u64) -> Result<GraphHandle> {
        self.call("cuStreamEndCapture", |state| {
            state.ready_on(stream)?;
            let work = state.end_capture(stream)?;
            state.new_graph(work)
        })
    }

    fn thread_exchange_stream_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        self.call("cuThreadExchangeStreamCaptureMode", |state| {
            Ok(state.threads.exchange_mode(mode))
        })
    }

    unsafe fn module_load_data(&self, image: &[u8]) -> Result<ModuleHandle> {
        self.call("cuModuleLoadData", |state| {
            state.ready()?;
            state.module_load(image)
        })
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        self.call("cuModuleUnload", |state| {
            state.ready()?;
            state.module_unload(module)
        })
    }

    unsafe fn module_get_function(
        &self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle> {
        self.call("cuModuleGetFunction", |state| {
            state.ready()?;
            state.module_function(module, name)
        })
    }

    unsafe fn func_get_attribute(
        &self,
        attribute: FunctionAttribute,
        function: FunctionHandle,
    ) -> Result<i32> {
        self.call("cuFuncGetAttribute", |state| {
            state.alive()?;
            state.function_attribute(attribute, function)
        })
    }

    unsafe fn func_set_attribute(
        &self,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<()> {
        self.call("cuFuncSetAttribute", |state| {
            state.alive()?;
            state.set_function_attribute(function, attribute, value)
        })
    }

    unsafe fn func_param_bytes(&self, function: FunctionHandle) -> Result<Option<u64>> {
        self.call("cuFuncGetParamInfo", |state| {
            state.alive()?;
            state.param_bytes(function).map(Some)
        })
    }

    unsafe fn launch_kernel_ex(
        &self,
        shape: &LaunchShape,
        stream: u64,
        function: FunctionHandle,
        params: &[u8],
    ) -> Result<()> {
        self.call("cuLaunchKernelEx", |state| {
            state.ready_on(stream)?;
            state.launch(shape, stream, function, params)
        })
    }

    fn tensor_map_encode_tiled(&self, spec: &TensorMapSpec<'_>) -> Result<TensorMap> {
        self.call("cuTensorMapEncodeTiled", |state| {
            state.ready()?;
            state.has_tensor_maps()?;
            tensor_map::encode(spec)
        })
    }

    fn tensor_map_replace_address(&self, map: &mut TensorMap, address: u64) -> Result<()> {
        self.call("cuTensorMapReplaceAddress", |state| {
            state.ready()?;
            state.has_tensor_maps()?;
            tensor_map::replace_address(map, address)
        })
    }

    fn mem_alloc(&self, bytes: u64) -> Result<u64> {
        self.call("cuMemAlloc_v2", |state| {
            state.ready()?;
            state.mem_alloc(bytes)
        })
    }

    unsafe fn mem_free(&self, address: u64) -> Result<()> {
        self.call("cuMemFree_v2", |state| {
            state.ready()?;
            state.mem_free(address)
        })
    }

    unsafe fn copy_to_device(&self, address: u64, bytes: &[u8], stream: u64) -> Result<()> {
        self.call("cuMemcpyHtoDAsync_v2", |state| {
            state.ready_on(stream)?;
            state.copy_to_device(address, bytes, stream)
        })?;
        // SAFETY: the caller's promise about the stream.
        unsafe { self.stream_synchronize(stream) }
    }

    unsafe fn copy_to_host(&self, bytes: &mut [u8], address: u64, stream: u64) -> Result<()> {
        self.call("cuMemcpyDtoHAsync_v2", |state| {
            state.ready_on(stream)?;
            state.copy_to_host(bytes, address, stream)
        })?;
        // SAFETY: the caller's promise about the stream.
        unsafe { self.stream_synchronize(stream) }
    }

    unsafe fn memset_d8_async(
        &self,
        address: u64,
        value: u8,
        bytes: u64,
        stream: u64,
    ) -> Result<()> {
        self.call("cuMemsetD8Async", |state| {
            state.ready_on(stream)?;
            state.fill(address, value, bytes, stream)
        })
    }

    fn pointer_get_attributes(&self, address: u64) -> Result<Option<MemoryInfo>> {
        self.call("cuPointerGetAttributes", |state| {
            state.ready()?;
            Ok(state.pointer_attributes(address))
        })
    }

    fn event_create(&self) -> Result<EventHandle> {
        self.call("cuEventCreate", |state| {
            state.ready()?;
            let event = EventHandle::from_raw(super::new_handle()).ok_or(Code::INVALID_VALUE)?;
            state.events.insert(event.raw(), Recorded::Never);
            Ok(event)
        })
    }

    unsafe fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.call("cuEventDestroy_v2", |state| {
            state.alive()?;
            state.event(event)?;
            state.events.remove(&event.raw());
            Ok(())
        })
    }

    unsafe fn event_record(&self, event: EventHandle, stream: u64) -> Result<()> {
        self.call("cuEventRecord", |state| {
            state.ready_on(stream)?;
            state.event_record(event, stream)
        })
    }

    unsafe fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        self.call("cuEventSynchronize", |state| {
            state.alive()?;
            state.event_synchronize(event)
        })
    }

    unsafe fn event_elapsed_time(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        self.call("cuEventElapsedTime", |state| {
            state.alive()?;
            state.event_elapsed(start, end)
        })
    }

    unsafe fn graph_get_nodes(&self, graph: GraphHandle) -> Result<Vec<GraphNode>> {
        self.call("cuGraphGetNodes", |state| state.graph_nodes(graph))
    }

    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        self.call("cuGraphInstantiateWithFlags", |state| {
            state.ready()?;
            state.graph_instantiate(graph)
        })
    }

    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: u64) -> Result<()> {
        self.call("cuGraphLaunch", |state| {
            state.ready_on(stream)?;
            state.graph_launch(exec, stream)
        })
    }

    unsafe fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()> {
        self.call("cuGraphExecDestroy", |state| state.graph_exec_destroy(exec))
    }

    unsafe fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        self.call("cuGraphDestroy", |state| state.graph_destroy(graph))
    }
}

/// The one GPU that there is.
fn only_device(ordinal: i32) -> super::code::Outcome<()> {
    if ordinal == 0 { Ok(()) } else { Err(Code::INVALID_DEVICE) }
}
