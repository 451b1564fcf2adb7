//! What the engine serves, with which tile, and how the workspace is laid out.

use frazil_core::{
    Candidate, Config, DType, DeviceProps, Facts, Launches, Layout, OverrideRules, Region, Role,
    SdpaFwdFacts, Support, Target, Unsupported,
};

use crate::sdpa_fwd::{Partial, Scratch, Sequence};

/// The one kernel: setup and tiles run in one call.
const KERNEL: &str = "frazil_sdpa_fwd_cpu";

/// Largest head dim. The smallest tile then takes 4 MiB of scratch a worker.
const MAX_HEAD_DIM: u64 = 16_384;

/// Most workers; more only cost scratch.
const MAX_WORKERS: u32 = 1024;

/// Units of work that keep a machine of many cores busy to the end.
const MANY_UNITS: u64 = 64;

/// Fewest keys that are worth a piece of their own.
const MIN_PIECE_KEYS: u64 = 512;

/// Most bytes for what pieces leave to be merged.
const PARTIALS_BYTES: u64 = 4 << 20;

/// Rows of Q and of K that a worker holds at once, and how many workers there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Rows of Q, the heads of one group counted as rows.
    pub(crate) block_m: usize,
    /// Rows of K and V; at most [`MAX_BLOCK_N`].
    pub(crate) block_n: usize,
    /// Threads that may work at once.
    pub(crate) num_workers: usize,
}

/// Most rows of K and V in a tile.
pub(crate) const MAX_BLOCK_N: usize = 64;

impl Tile {
    /// The largest tile whose Q, K, V and O stay near 1 MiB, the second-level cache of a core, with
    /// fewer rows where there would be few units of work. Row counts are whole panels.
    pub(crate) fn of(facts: &SdpaFwdFacts, target: &Target) -> Self {
        let shape = facts.shape();
        let (blocks_m, block_n): (&[usize], usize) = match shape.head_dim_qk + shape.head_dim_v {
            0..=1024 => (&[192, 96, 48], MAX_BLOCK_N),
            1025..=2048 => (&[96, 48], 32),
            2049..=4096 => (&[48], 16),
            _ => (&[16], 16),
        };
        let rows = shape.q.max_len.saturating_mul(shape.num_q_heads / shape.num_kv_heads);
        let heads = shape.batch.saturating_mul(shape.num_kv_heads);
        let has_many_units =
            |block_m: usize| rows.div_ceil(block_m as u64).saturating_mul(heads) >= MANY_UNITS;
        let smallest = blocks_m[blocks_m.len() - 1];
        let block_m = blocks_m.iter().copied().find(|&block_m| has_many_units(block_m));
        let num_threads = match &target.device {
            DeviceProps::Host(host) => host.num_threads,
            _ => 1,
        };
        let num_workers = num_threads.clamp(1, MAX_WORKERS) as usize;
        Self { block_m: block_m.unwrap_or(smallest), block_n, num_workers }
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
    /// A `u64`: units, or pieces of units, claimed so far.
    pub(crate) claimed: Region,
    /// One [`Sequence`] for each of the batch.
    pub(crate) sequences: Region,
    /// [`Scratch`] of every worker, one after another.
    pub(crate) scratch: Region,
    /// A `u32` for each unit whose keys are divided: pieces that are finished.
    pub(crate) finished: Region,
    /// What pieces leave, one slot after another.
    pub(crate) partials: Region,
    /// Pieces that find a place there.
    pub(crate) num_slots: u64,
    /// Numbers in a slot: those of every row that a tile can have.
    pub(crate) slot_len: usize,
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
        let (num_slots, slot_len) = Self::slots(facts, tile);
        let finished = layout.region("finished", bytes(num_slots, size_of::<u32>()));
        let partials = layout.region("partials", bytes(num_slots, slot_len * size_of::<f32>()));
        Self {
            layout,
            error_word,
            claimed,
            sequences,
            scratch,
            finished,
            partials,
            num_slots,
            slot_len,
        }
    }

    fn slots(facts: &SdpaFwdFacts, tile: Tile) -> (u64, usize) {
        let shape = facts.shape();
        let rows = shape.q.max_len.saturating_mul(shape.num_q_heads / shape.num_kv_heads);
        let rows = usize::try_from(rows).map_or(tile.block_m, |rows| rows.min(tile.block_m));
        // At most `MAX_HEAD_DIM`.
        let columns = usize::try_from(shape.head_dim_v).unwrap_or(usize::MAX);
        let slot_len = rows * Partial::len(columns);
        let bytes = (slot_len.max(1) * size_of::<f32>()) as u64;
        let num_slots = if shape.kv.max_len < 2 * MIN_PIECE_KEYS {
            0
        } else {
            (2 * MANY_UNITS).min(PARTIALS_BYTES / bytes)
        };
        (num_slots, slot_len)
    }

    /// Pieces that the keys of every unit are divided into: as many as find a place, where that is
    /// more than one and the longest unit has keys enough. It depends on the lengths of the call,
    /// never on the number of threads, so that results do not.
    pub(crate) fn num_pieces(&self, num_units: u64, longest: u64) -> u64 {
        let places = self.num_slots.checked_div(num_units).unwrap_or(1);
        places.min(longest / MIN_PIECE_KEYS).max(1)
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

#[cfg(test)]
mod tests {
    use frazil_core::{GraphBuilder, HostProps, SdpaFwd, TensorSpec};

    use super::*;

    /// The layout for dense f32 `[1, 8, rows, 128]` and 16 threads.
    fn regions(rows_q: i64, rows_kv: i64) -> Regions {
        let mut graph = GraphBuilder::new();
        let [q, k, v, o] =
            [("q", rows_q), ("k", rows_kv), ("v", rows_kv), ("o", rows_q)].map(|(name, rows)| {
                graph.tensor(TensorSpec::contiguous(name, DType::F32, [1, 8, rows, 128])).unwrap()
            });
        graph.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
        let Facts::SdpaFwd(facts) = Facts::read(&graph.finish().unwrap()).unwrap() else {
            unreachable!("attention forward");
        };
        let device = DeviceProps::Host(HostProps { num_threads: 16 });
        let target = Target { device, ..Target::host() };
        Regions::of(&facts, Tile::of(&facts, &target))
    }

    /// A matrix of scores alone would be 32 GiB.
    #[test]
    fn memory_does_not_grow_with_rows_of_q_times_rows_of_k() {
        let long = regions(32_768, 32_768).layout.bytes();
        assert!(long < 64 << 20, "{long}");
        assert_eq!(long, regions(65_536, 131_072).layout.bytes());
    }

    #[test]
    fn pieces_find_their_places() {
        let regions = regions(1, 32_768);
        assert!(regions.num_pieces(8, 32_768) > 1, "few rows against many keys");
        assert!(regions.partials.bytes() <= PARTIALS_BYTES);
        for num_units in 0..300 {
            for longest in [0, 1, MIN_PIECE_KEYS, 10 * MIN_PIECE_KEYS, u64::MAX] {
                let num_pieces = regions.num_pieces(num_units, longest);
                let slots = num_units * num_pieces;
                assert!(num_pieces == 1 || slots <= regions.num_slots, "{num_units} {longest}");
                assert!(num_pieces >= 1 && num_pieces <= (longest / MIN_PIECE_KEYS).max(1));
            }
        }
    }
}
