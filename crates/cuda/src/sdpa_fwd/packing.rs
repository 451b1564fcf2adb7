//! Which rows of a tile are which heads and queries.

use frazil_core::SdpaFwdFacts;

/// Rows of a tile of queries: `pack` heads of one group of each of `band_tokens` queries.
///
/// A group is the heads of Q that share a head of K and V. Packed, a tile that few queries would leave
/// nearly empty is full, and K and V are read once for all heads of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Heads of a group.
    pub group: u32,
    /// Heads of a group that are rows of one tile.
    pub pack: u32,
    /// Runs of so many heads that make up a group; in the last heads may be lacking.
    pub num_runs: u32,
    /// Queries of a tile.
    pub band_tokens: u32,
    /// Runs of all groups: what a unit is, for one band of queries of one sequence.
    pub num_head_units: u64,
}

impl Packing {
    /// For tiles of `block_m` rows.
    ///
    /// Heads are packed where the queries of a sequence leave half of a tile to others, or where nobody
    /// knows how many they are. Long sequences are not: their tiles are full of queries, and a band of one head
    /// walks no more keys than a causal mask leaves it.
    pub fn of(facts: &SdpaFwdFacts, block_m: u32) -> Self {
        let shape = facts.shape();
        // Extents, and so heads, are below 2^31.
        let group = u32::try_from(shape.num_q_heads / shape.num_kv_heads).unwrap_or(u32::MAX);
        let has_room = shape.q.max_len.saturating_mul(2) <= block_m.into();
        let packs = facts.q_side().has_lengths() || has_room;
        let pack = if packs { group.min(block_m) } else { 1 };
        let num_runs = group.div_ceil(pack);
        let num_head_units = shape.num_kv_heads.saturating_mul(num_runs.into());
        Self { group, pack, num_runs, band_tokens: block_m / pack, num_head_units }
    }
}
