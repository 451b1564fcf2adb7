//! The list's kernel on a device.

use std::borrow::Cow;

use frazil_core::{Call, Error, Version};

use super::{KERNEL, NUM_THREADS, Params, WorkList, config};
use crate::compile::{Arch, Request};
use crate::nvrtc::OLDEST_NVRTC as OLDEST_OF_ALL;
use crate::sources::Source;
use crate::{Artifact, CudaDevice, ImageKind, Kernel, LaunchShape, LoadError, Queue};

/// The oldest NVRTC that compiles the kernel.
pub const OLDEST_NVRTC: Version = OLDEST_OF_ALL;

/// What is to be compiled for a target: the same for every plan.
pub fn request(arch: Arch, kind: ImageKind) -> Request {
    let source = Source::embedded("common/sdpa_work_list.cu");
    let source = source.unwrap_or_else(|error| unreachable!("embedded with this crate: {error}"));
    Request { source, symbol: Cow::Borrowed(KERNEL), config: config(), arch, kind }
}

/// The list of one plan, loaded on a device: what an engine launches before its own kernels.
#[derive(Debug)]
pub struct WorkListKernel {
    list: WorkList,
    kernel: Kernel<Params>,
}

impl WorkList {
    /// Loads the kernel, or finds it loaded.
    ///
    /// # Errors
    ///
    /// As [`CudaDevice::load`].
    ///
    /// # Safety
    ///
    /// The artifact is what a compiler gave for [`request`], unchanged.
    pub unsafe fn load(
        self,
        device: &CudaDevice,
        artifact: &Artifact,
    ) -> Result<WorkListKernel, LoadError> {
        // SAFETY: the caller's promise; the kernel takes one struct that `Params` mirrors, whose
        // size the compiler compared.
        let kernel = unsafe { device.load(artifact, KERNEL, 0) }?;
        Ok(WorkListKernel { list: self, kernel })
    }
}

impl WorkListKernel {
    /// The device that it is loaded on.
    pub fn device(&self) -> &CudaDevice {
        self.kernel.device()
    }

    /// What is written, and where.
    pub fn list(&self) -> &WorkList {
        &self.list
    }

    /// Queues the list of one call: one launch, whatever the batch, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`Kernel::launch`].
    ///
    /// # Safety
    ///
    /// The call was checked against the plan whose facts and layout [`WorkList::of`] was given.
    pub unsafe fn launch(&self, queue: &Queue<'_>, call: &Call<'_>) -> Result<(), Error> {
        // It waits for all that is queued before it, which may still read the workspace.
        let shape = LaunchShape {
            grid: [1; 3],
            block: [NUM_THREADS, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic: false,
        };
        // SAFETY: core checked that tensors and workspace are memory of the device, large enough
        // for what their extents say (`Call`); the kernel reads no int32 past those extents and
        // writes no byte outside the regions, whatever it reads.
        unsafe { self.kernel.launch(queue, &shape, &self.list.params(call)) }
    }
}
