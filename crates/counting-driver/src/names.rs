//! Every function that NVIDIA's driver exports for programs to call.

/// Expands `$expand!` with the names of the driver's functions, sorted.
///
/// What the headers of CUDA 11.8 to 13.5 declare (`cuda.h`, `cudaGL.h`, `cudaEGL.h`, `cudaVDPAU.h`,
/// `cudaProfiler.h`), with the older versions of each function and with the variants whose default
/// stream is the thread's own (`_ptsz` of functions that take a stream, `_ptds` of the others). A
/// name that the driver at hand lacks does no harm, see [`mod@crate::hide`]; one that this table
/// lacks is reported by `frazil_driver_unlisted`.
macro_rules! with_driver_functions {
    ($expand:ident) => {
        $expand! {
            cuArray3DCreate cuArray3DCreate_v2 cuArray3DGetDescriptor cuArray3DGetDescriptor_v2
            cuArrayCreate cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor
            cuArrayGetDescriptor_v2 cuArrayGetMemoryRequirements cuArrayGetPlane
            cuArrayGetSparseProperties cuCheckpointOperationComplete cuCheckpointProcessCheckpoint
            cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState
            cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock
            cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback
            cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpRegisterCompleteCallback
            cuCoredumpRegisterStartCallback cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal
            cuCtxAttach cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy
            cuCtxDestroy_v2 cuCtxDetach cuCtxDisablePeerAccess cuCtxEnablePeerAccess
            cuCtxFromGreenCtx cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxGetCurrent
            cuCtxGetDevResource cuCtxGetDevice cuCtxGetDevice_v2 cuCtxGetExecAffinity cuCtxGetFlags
            cuCtxGetId cuCtxGetLimit cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange
            cuCtxPopCurrent cuCtxPopCurrent_v2 cuCtxPushCurrent cuCtxPushCurrent_v2 cuCtxRecordEvent
            cuCtxResetPersistingL2Cache cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetFlags
            cuCtxSetLimit cuCtxSetSharedMemConfig cuCtxSynchronize cuCtxSynchronize_v2
            cuCtxWaitEvent cuDestroyExternalMemory cuDestroyExternalSemaphore
            cuDevResourceGenerateDesc cuDevSmResourceSplit cuDevSmResourceSplitByCount
            cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGet cuDeviceGetAttribute
            cuDeviceGetByPCIBusId cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetCount
            cuDeviceGetDefaultMemPool cuDeviceGetDevResource cuDeviceGetExecAffinitySupport
            cuDeviceGetFabricClusterUuid cuDeviceGetGraphMemAttribute
            cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid cuDeviceGetMemPool cuDeviceGetName
            cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute
            cuDeviceGetPCIBusId cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth
            cuDeviceGetUuid cuDeviceGetUuid_v2 cuDeviceGraphMemTrim cuDevicePrimaryCtxGetState
            cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset
            cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags
            cuDevicePrimaryCtxSetFlags_v2 cuDeviceRegisterAsyncNotification
            cuDeviceSetGraphMemAttribute cuDeviceSetMemPool cuDeviceTotalMem cuDeviceTotalMem_v2
            cuDeviceUnregisterAsyncNotification cuDriverGetVersion cuEGLStreamConsumerAcquireFrame
            cuEGLStreamConsumerConnect cuEGLStreamConsumerConnectWithFlags
            cuEGLStreamConsumerDisconnect cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect
            cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame
            cuEGLStreamProducerReturnFrame cuEventCreate cuEventCreateFromEGLSync cuEventDestroy
            cuEventDestroy_v2 cuEventElapsedTime cuEventElapsedTime_v2 cuEventQuery cuEventRecord
            cuEventRecordWithFlags cuEventRecordWithFlags_ptsz cuEventRecord_ptsz cuEventSynchronize
            cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray
            cuFabricCpyBatchAsync cuFabricCpyBatchAsync_ptsz cuFlushGPUDirectRDMAWrites
            cuFuncGetAttribute cuFuncGetModule cuFuncGetName cuFuncGetParamCount cuFuncGetParamInfo
            cuFuncIsLoaded cuFuncLoad cuFuncSetAttribute cuFuncSetBlockShape cuFuncSetCacheConfig
            cuFuncSetSharedMemConfig cuFuncSetSharedSize cuGLCtxCreate cuGLCtxCreate_v2
            cuGLGetDevices cuGLGetDevices_v2 cuGLInit cuGLMapBufferObject cuGLMapBufferObjectAsync
            cuGLMapBufferObjectAsync_v2 cuGLMapBufferObjectAsync_v2_ptsz cuGLMapBufferObject_v2
            cuGLMapBufferObject_v2_ptds cuGLRegisterBufferObject cuGLSetBufferObjectMapFlags
            cuGLUnmapBufferObject cuGLUnmapBufferObjectAsync cuGLUnregisterBufferObject
            cuGetErrorName cuGetErrorString cuGetExportTable cuGetProcAddress cuGetProcAddress_ptsz
            cuGetProcAddress_v2 cuGetProcAddress_v2_ptsz cuGraphAddBatchMemOpNode
            cuGraphAddChildGraphNode cuGraphAddDependencies cuGraphAddDependencies_v2
            cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
            cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
            cuGraphAddHostNode cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemAllocNode
            cuGraphAddMemFreeNode cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode
            cuGraphAddNode_v2 cuGraphAddNode_v3 cuGraphBatchMemOpNodeGetParams
            cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphClone
            cuGraphConditionalHandleCreate cuGraphCreate cuGraphDebugDotPrint cuGraphDestroy
            cuGraphDestroyNode cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent
            cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
            cuGraphExecBatchMemOpNodeSetParams cuGraphExecChildGraphNodeSetParams cuGraphExecDestroy
            cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent
            cuGraphExecExternalSemaphoresSignalNodeSetParams
            cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags cuGraphExecGetId
            cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams
            cuGraphExecKernelNodeSetParams_v2 cuGraphExecMemcpyNodeSetParams
            cuGraphExecMemsetNodeSetParams cuGraphExecNodeSetParams cuGraphExecUpdate
            cuGraphExecUpdate_v2 cuGraphExternalSemaphoresSignalNodeGetParams
            cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
            cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges cuGraphGetEdges_v2
            cuGraphGetId cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams
            cuGraphHostNodeSetParams cuGraphInstantiate cuGraphInstantiateWithFlags
            cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz cuGraphInstantiate_v2
            cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams
            cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute cuGraphKernelNodeSetParams
            cuGraphKernelNodeSetParams_v2 cuGraphLaunch cuGraphLaunch_ptsz
            cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams cuGraphMemcpyNodeGetParams
            cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams cuGraphMemsetNodeSetParams
            cuGraphNodeFindInClone cuGraphNodeGetContainingGraph cuGraphNodeGetDependencies
            cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes
            cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled cuGraphNodeGetLocalId
            cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeGetType cuGraphNodeSetEnabled
            cuGraphNodeSetParams cuGraphNodeSetParams_v2 cuGraphReleaseUserObject
            cuGraphRemoveDependencies cuGraphRemoveDependencies_v2 cuGraphRetainUserObject
            cuGraphUpload cuGraphUpload_ptsz cuGraphicsEGLRegisterImage cuGraphicsGLRegisterBuffer
            cuGraphicsGLRegisterImage cuGraphicsMapResources cuGraphicsMapResources_ptsz
            cuGraphicsResourceGetMappedEglFrame cuGraphicsResourceGetMappedMipmappedArray
            cuGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2
            cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
            cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources
            cuGraphicsUnmapResources_ptsz cuGraphicsUnregisterResource
            cuGraphicsVDPAURegisterOutputSurface cuGraphicsVDPAURegisterVideoSurface
            cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxGetId
            cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent cuImportExternalMemory
            cuImportExternalSemaphore cuInit cuIpcCloseMemHandle cuIpcGetEventHandle
            cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
            cuKernelGetAttribute cuKernelGetFunction cuKernelGetLibrary cuKernelGetName
            cuKernelGetParamCount cuKernelGetParamInfo cuKernelSetAttribute cuKernelSetCacheConfig
            cuLaunch cuLaunchCooperativeKernel cuLaunchCooperativeKernelMultiDevice
            cuLaunchCooperativeKernel_ptsz cuLaunchGrid cuLaunchGridAsync cuLaunchHostFunc
            cuLaunchHostFunc_ptsz cuLaunchHostFunc_v2 cuLaunchHostFunc_v2_ptsz cuLaunchKernel
            cuLaunchKernelEx cuLaunchKernelEx_ptsz cuLaunchKernel_ptsz cuLibraryEnumerateKernels
            cuLibraryGetGlobal cuLibraryGetKernel cuLibraryGetKernelCount cuLibraryGetManaged
            cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData cuLibraryLoadFromFile
            cuLibraryUnload cuLinkAddData cuLinkAddData_v2 cuLinkAddFile cuLinkAddFile_v2
            cuLinkComplete cuLinkCreate cuLinkCreate_v2 cuLinkDestroy cuLogicalEndpointAddDevice
            cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate
            cuLogicalEndpointDestroy cuLogicalEndpointExport cuLogicalEndpointGetLimits
            cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve cuLogicalEndpointImport
            cuLogicalEndpointQuery cuLogicalEndpointUnbind cuLogsCurrent cuLogsDumpToFile
            cuLogsDumpToMemory cuLogsRegisterCallback cuLogsUnregisterCallback cuMemAddressFree
            cuMemAddressReserve cuMemAdvise cuMemAdvise_v2 cuMemAlloc cuMemAllocAsync
            cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz cuMemAllocHost
            cuMemAllocHost_v2 cuMemAllocManaged cuMemAllocPitch cuMemAllocPitch_v2 cuMemAlloc_v2
            cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz cuMemCreate
            cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync_ptsz
            cuMemDiscardBatchAsync cuMemDiscardBatchAsync_ptsz cuMemExportToShareableHandle
            cuMemFree cuMemFreeAsync cuMemFreeAsync_ptsz cuMemFreeHost cuMemFree_v2 cuMemGetAccess
            cuMemGetAddressRange cuMemGetAddressRange_v2 cuMemGetAllocationGranularity
            cuMemGetAllocationPropertiesFromHandle cuMemGetDefaultMemPool
            cuMemGetHandleForAddressRange cuMemGetInfo cuMemGetInfo_v2 cuMemGetLocationInfo
            cuMemGetMemPool cuMemHostAlloc cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
            cuMemHostGetFlags cuMemHostRegister cuMemHostRegister_v2 cuMemHostUnregister
            cuMemImportFromShareableHandle cuMemMap cuMemMapArrayAsync cuMemMapArrayAsync_ptsz
            cuMemPoolCreate cuMemPoolDestroy cuMemPoolExportPointer cuMemPoolExportToShareableHandle
            cuMemPoolGetAccess cuMemPoolGetAttribute cuMemPoolImportFromShareableHandle
            cuMemPoolImportPointer cuMemPoolSetAccess cuMemPoolSetAttribute cuMemPoolTrimTo
            cuMemPrefetchAsync cuMemPrefetchAsync_ptsz cuMemPrefetchAsync_v2
            cuMemPrefetchAsync_v2_ptsz cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync_ptsz
            cuMemRangeGetAttribute cuMemRangeGetAttributes cuMemRelease cuMemRetainAllocationHandle
            cuMemSetAccess cuMemSetMemPool cuMemUnmap cuMemcpy cuMemcpy2D cuMemcpy2DAsync
            cuMemcpy2DAsync_v2 cuMemcpy2DAsync_v2_ptsz cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2
            cuMemcpy2DUnaligned_v2_ptds cuMemcpy2D_v2 cuMemcpy2D_v2_ptds cuMemcpy3D cuMemcpy3DAsync
            cuMemcpy3DAsync_v2 cuMemcpy3DAsync_v2_ptsz cuMemcpy3DBatchAsync
            cuMemcpy3DBatchAsync_ptsz cuMemcpy3DBatchAsync_v2 cuMemcpy3DBatchAsync_v2_ptsz
            cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3DPeerAsync_ptsz cuMemcpy3DPeer_ptds
            cuMemcpy3DWithAttributesAsync cuMemcpy3DWithAttributesAsync_ptsz cuMemcpy3D_v2
            cuMemcpy3D_v2_ptds cuMemcpyAsync cuMemcpyAsync_ptsz cuMemcpyAtoA cuMemcpyAtoA_v2
            cuMemcpyAtoA_v2_ptds cuMemcpyAtoD cuMemcpyAtoD_v2 cuMemcpyAtoD_v2_ptds cuMemcpyAtoH
            cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync_v2_ptsz cuMemcpyAtoH_v2
            cuMemcpyAtoH_v2_ptds cuMemcpyBatchAsync cuMemcpyBatchAsync_ptsz cuMemcpyBatchAsync_v2
            cuMemcpyBatchAsync_v2_ptsz cuMemcpyDtoA cuMemcpyDtoA_v2 cuMemcpyDtoA_v2_ptds
            cuMemcpyDtoD cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync_v2_ptsz
            cuMemcpyDtoD_v2 cuMemcpyDtoD_v2_ptds cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
            cuMemcpyDtoHAsync_v2_ptsz cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds cuMemcpyHtoA
            cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync_v2_ptsz cuMemcpyHtoA_v2
            cuMemcpyHtoA_v2_ptds cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
            cuMemcpyHtoDAsync_v2_ptsz cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds cuMemcpyPeer
            cuMemcpyPeerAsync cuMemcpyPeerAsync_ptsz cuMemcpyPeer_ptds cuMemcpyWithAttributesAsync
            cuMemcpyWithAttributesAsync_ptsz cuMemcpy_ptds cuMemsetD16 cuMemsetD16Async
            cuMemsetD16Async_ptsz cuMemsetD16_v2 cuMemsetD16_v2_ptds cuMemsetD2D16
            cuMemsetD2D16Async cuMemsetD2D16Async_ptsz cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds
            cuMemsetD2D32 cuMemsetD2D32Async cuMemsetD2D32Async_ptsz cuMemsetD2D32_v2
            cuMemsetD2D32_v2_ptds cuMemsetD2D8 cuMemsetD2D8Async cuMemsetD2D8Async_ptsz
            cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds cuMemsetD32 cuMemsetD32Async cuMemsetD32Async_ptsz
            cuMemsetD32_v2 cuMemsetD32_v2_ptds cuMemsetD8 cuMemsetD8Async cuMemsetD8Async_ptsz
            cuMemsetD8_v2 cuMemsetD8_v2_ptds cuMipmappedArrayCreate cuMipmappedArrayDestroy
            cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
            cuMipmappedArrayGetSparseProperties cuModuleEnumerateFunctions cuModuleGetFunction
            cuModuleGetFunctionCount cuModuleGetGlobal cuModuleGetGlobal_v2 cuModuleGetLoadingMode
            cuModuleGetSurfRef cuModuleGetTexRef cuModuleLoad cuModuleLoadData cuModuleLoadDataEx
            cuModuleLoadFatBinary cuModuleUnload cuMulticastAddDevice cuMulticastBindAddr
            cuMulticastBindAddr_v2 cuMulticastBindMem cuMulticastBindMem_v2 cuMulticastCreate
            cuMulticastGetGranularity cuMulticastUnbind cuOccupancyAvailableDynamicSMemPerBlock
            cuOccupancyMaxActiveBlocksPerMultiprocessor
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
            cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
            cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetTexRef cuParamSetf
            cuParamSeti cuParamSetv cuPointerGetAttribute cuPointerGetAttributes
            cuPointerSetAttribute cuProfilerInitialize cuProfilerStart cuProfilerStop
            cuSignalExternalSemaphoresAsync cuSignalExternalSemaphoresAsync_ptsz cuStreamAddCallback
            cuStreamAddCallback_ptsz cuStreamAttachMemAsync cuStreamAttachMemAsync_ptsz
            cuStreamBatchMemOp cuStreamBatchMemOp_ptsz cuStreamBatchMemOp_v2
            cuStreamBatchMemOp_v2_ptsz cuStreamBeginCapture cuStreamBeginCaptureToCig
            cuStreamBeginCaptureToCig_ptsz cuStreamBeginCaptureToGraph
            cuStreamBeginCaptureToGraph_ptsz cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2
            cuStreamBeginCapture_v2_ptsz cuStreamBeginRecaptureToGraph
            cuStreamBeginRecaptureToGraph_ptsz cuStreamCopyAttributes cuStreamCopyAttributes_ptsz
            cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy cuStreamDestroy_v2
            cuStreamEndCapture cuStreamEndCaptureToCig cuStreamEndCaptureToCig_ptsz
            cuStreamEndCapture_ptsz cuStreamGetAttribute cuStreamGetAttribute_ptsz
            cuStreamGetCaptureInfo cuStreamGetCaptureInfo_ptsz cuStreamGetCaptureInfo_v2
            cuStreamGetCaptureInfo_v2_ptsz cuStreamGetCaptureInfo_v3 cuStreamGetCaptureInfo_v3_ptsz
            cuStreamGetCtx cuStreamGetCtx_ptsz cuStreamGetCtx_v2 cuStreamGetCtx_v2_ptsz
            cuStreamGetDevResource cuStreamGetDevResource_ptsz cuStreamGetDevice
            cuStreamGetDevice_ptsz cuStreamGetFlags cuStreamGetFlags_ptsz cuStreamGetGreenCtx
            cuStreamGetId cuStreamGetId_ptsz cuStreamGetPriority cuStreamGetPriority_ptsz
            cuStreamIsCapturing cuStreamIsCapturing_ptsz cuStreamQuery cuStreamQuery_ptsz
            cuStreamSetAttribute cuStreamSetAttribute_ptsz cuStreamSynchronize
            cuStreamSynchronize_ptsz cuStreamUpdateCaptureDependencies
            cuStreamUpdateCaptureDependencies_ptsz cuStreamUpdateCaptureDependencies_v2
            cuStreamUpdateCaptureDependencies_v2_ptsz cuStreamWaitEvent cuStreamWaitEvent_ptsz
            cuStreamWaitValue32 cuStreamWaitValue32_ptsz cuStreamWaitValue32_v2
            cuStreamWaitValue32_v2_ptsz cuStreamWaitValue64 cuStreamWaitValue64_ptsz
            cuStreamWaitValue64_v2 cuStreamWaitValue64_v2_ptsz cuStreamWriteValue32
            cuStreamWriteValue32_ptsz cuStreamWriteValue32_v2 cuStreamWriteValue32_v2_ptsz
            cuStreamWriteValue64 cuStreamWriteValue64_ptsz cuStreamWriteValue64_v2
            cuStreamWriteValue64_v2_ptsz cuSurfObjectCreate cuSurfObjectDestroy
            cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col
            cuTensorMapEncodeIm2colWide cuTensorMapEncodeTiled cuTensorMapReplaceAddress
            cuTensorMapSetAllocationClass cuTexObjectCreate cuTexObjectDestroy
            cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc
            cuTexRefCreate cuTexRefDestroy cuTexRefGetAddress cuTexRefGetAddressMode
            cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor cuTexRefGetFilterMode
            cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode
            cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray
            cuTexRefSetAddress cuTexRefSetAddress2D cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3
            cuTexRefSetAddressMode cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor
            cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy
            cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp
            cuTexRefSetMipmappedArray cuThreadExchangeStreamCaptureMode cuUserObjectCreate
            cuUserObjectRelease cuUserObjectRetain cuVDPAUCtxCreate cuVDPAUCtxCreate_v2
            cuVDPAUGetDevice cuWGLGetDevice cuWaitExternalSemaphoresAsync
            cuWaitExternalSemaphoresAsync_ptsz
        }
    };
}

pub(crate) use with_driver_functions;
