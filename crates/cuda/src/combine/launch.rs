//! The merge on a device.

use std::borrow::Cow;

use frazil_core::{Error, Version};

use super::{Combine, KERNEL, Params, config};
use crate::compile::{Arch, Request};
use crate::nvrtc::OLDEST_NVRTC as OLDEST_OF_ALL;
use crate::sdpa_fwd::{Schedule, SdpaFwdParams};
use crate::sources::Source;
use crate::{Artifact, CudaDevice, ImageKind, Kernel, LoadError, Queue};

/// The oldest NVRTC that compiles the kernel.
pub const OLDEST_NVRTC: Version = OLDEST_OF_ALL;

/// What is to be compiled for a target: the same for every plan.
pub fn request(arch: Arch, kind: ImageKind) -> Request {
    let source = Source::embedded("common/sdpa_combine.cu");
    let source = source.unwrap_or_else(|error| unreachable!("embedded with this crate: {error}"));
    Request { source, symbol: Cow::Borrowed(KERNEL), config: config(), arch, kind }
}

/// The merge of one plan, loaded on a device: what an engine launches behind its own kernel.
#[derive(Debug)]
pub struct CombineKernel {
    combine: Combine,
    kernel: Kernel<Params>,
}

impl Combine {
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
    ) -> Result<CombineKernel, LoadError> {
        // SAFETY: the caller's promise; the kernel takes one struct that `Params` mirrors, whose
        // size the compiler compared.
        let kernel = unsafe { device.load(artifact, KERNEL, 0) }?;
        Ok(CombineKernel { combine: self, kernel })
    }
}

impl CombineKernel {
    /// The device that it is loaded on.
    pub fn device(&self) -> &CudaDevice {
        self.kernel.device()
    }

    /// Where the pieces lie.
    pub fn combine(&self) -> &Combine {
        &self.combine
    }

    /// Queues the merge of one call: one launch, whatever was cut, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`Kernel::launch`].
    ///
    /// # Safety
    ///
    /// `op` and `schedule` are those of a launch just before, on the same stream, of a kernel that cuts
    /// units as this was told ([`Combine::num_blocks`]): it reads the same list, and leaves its pieces in
    /// [`Combine::partials`] of the call, of which `schedule` has the addresses.
    pub unsafe fn launch(
        &self,
        queue: &Queue<'_>,
        op: &SdpaFwdParams,
        schedule: &Schedule,
    ) -> Result<(), Error> {
        let params = self.combine.params(op, schedule);
        // It waits for the kernel in front by itself, and nobody waits for its launch.
        let shape = self.combine.shape(self.device().starts_early());
        // SAFETY: the caller's promise: the regions are as large as the kernel takes them for, and
        // outputs are written at rows that the kernel in front may write, on the same stream.
        unsafe { self.kernel.launch(queue, &shape, &params) }
    }
}
