//! Attention forward: setup places the sequences, then workers claim units until none is left.
//!
//! A unit is a tile of rows of Q of one sequence and one head of K and V. It walks the keys that
//! its rows see, tile by tile, in a fixed order, and is all that writes these rows, so results
//! depend on neither threads nor timing.

mod band;
mod block;
mod pack;
mod scratch;
mod setup;
mod softmax;
mod tensors;

use std::sync::atomic::Ordering;

use frazil_core::{Call, Error, Facts, Launch, Plan, SdpaFwdFacts};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

pub(crate) use scratch::Scratch;
pub(crate) use setup::Sequence;

use crate::memory::{as_usize, workspace_slice, workspace_u32, workspace_u64};
use crate::support::{Regions, Tile};
use crate::vector::Isa;
use block::Work;
use tensors::Tensors;

/// A plan ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    plan: Plan,
    tile: Tile,
    regions: Regions,
    isa: Isa,
}

impl Kernel {
    pub(crate) fn new(plan: &Plan) -> Self {
        let facts = facts_of(plan);
        let tile = Tile::of(facts, plan.target());
        let regions = Regions::of(facts, tile);
        Self { plan: plan.clone(), tile, regions, isa: Isa::detect() }
    }

    /// Whether the plan's config and workspace are those that this kernel works with. An engine that
    /// wraps this one may hand over a plan of its own.
    pub(crate) fn is_of(&self, plan: &Plan) -> bool {
        *plan.config() == self.tile.config() && *plan.workspace() == self.regions.layout
    }
}

fn facts_of(plan: &Plan) -> &SdpaFwdFacts {
    match plan.facts() {
        Facts::SdpaFwd(facts) => facts,
        _ => unreachable!("`check_support` declines other operations"),
    }
}

impl Launch for Kernel {
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        let Self { plan, tile, regions, isa } = self;
        let (tile, isa) = (*tile, *isa);
        let facts = facts_of(plan);
        let tensors = Tensors::of(call, facts);
        let batch = as_usize(tensors.batch);
        // SAFETY: the region is the plan's, and this the one reference made to it.
        let errors = unsafe { workspace_u32(call, regions.error_word) };
        // SAFETY: the region is the plan's, and this the one reference made to it.
        let claimed = unsafe { workspace_u64(call, regions.claimed) };
        // SAFETY: the region is the plan's, and this the one reference made to it.
        let sequences =
            unsafe { workspace_slice(call.region(regions.sequences), regions.sequences, 0..batch) };
        let found = setup::place_all(call, facts, &tensors, tile.block_m as u64, sequences);
        errors.store(found.0, Ordering::Relaxed);
        claimed.store(0, Ordering::Relaxed);
        let sequences: &[Sequence] = sequences;
        let num_units = sequences.last().map_or(0, |last| last.units_end);
        let work = Work { facts, tensors, sequences, tile, isa, errors };
        let len = Scratch::len(facts.shape(), tile);
        let run_worker = |worker_idx: usize| {
            let part = worker_idx * len..(worker_idx + 1) * len;
            // SAFETY: the region is the plan's, and each worker has its own part of it.
            let memory =
                unsafe { workspace_slice(call.region(regions.scratch), regions.scratch, part) };
            let mut scratch = Scratch::carve(memory, facts.shape(), tile);
            // From the last to the first: under a causal band the last tiles of a sequence are the
            // longest.
            while let Some(unit) = num_units
                .checked_sub(1)
                .and_then(|last| last.checked_sub(claimed.fetch_add(1, Ordering::Relaxed)))
            {
                work.run(unit, &mut scratch);
            }
        };
        let num_workers = usize::try_from(num_units)
            .map_or(tile.num_workers, |units| units.min(tile.num_workers));
        if num_workers <= 1 {
            run_worker(0);
        } else {
            // One slot of scratch each: rayon may run several on one thread, never one on two.
            (0..num_workers).into_par_iter().with_max_len(1).for_each(run_worker);
        }
        Ok(())
    }
}
