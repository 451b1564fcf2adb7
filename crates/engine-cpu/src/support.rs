//! What the engine serves, with which tile, and how the workspace is laid out.

use frazil_core::{
    Candidate, Config, DType, DeviceProps, Facts, Launches, Layout, OverrideRules, Region, Role,
    SdpaFwdFacts, Support, Target, Unsupported,
};

use crate::sdpa_fwd::{Scratch, Sequence};

/// The one kernel: setup and tiles run in one call.
const KERNEL: &str = "frazil_sdpa_fwd_cpu";

/// Largest head dim. The smallest tile then takes 4 MiB of scratch a worker.
const MAX_HEAD_DIM: u64 = 16_384;

/// Most workers; more only cost scratch.
const MAX_WORKERS: u32 = 1024;

/// Rows of Q and of K that a worker holds at once, and how many workers there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Rows of Q, the heads of one group counted as rows.
    pub(crate) block_m: usize,
    /// Rows of K and V; a multiple of [`vector::PANEL`](crate::vector::PANEL).
    pub(crate) block_n: usize,
    /// Threads that may work at once.
    pub(crate) num_workers: usize,
}

impl Tile {
    /// The largest square tile whose Q, K, V and O stay near 1 MiB, the second-level cache of a
    /// core. The extents play no part, so that plans of all lengths are alike.
    pub(crate) fn of(facts: &SdpaFwdFacts, target: &Target) -> Self {
        let columns = facts.shape().head_dim_qk + facts.shape().head_dim_v;
        let side = match columns {
            0..=1024 => 128,
            1025..=2048 => 64,
            2049..=4096 => 32,
            _ => 16,
        };
        let num_threads = match &target.device {
            DeviceProps::Host(host) => host.num_threads,
            _ => 1,
        };
        let num_workers = num_threads.clamp(1, MAX_WORKERS) as usize;
        Self { block_m: side, block_n: side, num_workers }
    }

    /// What plans are named by. The number of workers follows from the target and changes no result,
    /// so a plan stored on one host is found again on another.
    pub(crate) fn config(self) -> Config {
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        Config::new([("block_m", number(self.block_m)), ("block_n", number(self.block_n))])
    }
}

/// The workspace: one value both sizes and carves it.
#[derive(Clone, Debug)]
pub(crate) struct Regions {
    pub(crate) layout: Layout,
    /// A `u32`: bits of the error word.
    pub(crate) error_word: Region,
    /// A `u64`: units claimed so far.
    pub(crate) claimed: Region,
    /// One [`Sequence`] for each of the batch.
    pub(crate) sequences: Region,
    /// [`Scratch`] of every worker, one after another.
    pub(crate) scratch: Region,
}

impl Regions {
    pub(crate) fn of(facts: &SdpaFwdFacts, tile: Tile) -> Self {
        let bytes = |count: u64, size: usize| count.saturating_mul(size as u64);
        let per_worker = Scratch::len(facts.shape(), tile);
        let mut layout = Layout::new();
        let error_word = layout.region("error_word", 4);
        let claimed = layout.region("claimed", 8);
        let sequences =
            layout.region("sequences", bytes(facts.shape().batch, size_of::<Sequence>()));
        let scratch =
            layout.region("scratch", bytes(tile.num_workers as u64, per_worker * size_of::<f32>()));
        Self { layout, error_word, claimed, sequences, scratch }
    }
}

/// Rules, most general first.
pub(crate) fn check(facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
    let DeviceProps::Host(_) = &target.device else {
        let found = target.device.to_string();
        return Err(Unsupported::Device { found, need: "the host" });
    };
    let op_name = facts.op_name();
    let Facts::SdpaFwd(facts) = facts else {
        return Err(Unsupported::Operation { found: op_name });
    };
    check_types(facts)?;
    check_dims(facts)?;
    let tile = Tile::of(facts, target);
    let regions = Regions::of(facts, tile);
    let error_word = facts.has_device_lengths().then_some(regions.error_word.offset());
    let candidate = Candidate {
        config: tile.config(),
        workspace: regions.layout,
        launches: Launches::Own(vec![KERNEL.into()]),
        error_word,
        overrides: Some(OverrideRules::default()),
    };
    Ok(Support::one(candidate))
}

fn check_types(facts: &SdpaFwdFacts) -> Result<(), Unsupported> {
    for role in [Role::Q, Role::K, Role::V, Role::O, Role::Bias] {
        let Some(found) = facts.dtype(role) else { continue };
        if !matches!(found, DType::F16 | DType::Bf16 | DType::F32) {
            let (tensor, served) = (role.name(), "f16, bf16, f32");
            return Err(Unsupported::DType { tensor, found, served });
        }
    }
    Ok(())
}

fn check_dims(facts: &SdpaFwdFacts) -> Result<(), Unsupported> {
    let dims =
        [("head_dim_qk", facts.shape().head_dim_qk), ("head_dim_v", facts.shape().head_dim_v)];
    match dims.into_iter().find(|&(_, found)| found > MAX_HEAD_DIM) {
        Some((dim, found)) => Err(Unsupported::Dim { dim, found, served: "1 to 16384" }),
        None => Ok(()),
    }
}
