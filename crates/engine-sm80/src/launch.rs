//! A plan on a device.

use std::borrow::Cow;

use bytemuck::NoUninit;
use frazil_core::{BuildError, Call, Config, Error, Launch, Region, Version};
use frazil_cuda::combine::{Combine, CombineKernel, Line};
use frazil_cuda::compile::{Arch, Request};
use frazil_cuda::sdpa_fwd::{Operands, Schedule, SdpaFwdParams, SmallBatch, SmallBatchParams};
use frazil_cuda::sources::Source;
use frazil_cuda::work_list::{WorkList, WorkListKernel};
use frazil_cuda::{Artifacts, CudaDevice, ImageKind, Kernel, LaunchShape, Queue, nvrtc};

use crate::order::{Counted, CountedCut, Listed, Order, Share};
use crate::support::{OfPlan, Offer};

/// Symbol of the kernel, as [`Launches`](frazil_core::Launches) names it.
pub(crate) const KERNEL: &str = "frazil_sdpa_fwd_sm80";

/// The oldest NVRTC that compiles the kernel.
pub(crate) const OLDEST_NVRTC: Version = nvrtc::OLDEST_NVRTC;

/// The one parameter of the kernel: `Params` of `kernels/sm80/traits.cuh`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Params {
    op: SdpaFwdParams,
    schedule: Schedule,
    small: SmallBatchParams,
}

impl Params {
    /// Size, in bytes.
    pub(crate) const BYTES: usize = size_of::<Self>();
}

// SAFETY: a `repr(C)` struct of three that have no padding, whose size is their sum (below).
#[expect(unsafe_code, reason = "bytes of a parameter are handed to a kernel")]
unsafe impl NoUninit for Params {}

const _: () =
    assert!(Params::BYTES == SdpaFwdParams::BYTES + Schedule::BYTES + SmallBatchParams::BYTES);

/// What is to be compiled.
pub(crate) fn request(config: Config, arch: Arch, kind: ImageKind) -> Request {
    let source = Source::embedded("sm80/sdpa_fwd.cu");
    let source = source.unwrap_or_else(|error| unreachable!("embedded with this crate: {error}"));
    Request { source, symbol: Cow::Borrowed(KERNEL), config, arch, kind }
}

/// A plan ready to run.
#[derive(Debug)]
pub(crate) struct Sm80Launch {
    kernel: Kernel<Params>,
    shape: LaunchShape,
    operands: Operands,
    num_head_units: u32,
    order: Loaded,
}

/// How blocks learn of their units.
#[derive(Debug)]
enum Loaded {
    Counted(Counted),
    CountedCut(Box<(CountedCut, CombineKernel)>),
    Small(SmallBatch),
    Listed(Box<WorkListKernel>),
    Cut(Box<(WorkListKernel, Region, CombineKernel)>),
}

impl Sm80Launch {
    /// Compiles, or finds, the kernels of an offer and loads them.
    pub(crate) fn load(
        offer: Offer,
        device: &CudaDevice,
        artifacts: &Artifacts,
        kind: ImageKind,
    ) -> Result<Self, BuildError> {
        let artifact =
            |kernel| Ok::<_, Error>(artifacts.get(&offer.request(kernel, kind))?.artifact);
        let load_list = |list: &WorkList| {
            let artifact = artifact(OfPlan::WorkList)?;
            // SAFETY: the artifact is what the compiler gave for this request.
            #[expect(unsafe_code, reason = "machine code is loaded")]
            unsafe { list.clone().load(device, &artifact) }.map_err(Error::from)
        };
        let load_combine = |combine: Combine| {
            let artifact = artifact(OfPlan::Combine)?;
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "machine code is loaded")]
            unsafe { combine.load(device, &artifact) }.map_err(Error::from)
        };
        let order = match &offer.order {
            Order::Counted(counted) => Loaded::Counted(*counted),
            Order::CountedCut(cut) => {
                Loaded::CountedCut(Box::new((*cut, load_combine(cut.combine)?)))
            }
            Order::Small(small) => Loaded::Small(small.batch),
            Order::Listed(Listed { list, share: Share::Claimed { .. }, .. }) => {
                Loaded::Listed(Box::new(load_list(list)?))
            }
            Order::Listed(Listed { list, share: Share::Cut(combine, places), .. }) => {
                Loaded::Cut(Box::new((load_list(list)?, *places, load_combine(*combine)?)))
            }
        };
        let (own, smem_bytes) = (artifact(OfPlan::Forward)?, offer.tile.smem_bytes());
        // SAFETY: as above; the compiler compared the size of `Params` with that of the kernel's.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        let kernel = unsafe { device.load(&own, KERNEL, smem_bytes) }.map_err(Error::from)?;
        let shape = LaunchShape {
            grid: [offer.order.num_blocks(), 1, 1],
            block: [offer.tile.num_warps * 32, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: smem_bytes,
            // Behind a list it waits by itself, and nobody waits for its launch.
            programmatic: device.starts_early() && matches!(offer.order, Order::Listed(_)),
        };
        let num_head_units = offer.order.num_head_units();
        Ok(Self { kernel, shape, operands: offer.operands, num_head_units, order })
    }

    /// Queues the list of a call: where blocks will find their units.
    ///
    /// # Safety
    ///
    /// The call was checked against the plan that this was built from.
    #[expect(unsafe_code, reason = "the call's addresses are handed to a kernel")]
    unsafe fn make_list(
        &self,
        queue: &Queue<'_>,
        list: &WorkListKernel,
        call: &Call<'_>,
    ) -> Result<Schedule, Error> {
        // SAFETY: the caller's promise; the plan's layout is the one that the list was given.
        unsafe { list.launch(queue, call) }?;
        let list = list.list();
        let (records, header) = (call.region(list.records()), call.region(list.header()));
        Ok(Schedule::listed(records, header, self.num_head_units))
    }
}

impl Launch for Sm80Launch {
    #[expect(unsafe_code, reason = "the call's addresses are handed to kernels")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        // Made current and looked at once, for all launches of the call.
        let queue = self.kernel.device().queue(call.stream())?;
        let mut small = SmallBatchParams::default();
        let (schedule, combine) = match &self.order {
            Loaded::Counted(counted) => {
                (Schedule::counted(counted.sections(call), self.num_head_units), None)
            }
            Loaded::CountedCut(kernels) => {
                let (cut, combine) = &**kernels;
                let whole = Schedule::counted(cut.counted.sections(call), self.num_head_units);
                let partials = combine.combine().partials(call, cut.line(call));
                (Schedule { partials, ..whole }, Some(combine))
            }
            Loaded::Small(batch) => {
                small = batch.params(call);
                (Schedule::without_list(self.num_head_units), None)
            }
            Loaded::Listed(list) => {
                // SAFETY: the caller's promise, which is that of `make_list`.
                (unsafe { self.make_list(&queue, list, call) }?, None)
            }
            Loaded::Cut(kernels) => {
                let (list, places, combine) = &**kernels;
                // SAFETY: as above.
                let whole = unsafe { self.make_list(&queue, list, call) }?;
                let partials = combine.combine().partials(call, Line::Listed(call.region(*places)));
                (Schedule { partials, ..whole }, Some(combine))
            }
        };
        let params = Params { op: self.operands.params(call), schedule, small };
        // SAFETY: core checked that tensors and workspace are memory of the device, large enough for
        // what their extents and strides say; the kernel reads rows below the lengths that it was
        // left, which the list's kernel has bounded, or bounds them itself, and writes rows of O and of what is asked for,
        // and pieces to slots of which each block has two.
        unsafe { self.kernel.launch(&queue, &self.shape, &params) }?;
        match combine {
            // SAFETY: the kernel just launched took the same operands, list and partials, and has as
            // many blocks and rows as the merge was told.
            Some(combine) => unsafe { combine.launch(&queue, &params.op, &params.schedule) },
            None => Ok(()),
        }
    }
}
