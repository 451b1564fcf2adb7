//! What the engine serves, and what a plan is made of.

use std::num::NonZeroU32;

use frazil_core::{
    Candidate, DType, DeviceProps, Error, Facts, Geometry, Launches, Layout, OverrideRules, Plan,
    Role, SdpaFwdFacts, StrideRule, Target, Unsupported,
};
use frazil_cuda::compile::{Arch, Request, gate};
use frazil_cuda::sdpa_fwd::{Operands, Packing, SetupRegions, SideRegions};
use frazil_cuda::seqlens::SeqlensSide;
use frazil_cuda::{ImageKind, combine, work_list};

use crate::config::{MAX_HEAD_DIM, Tile};
use crate::launch;
use crate::order::{Listed, Order, Share};

/// Copies are of 16 bytes, and so are stores of O.
const ROW_BYTES: u32 = 16;

/// Tensors with rows that are copied so.
const ROW_TENSORS: [Role; 4] = [Role::Q, Role::K, Role::V, Role::O];

/// A plan that the engine offers: what core is told of it, and all that its launch is made of.
pub(crate) struct Offer {
    pub(crate) candidate: Candidate,
    pub(crate) arch: Arch,
    pub(crate) tile: Tile,
    pub(crate) operands: Operands,
    pub(crate) order: Order,
}

impl Offer {
    /// Rules, most general first; then what plans are made of, best first.
    pub(crate) fn all(facts: &Facts, target: &Target) -> Result<Vec<Self>, Unsupported> {
        let arch = gate(target, launch::OLDEST_NVRTC)?;
        let op_name = facts.op_name();
        let Facts::SdpaFwd(facts) = facts else {
            return Err(Unsupported::Operation { found: op_name });
        };
        let DeviceProps::Cuda(gpu) = &target.device else {
            let found = target.device.to_string();
            return Err(Unsupported::Device { found, need: "a CUDA GPU" });
        };
        check_types(facts)?;
        check_dims(facts)?;
        check_rows(facts)?;
        let tile = Tile::of(facts, gpu)?;
        let packing = Packing::of(facts, tile.block_m);
        let orders = Order::all(facts, gpu, tile, packing)?;
        let offer =
            |(order, workspace)| Self::of_order(facts, arch, (tile, packing), order, workspace);
        Ok(orders.into_iter().map(offer).collect())
    }

    fn of_order(
        facts: &SdpaFwdFacts,
        arch: Arch,
        (tile, packing): (Tile, Packing),
        order: Order,
        workspace: Layout,
    ) -> Self {
        let setup = setup_regions(&order);
        let operands = Operands::of(facts, packing, setup);
        let launches = kernels(&order).iter().map(|kernel| kernel.symbol().into());
        let candidate = Candidate {
            config: tile.config(facts, matches!(order, Order::Small(_))),
            launches: Launches::Own(launches.collect()),
            error_word: setup.map(|setup| setup.error_word.offset()),
            overrides: Some(override_rules()),
            workspace,
        };
        Self { candidate, arch, tile, operands, order }
    }

    /// That of a plan which the engine has offered.
    pub(crate) fn of_plan(plan: &Plan) -> Result<Self, Error> {
        let offers = Self::all(plan.facts(), plan.target()).unwrap_or_default();
        let is_own = |offer: &Self| {
            let own = &offer.candidate;
            own.config == *plan.config() && own.workspace == *plan.workspace()
        };
        offers.into_iter().find(is_own).ok_or_else(|| Error::ForeignPlan { name: plan.name() })
    }

    /// What its kernels are compiled from, in the order of their launches.
    pub(crate) fn requests(&self, kind: ImageKind) -> Vec<Request> {
        kernels(&self.order).iter().map(|kernel| self.request(*kernel, kind)).collect()
    }

    /// What one of its kernels is compiled from.
    pub(crate) fn request(&self, kernel: OfPlan, kind: ImageKind) -> Request {
        match kernel {
            OfPlan::WorkList => work_list::request(self.arch, kind),
            OfPlan::Forward => launch::request(self.candidate.config.clone(), self.arch, kind),
            OfPlan::Combine => combine::request(self.arch, kind),
        }
    }
}

/// A kernel of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfPlan {
    WorkList,
    Forward,
    Combine,
}

impl OfPlan {
    fn symbol(self) -> &'static str {
        match self {
            Self::WorkList => work_list::KERNEL,
            Self::Forward => launch::KERNEL,
            Self::Combine => combine::KERNEL,
        }
    }
}

/// The kernels of a plan, in the order of their launches.
fn kernels(order: &Order) -> &'static [OfPlan] {
    match order {
        Order::Counted(_) | Order::Small(_) => &[OfPlan::Forward],
        Order::CountedCut(_) => &[OfPlan::Forward, OfPlan::Combine],
        Order::Listed(Listed { share: Share::Claimed { .. }, .. }) => {
            &[OfPlan::WorkList, OfPlan::Forward]
        }
        Order::Listed(Listed { share: Share::Cut(..), .. }) => {
            &[OfPlan::WorkList, OfPlan::Forward, OfPlan::Combine]
        }
    }
}

/// The error word, and where a list's kernel leaves bounded lengths; `None` where no side has lengths.
fn setup_regions(order: &Order) -> Option<SetupRegions> {
    let side = |side: &SeqlensSide| SideRegions { lengths: side.lengths(), starts: side.starts() };
    match order {
        Order::Counted(_) | Order::CountedCut(_) => None,
        Order::Small(small) => {
            Some(SetupRegions { error_word: small.batch.error_word(), q: None, kv: None })
        }
        Order::Listed(listed) => listed.list.seqlens().map(|seqlens| SetupRegions {
            error_word: seqlens.error_word(),
            q: seqlens.q().map(side),
            kv: seqlens.kv().map(side),
        }),
    }
}

fn check_types(facts: &SdpaFwdFacts) -> Result<(), Unsupported> {
    for role in [Role::Q, Role::K, Role::V, Role::O] {
        let Some(found) = facts.dtype(role) else { continue };
        let (is_served, served) = match role {
            Role::O => (matches!(found, DType::F16 | DType::Bf16 | DType::F32), "f16, bf16, f32"),
            _ => (matches!(found, DType::F16 | DType::Bf16), "f16, bf16"),
        };
        if !is_served {
            return Err(Unsupported::DType { tensor: role.name(), found, served });
        }
    }
    Ok(())
}

fn check_dims(facts: &SdpaFwdFacts) -> Result<(), Unsupported> {
    let shape = facts.shape();
    let dims = [("head_dim_qk", shape.head_dim_qk), ("head_dim_v", shape.head_dim_v)];
    let is_served = |found: u64| found <= MAX_HEAD_DIM && found.is_multiple_of(8);
    match dims.into_iter().find(|&(_, found)| !is_served(found)) {
        Some((dim, found)) => {
            Err(Unsupported::Dim { dim, found, served: "multiples of 8 up to 256" })
        }
        None => Ok(()),
    }
}

/// Rows are runs of whole chunks of 16 bytes, at addresses that are multiples of it.
fn check_rows(facts: &SdpaFwdFacts) -> Result<(), Unsupported> {
    for role in ROW_TENSORS {
        let Some(port) = facts.ports().get(role) else { continue };
        let desc = port.desc();
        check_strides(role, desc.geometry(), desc.dtype())?;
        if desc.align() < ROW_BYTES {
            let (tensor, found) = (role.name(), desc.align());
            return Err(Unsupported::Alignment { tensor, found, need: ROW_BYTES });
        }
    }
    Ok(())
}

fn check_strides(role: Role, geometry: &Geometry, dtype: DType) -> Result<(), Unsupported> {
    let last = geometry.rank() - 1;
    for axis in 0..geometry.rank() {
        let found = geometry.stride(axis);
        let served = if axis == last {
            (found > 1).then_some("1")
        } else {
            let bytes = found.saturating_mul(dtype.bytes());
            (!bytes.is_multiple_of(ROW_BYTES.into())).then_some("multiples of 16 bytes")
        };
        if let Some(served) = served {
            return Err(Unsupported::Stride { tensor: role.name(), axis, found, served });
        }
    }
    Ok(())
}

fn override_rules() -> OverrideRules {
    const MULTIPLE: NonZeroU32 = NonZeroU32::new(ROW_BYTES).unwrap();
    let rule = StrideRule { unit_stride: true, multiple_bytes: MULTIPLE };
    OverrideRules(ROW_TENSORS.map(|role| (role, rule)).into())
}
