//! The driver's calls, one method each, behind which stands the real driver or a simulated one.
//!
//! CUDA Driver API, <https://docs.nvidia.com/cuda/cuda-driver-api/>; the names of the methods are
//! those of its functions in Rust's case, and each says where it differs.

mod error;
#[cfg(test)]
pub(crate) mod fake;
mod handle;
mod layout;
mod library;
mod no_driver;
mod order;
mod real;
mod table;
mod tensor_map;
mod values;

use enum_dispatch::enum_dispatch;

pub use error::DriverError;
pub use handle::{
    ContextHandle, EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, ModuleHandle,
};
pub use no_driver::NoDriver;
pub(crate) use real::version_from;
pub use real::{OLDEST_DRIVER, RealDriver};
pub use tensor_map::{L2Promotion, Swizzle, TensorMap, TensorMapElement, TensorMapSpec};
pub use values::{
    CaptureMode, CaptureStatus, DeviceAttribute, FunctionAttribute, GraphNode, ImageKind,
    LaunchShape, MemoryInfo, NodeKind,
};

/// What a driver answers.
pub(crate) type Result<T> = std::result::Result<T, DriverError>;

/// Every driver call that frazil makes.
///
/// Streams are raw `CUstream` values, the legacy (0, 1) and per-thread (2) sentinels included.
/// Addresses are device addresses. Nothing here keeps a state of its own: what is created is
/// destroyed by the caller.
#[enum_dispatch]
pub trait DriverCalls {
    /// What images [`DriverCalls::module_load_data`] takes.
    fn image_kind(&self) -> ImageKind;
    /// `cuDriverGetVersion`: the CUDA version of the driver, as `1000 * major + 10 * minor`.
    fn driver_get_version(&self) -> Result<i32>;
    /// `cuDeviceGetCount`.
    fn device_get_count(&self) -> Result<i32>;
    /// `cuDeviceGetName`.
    fn device_get_name(&self, ordinal: i32) -> Result<String>;
    /// `cuDeviceGetAttribute`.
    fn device_get_attribute(&self, attribute: DeviceAttribute, ordinal: i32) -> Result<i32>;

    /// `cuDevicePrimaryCtxRetain`; never released, since modules live as long as the process.
    fn primary_ctx_retain(&self, ordinal: i32) -> Result<ContextHandle>;
    /// `cuCtxGetCurrent`; `None` where the thread has none.
    fn ctx_get_current(&self) -> Result<Option<ContextHandle>>;
    /// `cuCtxPushCurrent`.
    ///
    /// # Safety
    ///
    /// The context lives until it is popped again.
    unsafe fn ctx_push_current(&self, context: ContextHandle) -> Result<()>;
    /// `cuCtxPopCurrent`.
    fn ctx_pop_current(&self) -> Result<()>;
    /// `cuCtxSynchronize`.
    fn ctx_synchronize(&self) -> Result<()>;

    /// `cuStreamCreate` with `CU_STREAM_NON_BLOCKING`.
    fn stream_create(&self) -> Result<u64>;
    /// `cuStreamDestroy`.
    ///
    /// # Safety
    ///
    /// The handle came from [`DriverCalls::stream_create`] and is used no more.
    unsafe fn stream_destroy(&self, stream: u64) -> Result<()>;
    /// `cuStreamSynchronize`.
    ///
    /// # Safety
    ///
    /// The handle is a live stream. The same holds for every method below that takes one.
    unsafe fn stream_synchronize(&self, stream: u64) -> Result<()>;
    /// `cuStreamGetCtx`: the context that a stream belongs to; for the sentinels the current one.
    ///
    /// # Safety
    ///
    /// The handle is a live stream.
    unsafe fn stream_get_ctx(&self, stream: u64) -> Result<ContextHandle>;
    /// `cuStreamIsCapturing`.
    ///
    /// # Safety
    ///
    /// The handle is a live stream.
    unsafe fn stream_is_capturing(&self, stream: u64) -> Result<CaptureStatus>;
    /// `cuStreamBeginCapture`.
    ///
    /// # Safety
    ///
    /// The handle is a live stream.
    unsafe fn stream_begin_capture(&self, stream: u64, mode: CaptureMode) -> Result<()>;
    /// `cuStreamEndCapture`; an invalidated capture is an error.
    ///
    /// # Safety
    ///
    /// The handle is a live stream.
    unsafe fn stream_end_capture(&self, stream: u64) -> Result<GraphHandle>;
    /// `cuThreadExchangeStreamCaptureMode`: sets the calling thread's mode, gives the one before.
    fn thread_exchange_stream_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;

    /// `cuModuleLoadData`, which finds the image's end by itself.
    ///
    /// # Safety
    ///
    /// The image is a whole ELF cubin, or PTX text that ends in a zero byte.
    unsafe fn module_load_data(&self, image: &[u8]) -> Result<ModuleHandle>;
    /// `cuModuleUnload`.
    ///
    /// # Safety
    ///
    /// The module and its functions are used no more, by queued work and graphs included.
    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()>;
    /// `cuModuleGetFunction`, and where the driver has it `cuFuncLoad`, so that nothing is left to
    /// be loaded lazily by the first launch.
    ///
    /// # Safety
    ///
    /// The module is loaded.
    unsafe fn module_get_function(
        &self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle>;
    /// `cuFuncGetAttribute`.
    ///
    /// # Safety
    ///
    /// The function's module is loaded.
    unsafe fn func_get_attribute(
        &self,
        attribute: FunctionAttribute,
        function: FunctionHandle,
    ) -> Result<i32>;
    /// `cuFuncSetAttribute`.
    ///
    /// # Safety
    ///
    /// The function's module is loaded.
    unsafe fn func_set_attribute(
        &self,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<()>;
    /// `cuFuncGetParamInfo`: bytes of a function's parameters together; `None` where the driver
    /// cannot tell, as before CUDA 12.4.
    ///
    /// # Safety
    ///
    /// The function's module is loaded.
    unsafe fn func_param_bytes(&self, function: FunctionHandle) -> Result<Option<u64>>;
    /// `cuLaunchKernelEx` with one argument: the kernel's parameter struct, passed by value.
    ///
    /// # Safety
    ///
    /// The function takes exactly one parameter of `params.len()` bytes, and what the parameters
    /// point to is memory of the device, large enough, until the work is done.
    unsafe fn launch_kernel_ex(
        &self,
        shape: &LaunchShape,
        stream: u64,
        function: FunctionHandle,
        params: &[u8],
    ) -> Result<()>;

    /// `cuTensorMapEncodeTiled`.
    fn tensor_map_encode_tiled(&self, spec: &TensorMapSpec<'_>) -> Result<TensorMap>;
    /// `cuTensorMapReplaceAddress`; much cheaper than encoding anew.
    fn tensor_map_replace_address(&self, map: &mut TensorMap, address: u64) -> Result<()>;

    /// `cuMemAlloc`.
    fn mem_alloc(&self, bytes: u64) -> Result<u64>;
    /// `cuMemFree`.
    ///
    /// # Safety
    ///
    /// The address came from [`DriverCalls::mem_alloc`] and is used no more.
    unsafe fn mem_free(&self, address: u64) -> Result<()>;
    /// `cuMemcpyHtoDAsync` and a wait for it.
    ///
    /// # Safety
    ///
    /// `bytes.len()` bytes at the address are device memory that nobody else uses now.
    unsafe fn copy_to_device(&self, address: u64, bytes: &[u8], stream: u64) -> Result<()>;
    /// `cuMemcpyDtoHAsync` and a wait for it.
    ///
    /// # Safety
    ///
    /// `bytes.len()` bytes at the address are device memory that nobody writes now.
    unsafe fn copy_to_host(&self, bytes: &mut [u8], address: u64, stream: u64) -> Result<()>;
    /// `cuMemsetD8Async`.
    ///
    /// # Safety
    ///
    /// That many bytes at the address are device memory that nobody else uses until it is done.
    unsafe fn memset_d8_async(
        &self,
        address: u64,
        value: u8,
        bytes: u64,
        stream: u64,
    ) -> Result<()>;
    /// `cuPointerGetAttributes`: the allocation that an address lies in; `None` for an address
    /// that the driver does not know.
    fn pointer_get_attributes(&self, address: u64) -> Result<Option<MemoryInfo>>;

    /// `cuEventCreate`, with timing.
    fn event_create(&self) -> Result<EventHandle>;
    /// `cuEventDestroy`.
    ///
    /// # Safety
    ///
    /// The event is used no more.
    unsafe fn event_destroy(&self, event: EventHandle) -> Result<()>;
    /// `cuEventRecord`.
    ///
    /// # Safety
    ///
    /// The event and the stream are live and of one context.
    unsafe fn event_record(&self, event: EventHandle, stream: u64) -> Result<()>;
    /// `cuEventSynchronize`.
    ///
    /// # Safety
    ///
    /// The event is live.
    unsafe fn event_synchronize(&self, event: EventHandle) -> Result<()>;
    /// `cuEventElapsedTime`, in milliseconds.
    ///
    /// # Safety
    ///
    /// Both events are live and were recorded.
    unsafe fn event_elapsed_time(&self, start: EventHandle, end: EventHandle) -> Result<f32>;

    /// `cuGraphGetNodes` with the kind of each node and, for kernels, the symbol, in an order in
    /// which every node comes after those it depends on. Before CUDA 12.3 drivers cannot name a
    /// kernel, and the answer is `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER`.
    ///
    /// # Safety
    ///
    /// The graph is live.
    unsafe fn graph_get_nodes(&self, graph: GraphHandle) -> Result<Vec<GraphNode>>;
    /// `cuGraphInstantiateWithFlags` with no flags.
    ///
    /// # Safety
    ///
    /// The graph is live.
    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle>;
    /// `cuGraphLaunch`.
    ///
    /// # Safety
    ///
    /// The handles are live, and what the graph's work uses lives until it is done.
    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: u64) -> Result<()>;
    /// `cuGraphExecDestroy`.
    ///
    /// # Safety
    ///
    /// The handle is used no more.
    unsafe fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()>;
    /// `cuGraphDestroy`.
    ///
    /// # Safety
    ///
    /// The handle is used no more.
    unsafe fn graph_destroy(&self, graph: GraphHandle) -> Result<()>;
}

/// The real driver or a simulated one; who calls cannot tell them apart.
#[derive(Debug)]
#[enum_dispatch(DriverCalls)]
pub enum Driver {
    /// That of a GPU.
    Real(RealDriver),
    /// That of a simulated GPU.
    #[cfg(feature = "sim")]
    Simulated(crate::sim::SimulatedDriver),
}
