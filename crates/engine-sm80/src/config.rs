//! Which tile a plan has.

use frazil_core::{
    Config, CudaProps, DType, Role, SdpaFwdFacts, SideFacts, SideShape, Unsupported,
};
use frazil_cuda::sdpa_fwd::Packing;

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
    /// Whether the kernel can cut units into pieces.
    pub(crate) cuts_units: bool,
    /// Whether plans may: queries are few for certain, and no multiprocessor lacks for whole units.
    pub(crate) may_cut: bool,
}

/// Head dims as kernels have them, smallest first. A plan takes the first pair that its own fit in, so
/// that few kernels serve all: O takes the place of Q in shared memory and has no more columns.
const HEAD_DIMS: [(u32, u32); 5] = [(64, 64), (96, 96), (128, 128), (192, 128), (256, 256)];

/// Largest head dim.
pub(crate) const MAX_HEAD_DIM: u64 = 256;

/// Keys that a query must see for its unit to be cut: of fewer, pieces save no more than the merge costs.
/// Of so many a tile for one warp takes 64 at a time.
pub(crate) const MANY_KEYS: u64 = 1024;

/// What is on its way to a multiprocessor whose share of the memory's rate is used.
const BUSY_BYTES: u64 = 64 << 10;

/// Rows of tiles for few queries: a warp for each 16, and no warp without a query.
const FEW_ROWS: [u32; 3] = [16, 32, 64];

/// Shared memory that the driver takes of each block's, from compute capability 8.0 on.
const RESERVED_SMEM_BYTES: u32 = 1024;

/// Shared memory beside the tiles: the tail of `SharedStorage` in `kernels/sm80/traits.cuh`.
const SHARED_TAIL_BYTES: u32 = 960;

impl Tile {
    /// The tile of a plan.
    ///
    /// Measured on an H200 against others of the same head dims: 128 rows where 32 rows a warp leave
    /// registers for O, and one stage where two cost the second block of a multiprocessor or spills.
    pub(crate) fn of(facts: &SdpaFwdFacts, gpu: &CudaProps) -> Result<Self, Unsupported> {
        let shape = facts.shape();
        let fits = |&&(qk, v): &&(u32, u32)| {
            shape.head_dim_qk <= qk.into() && shape.head_dim_v <= v.into()
        };
        // The rules before have seen that the last pair is large enough.
        let &head_dims = HEAD_DIMS.iter().find(fits).unwrap_or(&HEAD_DIMS[HEAD_DIMS.len() - 1]);
        let group = shape.num_q_heads / shape.num_kv_heads;
        let num_rows = likely_len(facts.q_side(), shape.q).saturating_mul(group);
        let tile = match FEW_ROWS.into_iter().find(|&rows| num_rows <= rows.into()) {
            Some(block_m) => {
                let tile =
                    Self::for_few_rows(head_dims, block_m, likely_len(facts.kv_side(), shape.kv));
                // Where tiles may be full of queries, there are units enough.
                let may_cut = shape.q.max_len.saturating_mul(group) <= block_m.into()
                    && shape.kv.max_len >= MANY_KEYS;
                let whole = Self::for_few_rows(head_dims, block_m, 0).with_room(gpu);
                let is_whole = may_cut && whole.holds_all(facts, gpu);
                if is_whole { whole } else { Self { may_cut, ..tile } }
            }
            None => Self::for_many_rows(head_dims, modifies_scores(facts)),
        };
        // From the tile that is best to the smallest that works.
        let smaller = [
            tile,
            Self { num_stages: 1, ..tile },
            Self { num_stages: 1, block_m: tile.block_m.min(64), ..tile },
            Self { num_stages: 1, block_m: tile.block_m.min(64), block_n: 32, ..tile },
        ];
        let fits = |tile: &&Self| tile.smem_bytes() <= gpu.smem_per_block_bytes;
        let tile = smaller.iter().find(fits).ok_or_else(|| Unsupported::SharedMemory {
            found: gpu.smem_per_block_bytes,
            need: smaller[smaller.len() - 1].smem_bytes(),
        })?;
        Ok(tile.with_room(gpu))
    }

    /// With so many blocks on a multiprocessor as there is shared memory for.
    fn with_room(self, gpu: &CudaProps) -> Self {
        let room = gpu.smem_per_sm_bytes / (self.smem_bytes() + RESERVED_SMEM_BYTES);
        Self { blocks_per_sm: self.blocks_per_sm.min(room.max(1)), ..self }
    }

    /// Whether all units of a dense graph, which cost alike, are resident at once, on every multiprocessor
    /// nearly as many, and enough of them for memory to be always asked for something.
    fn holds_all(self, facts: &SdpaFwdFacts, gpu: &CudaProps) -> bool {
        if facts.q_side().has_lengths() || facts.kv_side().has_lengths() {
            return false;
        }
        let packing = Packing::of(facts, self.block_m);
        let num_units = facts.shape().batch.saturating_mul(packing.num_head_units);
        let per_sm = num_units.div_ceil(gpu.num_sms.max(1).into());
        let tile_bytes = u64::from(2 * self.block_n * (self.head_dim_qk + self.head_dim_v));
        per_sm <= self.blocks_per_sm.into()
            && num_units * 10 >= per_sm * u64::from(gpu.num_sms) * 9
            && per_sm * tile_bytes >= BUSY_BYTES
    }

    /// All rows are those of one band. What is multiplied matters little, and what is on its way from
    /// memory all: small blocks, and as many as shared memory holds.
    ///
    /// Measured on an H200: of one warp, tiles of 32 KB on their way read long rows of keys at the
    /// memory's rate, and half of that and twice the blocks are best where keys are few.
    fn for_few_rows((head_dim_qk, head_dim_v): (u32, u32), block_m: u32, kv_len: u64) -> Self {
        let num_warps = block_m / 16;
        let bytes_per_key = 2 * (head_dim_qk + head_dim_v);
        let tile_bytes = if kv_len < MANY_KEYS { 16 << 10 } else { 32 << 10 };
        let block_n = if num_warps == 1 && 64 * bytes_per_key > tile_bytes { 32 } else { 64 };
        Self {
            head_dim_qk,
            head_dim_v,
            block_m,
            block_n,
            num_warps,
            num_stages: 2,
            blocks_per_sm: 8 / num_warps,
            cuts_units: true,
            may_cut: false,
        }
    }

    fn for_many_rows((head_dim_qk, head_dim_v): (u32, u32), modifies_scores: bool) -> Self {
        let (block_m, num_stages) = match head_dim_qk {
            64 => (128, 2),
            // What modifies scores takes registers too.
            96 | 128 if !modifies_scores => (128, 1),
            _ => (64, 1),
        };
        Self {
            head_dim_qk,
            head_dim_v,
            block_m,
            block_n: 64,
            num_warps: 4,
            num_stages,
            blocks_per_sm: 2,
            // Where tiles are full of queries, there are units enough.
            cuts_units: false,
            may_cut: false,
        }
    }

    /// Whether there is a kernel that needs no list for few sequences: of the tiles that most graphs have,
    /// since every such kernel is one more to compile.
    pub(crate) fn has_small_batches(self, facts: &SdpaFwdFacts) -> bool {
        matches!(self.head_dim_qk, 64 | 128) && !modifies_scores(facts)
    }

    /// Dynamic shared memory of a block.
    pub(crate) fn smem_bytes(self) -> u32 {
        // Slabs of 64 columns, 2 bytes each: a last one that is not full takes the room of one.
        let row_bytes = |columns: u32| columns.next_multiple_of(64) * 2;
        let (qk, v) = (row_bytes(self.head_dim_qk), row_bytes(self.head_dim_v));
        self.block_m * qk + self.num_stages * self.block_n * (qk + v) + SHARED_TAIL_BYTES
    }

    /// Rows of K and V that lie together in a page, as kernels make use of it: those that the threads of
    /// a block copy at a time, or 1; 0 where there are no pages.
    fn page_rows(self, facts: &SdpaFwdFacts) -> u32 {
        let SideFacts::Paged { page_size, .. } = facts.kv_side() else { return 0 };
        // Eight threads copy 128 bytes of a row.
        let copied_at_a_time = self.num_warps * 32 / 8;
        if page_size.is_multiple_of(copied_at_a_time.into()) { copied_at_a_time } else { 1 }
    }

    /// The integers that are compiled in.
    pub(crate) fn config(self, facts: &SdpaFwdFacts, is_small_batch: bool) -> Config {
        Config::new([
            ("dtype", i64::from(facts.dtype(Role::Q) == Some(DType::Bf16))),
            ("head_dim_qk", self.head_dim_qk.into()),
            ("head_dim_v", self.head_dim_v.into()),
            ("block_m", self.block_m.into()),
            ("block_n", self.block_n.into()),
            ("num_warps", self.num_warps.into()),
            ("num_stages", self.num_stages.into()),
            ("blocks_per_sm", self.blocks_per_sm.into()),
            ("page_rows", self.page_rows(facts).into()),
            ("modifies_scores", modifies_scores(facts).into()),
            ("cuts_units", (self.cuts_units && !is_small_batch).into()),
            ("small_batch", is_small_batch.into()),
            ("smem_bytes", self.smem_bytes().into()),
            ("params_bytes", Params::BYTES as i64),
        ])
    }
}

/// Rows that a sequence is taken to have: those declared, or where less, what the tensor has for each of
/// as many sequences. Packed batches are declared for the longest sequence there may ever be.
fn likely_len(side: SideFacts, shape: SideShape) -> u64 {
    match side.is_packed() {
        true => shape.max_len.min(shape.rows.div_ceil(shape.batch.max(1)).max(1)),
        false => shape.max_len,
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
