//! How the work of a plan is shared out among the blocks of its grid.

use std::num::NonZero;

use frazil_core::{Band, Call, CudaProps, Layout, Region, Role, SdpaFwdFacts, Unsupported};
use frazil_cuda::combine::{self, Combine, Line, Units};
use frazil_cuda::sdpa_fwd::{Packing, Sections, SmallBatch};
use frazil_cuda::work_list::{Bands, SECTION_BYTES, WorkList};

use crate::config::{MANY_KEYS, Tile};

/// How blocks learn of their units.
pub(crate) enum Order {
    /// By their index: every sequence has as many queries.
    Counted(Counted),
    /// By their index, and cut into pieces: every unit has as many tiles.
    CountedCut(CountedCut),
    /// By what each works out of the lengths.
    Small(Small),
    /// By a list that is made on the device.
    Listed(Listed),
}

/// Units told by their index, of which blocks take pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedCut {
    pub(crate) counted: Counted,
    pub(crate) combine: Combine,
    /// Keys of a tile.
    block_n: u32,
}

/// Units of few sequences.
pub(crate) struct Small {
    pub(crate) batch: SmallBatch,
    /// Units of one band.
    pub(crate) num_head_units: u32,
    /// As of a [`Share::Claimed`].
    pub(crate) num_blocks: u32,
}

/// Units of a list.
pub(crate) struct Listed {
    pub(crate) list: Box<WorkList>,
    /// Units of one band.
    pub(crate) num_head_units: u32,
    pub(crate) share: Share,
}

/// What a block takes of a list.
pub(crate) enum Share {
    /// Whole units, one after another.
    Claimed {
        /// Blocks that are resident at once, or units, where those are fewer.
        num_blocks: u32,
    },
    /// Pieces of units: of all keys as many as every other block. Where the list has its places.
    Cut(Combine, Region),
}

impl Order {
    /// Those that serve, best first, each with the workspace that it takes. Few sequences are served
    /// without a list as well: no kernel goes before, and none is last because it was dearest.
    pub(crate) fn all(
        facts: &SdpaFwdFacts,
        gpu: &CudaProps,
        tile: Tile,
        packing: Packing,
    ) -> Result<Vec<(Self, Layout)>, Unsupported> {
        let bands = Bands {
            band_tokens: packing.band_tokens,
            block_n: tile.block_n,
            num_runs: packing.num_runs,
            section_bytes: SECTION_BYTES,
        };
        let num_head_units = int32("units of one band", packing.num_head_units)?;
        let resident = gpu.num_sms.saturating_mul(tile.blocks_per_sm).max(1);
        let num_units = |max_bands: u64| {
            int32("units of work", max_bands.saturating_mul(packing.num_head_units))
        };
        let blocks = |max_bands| Ok(resident.min(num_units(max_bands)?).max(1));
        let mut workspace = Layout::new();
        if tile.may_cut
            && pays_to_cut(facts, packing, resident)
            && let Some(order) = Self::cut(facts, (tile, packing), &bands, resident)?
        {
            return Ok(vec![order]);
        }
        let Some(list) = WorkList::of(facts, &bands, &mut workspace) else {
            let counted = Counted::of(facts, packing, num_head_units)?;
            return Ok(vec![(Self::Counted(counted), workspace)]);
        };
        let num_blocks = blocks(list.max_bands())?;
        let share = Share::Claimed { num_blocks };
        let listed = Self::Listed(Listed { list: Box::new(list), num_head_units, share });
        let mut orders = vec![(listed, workspace)];
        let mut workspace = Layout::new();
        let small =
            tile.has_small_batches(facts).then(|| SmallBatch::of(facts, &bands, &mut workspace));
        if let Some(batch) = small.flatten() {
            let num_blocks = blocks(batch.max_bands())?;
            orders.insert(0, (Self::Small(Small { batch, num_head_units, num_blocks }), workspace));
        }
        Ok(orders)
    }

    /// Pieces of units; `None` where there are more places than kernels count.
    fn cut(
        facts: &SdpaFwdFacts,
        (tile, packing): (Tile, Packing),
        bands: &Bands,
        resident: u32,
    ) -> Result<Option<(Self, Layout)>, Unsupported> {
        let mut workspace = Layout::new();
        let num_head_units = int32("units of one band", packing.num_head_units)?;
        let unit_places = facts.shape().kv.max_len.div_ceil(tile.block_n.into()) + 1;
        let is_countable =
            |units: u32| u64::from(units).saturating_mul(unit_places) <= combine::MAX_PLACES;
        if has_even_units(facts, packing) {
            let counted = Counted::of(facts, packing, num_head_units)?;
            if !is_countable(counted.num_units) {
                return Ok(None);
            }
            let num_blocks = cut_blocks(counted.num_units, unit_places, resident);
            let num_blocks = whole_shares(num_blocks, counted.num_units);
            let units = Units::Counted(at_least_one(counted.num_units.into()));
            let combine = Combine::of(facts, packing, (num_blocks, units), &mut workspace);
            let order = CountedCut { counted, combine, block_n: tile.block_n };
            return Ok(Some((Self::CountedCut(order), workspace)));
        }
        let (list, places) = WorkList::in_natural_order(facts, bands, &mut workspace);
        let num_units =
            int32("units of work", list.max_bands().saturating_mul(packing.num_head_units))?;
        if !is_countable(num_units) {
            return Ok(None);
        }
        let num_blocks = cut_blocks(num_units, unit_places, resident);
        let units = facts.shape().batch.saturating_mul(packing.num_head_units);
        let units = Units::Listed(at_least_one(units));
        let combine = Combine::of(facts, packing, (num_blocks, units), &mut workspace);
        let share = Share::Cut(combine, places);
        let listed = Listed { list: Box::new(list), num_head_units, share };
        Ok(Some((Self::Listed(listed), workspace)))
    }

    /// Blocks of the grid, of which there is one at least.
    pub(crate) fn num_blocks(&self) -> u32 {
        match self {
            Self::Counted(counted) => counted.num_units.max(1),
            Self::CountedCut(cut) => cut.combine.num_blocks().get().into(),
            Self::Small(small) => small.num_blocks,
            Self::Listed(Listed { share: Share::Claimed { num_blocks }, .. }) => *num_blocks,
            Self::Listed(Listed { share: Share::Cut(combine, _), .. }) => {
                combine.num_blocks().get().into()
            }
        }
    }

    /// Units of one band of one sequence.
    pub(crate) fn num_head_units(&self) -> u32 {
        match self {
            Self::Counted(counted) => counted.num_head_units,
            Self::CountedCut(cut) => cut.counted.num_head_units,
            Self::Small(small) => small.num_head_units,
            Self::Listed(listed) => listed.num_head_units,
        }
    }
}

/// Whether whole units leave so much of a GPU idle that pieces of them are done earlier.
fn pays_to_cut(facts: &SdpaFwdFacts, packing: Packing, resident: u32) -> bool {
    let max_len = facts.shape().kv.max_len;
    let num_seen = match facts.band() {
        Some(Band { left: Some(left), right: Some(right), .. }) => {
            max_len.min(u64::from(left) + u64::from(right) + 1)
        }
        _ => max_len,
    };
    if num_seen < MANY_KEYS {
        return false;
    }
    // One sequence may have most of the keys, and its units would be waited for.
    if facts.q_side().has_lengths() || facts.kv_side().has_lengths() {
        return true;
    }
    // Units that cost alike leave idle what they lack to whole waves: here more than a tenth.
    let num_units = count_units(facts, packing);
    let resident = u64::from(resident);
    let in_waves = num_units.div_ceil(resident).saturating_mul(resident);
    num_units < in_waves - in_waves / 10
}

/// Blocks that are resident at once, or places (`kernels/common/ranges.cuh`), where those are fewer.
fn cut_blocks(num_units: u32, unit_places: u64, resident: u32) -> NonZero<u16> {
    let num_places = u64::from(num_units).saturating_mul(unit_places);
    let num_blocks = num_places.min(resident.into()).min(combine::MAX_BLOCKS.into());
    NonZero::new(u16::try_from(num_blocks).unwrap_or(u16::MAX)).unwrap_or(NonZero::<u16>::MIN)
}

fn at_least_one(count: u64) -> NonZero<u32> {
    NonZero::new(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or(NonZero::<u32>::MIN)
}

/// So few blocks less that every unit is the work of whole ones: none then has pieces of two. At most a
/// tenth of them is given up for it.
fn whole_shares(num_blocks: NonZero<u16>, num_units: u32) -> NonZero<u16> {
    let all = num_blocks.get();
    let whole =
        u16::try_from(num_units).ok().and_then(|units| Some(all.checked_div(units)? * units));
    whole.filter(|whole| *whole >= all - all / 10).and_then(NonZero::new).unwrap_or(num_blocks)
}

/// Whether units have as many tiles each, or no more than that: no list is needed to cut them evenly.
fn has_even_units(facts: &SdpaFwdFacts, packing: Packing) -> bool {
    if facts.q_side().has_lengths() || facts.kv_side().has_lengths() {
        return false;
    }
    let is_one_band = facts.shape().q.max_len <= packing.band_tokens.into();
    match facts.band() {
        None => true,
        // Of one band all keys up to the last that its last query sees, which are mostly all.
        Some(Band { left: None, .. }) => is_one_band,
        Some(_) => false,
    }
}

/// Units that are told by their index: bands of as many queries for every sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Of all sequences and heads, as declared.
    num_units: u32,
    /// Of one band.
    num_head_units: u32,
    packing: Packing,
    bytes_per_key: u64,
}

/// Units of all sequences and heads, as declared; of sequences that have as many queries each.
fn count_units(facts: &SdpaFwdFacts, packing: Packing) -> u64 {
    let shape = facts.shape();
    let num_bands = shape.q.rows.div_ceil(packing.band_tokens.into());
    shape.batch.saturating_mul(packing.num_head_units).saturating_mul(num_bands)
}

impl CountedCut {
    /// For the extents of a call, as [`Counted::sections`].
    pub(crate) fn line(&self, call: &Call<'_>) -> Line {
        let num_keys = call.view(Role::K).map_or(0, |view| view.geometry.extent(2));
        // The declaration was checked to have no more places than an int32 counts.
        let num_tiles = u32::try_from(num_keys.div_ceil(self.block_n.into())).unwrap_or(u32::MAX);
        Line::Even(num_tiles.saturating_add(1))
    }
}

impl Counted {
    fn of(
        facts: &SdpaFwdFacts,
        packing: Packing,
        num_head_units: u32,
    ) -> Result<Self, Unsupported> {
        let num_units = int32("units of work", count_units(facts, packing))?;
        let shape = facts.shape();
        let element = facts.dtype(Role::K).map_or(1, |dtype| dtype.bytes());
        let bytes_per_key = (shape.head_dim_qk + shape.head_dim_v) * element;
        Ok(Self { num_units, num_head_units, packing, bytes_per_key })
    }

    /// For the extents of a call, which are those declared or smaller.
    pub(crate) fn sections(&self, call: &Call<'_>) -> Sections {
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

/// Kernels count units in 31 bits.
fn int32(dim: &'static str, found: u64) -> Result<u32, Unsupported> {
    let is_served = found <= i32::MAX.unsigned_abs().into();
    let served = "up to 2147483647";
    let value = u32::try_from(found).ok().filter(|_| is_served);
    value.ok_or(Unsupported::Dim { dim, found, served })
}
