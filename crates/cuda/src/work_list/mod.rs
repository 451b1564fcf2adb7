//! The work list: the first kernel of every execute of attention forward that device tensors steer,
//! or whose units are cut.
//!
//! One block does what packed-length setup does, and lists the bands of all sequences, dearest first
//! or in natural order (`kernels/common/sdpa_work_list.cu`). Sizes and order are values, so one
//! artifact for each target serves every plan.

mod launch;
mod params;

use frazil_core::{Call, Config, Layout, Region, Role, SdpaFwdFacts, SideFacts};

pub use launch::{OLDEST_NVRTC, WorkListKernel, request};
pub use params::{Band, Header, Order, Params, Record};

use crate::Divisor;
use crate::seqlens::{self, Seqlens, SideParams};

/// Symbol of the kernel, as [`Launches`](frazil_core::Launches) names it.
pub const KERNEL: &str = "frazil_sdpa_work_list";

/// Threads of the one block.
pub const NUM_THREADS: u32 = 512;

/// Sequences of the greatest batch whose rows are kept in shared memory.
pub const SHARED_SEQUENCES: u32 = 1024;

/// Bytes of keys and values that the units of a section read, unless an engine knows better: about
/// half of the L2 of a GPU for data centers.
pub const SECTION_BYTES: u64 = 32 << 20;

/// Buckets that bands are sorted into: `kNumCostBuckets` of the kernel.
const NUM_COST_BUCKETS: u32 = 29 * 16;

/// The integers that are compiled in.
pub fn config() -> Config {
    Config::new([
        ("num_threads", NUM_THREADS.into()),
        ("shared_sequences", SHARED_SEQUENCES.into()),
        ("params_bytes", Params::BYTES as i64),
        ("smem_bytes", smem_bytes().into()),
    ])
}

/// Static shared memory: rows and first band of each sequence, a place for each bucket, and a sum,
/// error bits and a length for each warp.
const fn smem_bytes() -> u32 {
    let sequences = SHARED_SEQUENCES * 16 + (SHARED_SEQUENCES + 1) * 4;
    let warps = NUM_THREADS / 32 * (8 + 4 + 4);
    (sequences + warps + NUM_COST_BUCKETS * 4).next_multiple_of(16)
}

/// How the kernel behind the list shares out its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bands {
    /// Queries of a band; at least 1.
    pub band_tokens: u32,
    /// Keys of a tile; at least 1.
    pub block_n: u32,
    /// Head units of one head of K and V; at least 1.
    pub num_runs: u32,
    /// Bytes of keys and values that the units of a section may read.
    pub section_bytes: u64,
}

/// The list of one plan: where it is written, and what its kernel is launched with.
#[derive(Clone, Debug)]
pub struct WorkList {
    /// None where both sides are dense.
    seqlens: Option<Seqlens>,
    /// None where the batch fits shared memory.
    first_bands: Option<Region>,
    header: Region,
    records: Region,
    /// In natural order.
    places: Option<Region>,
    max_bands: u64,
    sizes: Sizes,
    is_dense: IsDense,
}

/// What is the same for every call, as the kernel takes it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    band: Band,
    band_tokens: Divisor,
    block_n: Divisor,
    num_kv_heads: u32,
    num_runs: u32,
    keys_per_section: u32,
}

/// Sides whose rows the host knows.
#[derive(Clone, Copy, Debug)]
struct IsDense {
    q: bool,
    kv: bool,
}

impl WorkList {
    /// Dearest first: adds its regions to a plan's workspace; `None` where no side has device
    /// lengths, and nothing is added.
    ///
    /// | region | holds |
    /// |---|---|
    /// | those of [`Seqlens::of`], without element offsets | the same |
    /// | `band_prefix`, where more than [`SHARED_SEQUENCES`] are declared | scratch |
    /// | `work_list_header` | a [`Header`] |
    /// | `work_list_records` | a [`Record`] for each band, dearest first |
    ///
    /// A plan is good for as many units as an int32 counts: an engine declines facts whose
    /// [`max_bands`](Self::max_bands) times the head units is more.
    ///
    /// # Panics
    ///
    /// If a size of `bands` is 0 or does not fit 31 bits.
    pub fn of(facts: &SdpaFwdFacts, bands: &Bands, layout: &mut Layout) -> Option<Self> {
        let seqlens = Seqlens::of(facts, &[], layout)?;
        Some(Self::with(facts, bands, Some(seqlens), layout))
    }

    /// In natural order, for units that are cut into pieces; also where no side has device lengths,
    /// and then with no region of [`Seqlens::of`]. With it the region of its places.
    ///
    /// | region | holds, beside those of [`WorkList::of`] |
    /// |---|---|
    /// | `work_list_records` | a [`Record`] for each band, by sequence and query |
    /// | `work_list_places` | int64, `max_bands + 1`: tiles and 1 of all bands before, then of all |
    ///
    /// # Panics
    ///
    /// As [`WorkList::of`].
    pub fn in_natural_order(
        facts: &SdpaFwdFacts,
        bands: &Bands,
        layout: &mut Layout,
    ) -> (Self, Region) {
        let seqlens = Seqlens::of(facts, &[], layout);
        let list = Self::with(facts, bands, seqlens, layout);
        let places_bytes = list.max_bands.saturating_add(1).saturating_mul(8);
        let places = layout.region("work_list_places", places_bytes);
        (Self { places: Some(places), ..list }, places)
    }

    fn with(
        facts: &SdpaFwdFacts,
        bands: &Bands,
        seqlens: Option<Seqlens>,
        layout: &mut Layout,
    ) -> Self {
        let shape = facts.shape();
        let in_workspace = shape.batch > SHARED_SEQUENCES.into();
        let prefix_bytes = shape.batch.saturating_add(1).saturating_mul(4);
        let first_bands = in_workspace.then(|| layout.region("band_prefix", prefix_bytes));
        let header = layout.region("work_list_header", size_of::<Header>() as u64);
        let max_bands = max_bands(facts, bands.band_tokens.into());
        let record_bytes = max_bands.saturating_mul(size_of::<Record>() as u64);
        let records = layout.region("work_list_records", record_bytes);
        let sizes = Sizes {
            band: Band::of(facts),
            band_tokens: Divisor::new(bands.band_tokens),
            block_n: Divisor::new(bands.block_n),
            num_kv_heads: unsigned(shape.num_kv_heads),
            num_runs: bands.num_runs,
            keys_per_section: keys_per_section(facts, bands),
        };
        let is_dense =
            IsDense { q: !facts.q_side().has_lengths(), kv: !facts.kv_side().has_lengths() };
        Self { seqlens, first_bands, header, records, places: None, max_bands, sizes, is_dense }
    }

    /// Error word, bounded lengths and first rows, which the kernel writes too; `None` where no side
    /// has device lengths.
    pub fn seqlens(&self) -> Option<&Seqlens> {
        self.seqlens.as_ref()
    }

    /// A [`Header`].
    pub fn header(&self) -> Region {
        self.header
    }

    /// [`Record`]s: as many as the header says, in room for [`max_bands`](Self::max_bands).
    pub fn records(&self) -> Region {
        self.records
    }

    /// The most bands that disjoint sequences within their bounds can have, under any override.
    pub fn max_bands(&self) -> u64 {
        self.max_bands
    }

    /// The kernel's parameter for one call, overrides of extents and strides included.
    pub fn params(&self, call: &Call<'_>) -> Params {
        let dense_rows = |is_dense: bool, role| {
            let rows = call.view(role).filter(|_| is_dense).map(|view| view.geometry.extent(2));
            signed(rows.unwrap_or(0))
        };
        let Sizes { band, band_tokens, block_n, num_kv_heads, num_runs, keys_per_section } =
            self.sizes;
        Params {
            seqlens: self.seqlens.as_ref().map_or_else(|| dense(call), |sides| sides.params(call)),
            band,
            band_tokens,
            block_n,
            q_rows: dense_rows(self.is_dense.q, Role::Q),
            kv_rows: dense_rows(self.is_dense.kv, Role::K),
            num_kv_heads,
            num_runs,
            keys_per_section,
            max_bands: signed(self.max_bands),
            order: if self.places.is_some() { Order::Natural } else { Order::DearestFirst },
            unused: 0,
            first_bands: self.first_bands.map_or(0, |region| call.region(region)),
            header: call.region(self.header),
            records: call.region(self.records),
            places: self.places.map_or(0, |region| call.region(region)),
        }
    }
}

/// Two dense sides: no lengths, and no error word.
fn dense(call: &Call<'_>) -> seqlens::Params {
    let batch = call.view(Role::Q).map_or(0, |view| view.geometry.extent(0));
    seqlens::Params {
        batch: signed(batch).into(),
        error_word: 0,
        q: SideParams::default(),
        kv: SideParams::default(),
    }
}

/// Keys of one head of K and V that units which run together may read.
pub(crate) fn keys_per_section(facts: &SdpaFwdFacts, bands: &Bands) -> u32 {
    unsigned(bands.section_bytes / bytes_per_key(facts))
}

/// Each sequence has `ceil(len / band_tokens)` bands: at most those of the longest, for all of them.
/// Packed, with lengths that add up to at most `total`, `sum ceil(len / n) <= sum (len + n - 1) / n`,
/// and so at most `ceil(total / n) + B - 1`, where sequences without rows do not count.
pub(crate) fn max_bands(facts: &SdpaFwdFacts, band_tokens: u64) -> u64 {
    let (batch, q) = (facts.shape().batch, facts.shape().q);
    let of_longest = batch.saturating_mul(q.max_len.div_ceil(band_tokens));
    match facts.q_side() {
        SideFacts::PackedLengths { max_total, .. }
        | SideFacts::PackedPrefix { max_total, .. }
        | SideFacts::PackedStarts { max_total, .. } => {
            let total = q.rows.min(max_total.into());
            let with_rows = batch.min(total);
            let of_total = total.div_ceil(band_tokens).saturating_add(with_rows.saturating_sub(1));
            of_longest.min(of_total)
        }
        _ => of_longest,
    }
}

/// Of one head of K and V.
fn bytes_per_key(facts: &SdpaFwdFacts) -> u64 {
    let shape = facts.shape();
    let bytes = |role, columns| facts.dtype(role).map_or(0, |dtype| dtype.bytes()) * columns;
    (bytes(Role::K, shape.head_dim_qk) + bytes(Role::V, shape.head_dim_v)).max(1)
}

fn signed(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn unsigned(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
