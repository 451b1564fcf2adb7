//! A plan on a device.

use std::borrow::Cow;

use bytemuck::NoUninit;
use frazil_core::{BuildError, Call, Config, Error, Launch, Role, SdpaFwdFacts, Version};
use frazil_cuda::compile::{Arch, Request};
use frazil_cuda::sdpa_fwd::{Operands, Packing, Schedule, SdpaFwdParams, Sections};
use frazil_cuda::sources::Source;
use frazil_cuda::work_list::{SECTION_BYTES, WorkListKernel};
use frazil_cuda::{Artifacts, CudaDevice, ImageKind, Kernel, LaunchShape, nvrtc};

use crate::support::{Offer, Order};

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
}

impl Params {
    /// Size, in bytes.
    pub(crate) const BYTES: usize = size_of::<Self>();
}

// SAFETY: a `repr(C)` struct of two that have no padding, whose size is their sum (below).
#[expect(unsafe_code, reason = "bytes of a parameter are handed to a kernel")]
unsafe impl NoUninit for Params {}

const _: () = assert!(Params::BYTES == SdpaFwdParams::BYTES + Schedule::BYTES);

/// What is to be compiled.
pub(crate) fn request(config: Config, arch: Arch, kind: ImageKind) -> Request {
    let source = Source::embedded("sm80/sdpa_fwd.cu");
    let source = source.unwrap_or_else(|error| unreachable!("embedded with this crate: {error}"));
    Request { source, symbol: Cow::Borrowed(KERNEL), config, arch, kind }
}

/// Units that are told by their index: bands of as many queries for every sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Of all sequences and heads, as declared.
    pub(crate) num_units: u64,
    packing: Packing,
    bytes_per_key: u64,
}

impl Counted {
    pub(crate) fn of(facts: &SdpaFwdFacts, packing: Packing) -> Self {
        let shape = facts.shape();
        let num_bands = shape.q.rows.div_ceil(packing.band_tokens.into());
        let num_pairs = shape.batch.saturating_mul(packing.num_head_units);
        let num_units = num_bands.saturating_mul(num_pairs);
        let element = facts.dtype(Role::K).map_or(1, |dtype| dtype.bytes());
        let bytes_per_key = (shape.head_dim_qk + shape.head_dim_v) * element;
        Self { num_units, packing, bytes_per_key }
    }

    /// For the extents of a call, which are those declared or smaller.
    fn sections(&self, call: &Call<'_>) -> Sections {
        let extent = |role, axis| call.view(role).map_or(0, |view| view.geometry.extent(axis));
        let num_bands = extent(Role::Q, 2).div_ceil(self.packing.band_tokens.into());
        let num_pairs = extent(Role::Q, 0) * self.packing.num_head_units;
        let bytes_per_head = (extent(Role::K, 2) * self.bytes_per_key).max(1);
        // Units of heads that share K and V count once.
        let pairs = (SECTION_BYTES / bytes_per_head).max(1) * u64::from(self.packing.num_runs);
        // The declaration was checked to have no more units than an int32 counts.
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Sections::new(small(num_bands), small(num_pairs), small(pairs))
    }
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
    Listed(Box<WorkListKernel>),
}

impl Sm80Launch {
    /// Compiles, or finds, the kernels of an offer and loads them.
    pub(crate) fn load(
        offer: Offer,
        device: &CudaDevice,
        artifacts: &Artifacts,
        kind: ImageKind,
    ) -> Result<Self, BuildError> {
        let requests = offer.requests(kind);
        let Offer { tile, operands, order, candidate: _, arch: _ } = offer;
        let artifact = |request: &Request| Ok::<_, Error>(artifacts.get(request)?.artifact);
        let (order, num_blocks, num_head_units) = match order {
            Order::Counted(counted) => {
                let num_head_units = counted.packing.num_head_units;
                (Loaded::Counted(counted), counted.num_units, num_head_units)
            }
            Order::Listed { list, num_blocks, num_head_units } => {
                // SAFETY: the artifact is what the compiler gave for this request.
                #[expect(unsafe_code, reason = "machine code is loaded")]
                let kernel = unsafe { list.load(device, &*artifact(&requests[0])?) };
                let kernel = kernel.map_err(Error::from)?;
                (Loaded::Listed(Box::new(kernel)), num_blocks.into(), num_head_units.into())
            }
        };
        let own = artifact(&requests[requests.len() - 1])?;
        // SAFETY: as above; the compiler compared the size of `Params` with that of the kernel's.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        let kernel = unsafe { device.load(&own, KERNEL, tile.smem_bytes()) };
        let shape = LaunchShape {
            grid: [blocks(num_blocks), 1, 1],
            block: [tile.num_warps * 32, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: tile.smem_bytes(),
            programmatic: false,
        };
        let num_head_units = u32::try_from(num_head_units).unwrap_or(u32::MAX);
        let kernel = kernel.map_err(Error::from)?;
        Ok(Self { kernel, shape, operands, num_head_units, order })
    }
}

/// A grid has a block at least.
fn blocks(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

impl Launch for Sm80Launch {
    #[expect(unsafe_code, reason = "the call's addresses are handed to kernels")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        // Made current and looked at once, for all launches of the call.
        let queue = self.kernel.device().queue(call.stream())?;
        let schedule = match &self.order {
            Loaded::Counted(counted) => {
                Schedule::counted(counted.sections(call), self.num_head_units)
            }
            Loaded::Listed(list) => {
                // SAFETY: the caller's promise that the call was checked against the plan that this
                // was built from; its layout is the one that the list was given.
                unsafe { list.launch(&queue, call) }?;
                let regions = (list.list().records(), list.list().header());
                let (records, header) = (call.region(regions.0), call.region(regions.1));
                Schedule::listed(records, header, self.num_head_units)
            }
        };
        let params = Params { op: self.operands.params(call), schedule };
        // SAFETY: core checked that tensors and workspace are memory of the device, large enough for
        // what their extents and strides say; the kernel reads rows below the lengths that it was
        // left, which the list's kernel has bounded, and writes rows of O and of what is asked for.
        unsafe { self.kernel.launch(&queue, &self.shape, &params) }
    }
}
