//! Which tile a plan has.

use frazil_core::{Config, DType, Role, SdpaFwdFacts, SideFacts, Unsupported};

use crate::launch::Params;

/// What is compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Columns of Q and K that are multiplied; those past the head dim are zeros.
    pub(crate) head_dim_qk: u32,
    /// Columns of V and O.
    pub(crate) head_dim_v: u32,
    /// Rows of Q.
    pub(crate) block_m: u32,
    /// Rows of K and V.
    pub(crate) block_n: u32,
    pub(crate) num_warps: u32,
    /// Tiles of K, and of V, in shared memory.
    pub(crate) num_stages: u32,
    /// Blocks that a multiprocessor is to have registers for.
    pub(crate) blocks_per_sm: u32,
    /// Whether units may be cut into pieces.
    pub(crate) cuts_units: bool,
}

/// Head dims as kernels have them, smallest first. A plan takes the first pair that its own fit in, so
/// that few kernels serve all: O takes the place of Q in shared memory and has no more columns.
const HEAD_DIMS: [(u32, u32); 6] =
    [(64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)];

/// Largest head dim.
pub(crate) const MAX_HEAD_DIM: u64 = 256;

/// Rows of the tile for few queries.
const FEW_ROWS: u32 = 64;

/// Shared memory beside the tiles: the tail of `SharedStorage` in `kernels/sm80/traits.cuh`.
const SHARED_TAIL_BYTES: u32 = 944;

impl Tile {
    /// The tile of a plan, for a GPU with this much shared memory for a block.
    ///
    /// Measured on an H200 against others of the same head dims: 128 rows where 32 rows a warp leave
    /// registers for O, and one stage where two cost the second block of a multiprocessor or spills.
    pub(crate) fn of(facts: &SdpaFwdFacts, smem_bytes: u32) -> Result<Self, Unsupported> {
        let shape = facts.shape();
        let fits = |&&(qk, v): &&(u32, u32)| {
            shape.head_dim_qk <= qk.into() && shape.head_dim_v <= v.into()
        };
        // The rules before have seen that the last pair is large enough.
        let &(head_dim_qk, head_dim_v) =
            HEAD_DIMS.iter().find(fits).unwrap_or(&HEAD_DIMS[HEAD_DIMS.len() - 1]);
        let group = shape.num_q_heads / shape.num_kv_heads;
        let has_few_rows = shape.q.max_len.saturating_mul(group) <= FEW_ROWS.into();
        let (block_m, num_stages) = match head_dim_qk {
            _ if has_few_rows => (FEW_ROWS, 2),
            64 => (128, 2),
            // What modifies scores takes registers too.
            96 | 128 if !modifies_scores(facts) => (128, 1),
            _ => (64, 1),
        };
        let tile = Self {
            head_dim_qk,
            head_dim_v,
            block_m,
            block_n: 64,
            num_warps: 4,
            num_stages,
            blocks_per_sm: 2,
            // Where tiles are full of queries, there are units enough.
            cuts_units: has_few_rows,
        };
        // From the tile that is best to the smallest that works.
        let smaller = [
            tile,
            Self { num_stages: 1, ..tile },
            Self { num_stages: 1, block_m: 64, ..tile },
            Self { num_stages: 1, block_m: 64, block_n: 32, ..tile },
        ];
        let fits = |tile: &&Self| tile.smem_bytes() <= smem_bytes;
        smaller.iter().find(fits).copied().ok_or_else(|| Unsupported::SharedMemory {
            found: smem_bytes,
            need: smaller[smaller.len() - 1].smem_bytes(),
        })
    }

    /// Dynamic shared memory of a block.
    pub(crate) fn smem_bytes(self) -> u32 {
        // Slabs of 64 columns, 2 bytes each: a last one that is not full takes the room of one.
        let row_bytes = |columns: u32| columns.next_multiple_of(64) * 2;
        let (qk, v) = (row_bytes(self.head_dim_qk), row_bytes(self.head_dim_v));
        self.block_m * qk + self.num_stages * self.block_n * (qk + v) + SHARED_TAIL_BYTES
    }

    /// The integers that are compiled in.
    pub(crate) fn config(self, facts: &SdpaFwdFacts, is_small_batch: bool) -> Config {
        let is_paged = matches!(facts.kv_side(), SideFacts::Paged { .. });
        Config::new([
            ("dtype", i64::from(facts.dtype(Role::Q) == Some(DType::Bf16))),
            ("head_dim_qk", self.head_dim_qk.into()),
            ("head_dim_v", self.head_dim_v.into()),
            ("block_m", self.block_m.into()),
            ("block_n", self.block_n.into()),
            ("num_warps", self.num_warps.into()),
            ("num_stages", self.num_stages.into()),
            ("blocks_per_sm", self.blocks_per_sm.into()),
            ("paged", is_paged.into()),
            ("modifies_scores", modifies_scores(facts).into()),
            ("cuts_units", (self.cuts_units && !is_small_batch).into()),
            ("small_batch", is_small_batch.into()),
            ("smem_bytes", self.smem_bytes().into()),
            ("params_bytes", Params::BYTES as i64),
        ])
    }
}

/// Whether scores are more than a positive multiple of the products: softmax then cannot take its
/// maximum before the scale.
fn modifies_scores(facts: &SdpaFwdFacts) -> bool {
    let holds = |role| facts.ports().get(role).is_some();
    facts.soft_cap().is_some()
        || holds(Role::Bias)
        || holds(Role::AlibiSlopes)
        || facts.softmax_scale() <= 0.0
}
