//! Attention forward: setup places the sequences, then workers claim units until none is left.
//!
//! A unit is a tile of rows of Q of one sequence and one head of K and V. It walks the keys that
//! its rows see, tile by tile, in a fixed order, and is all that writes these rows, so results
//! depend on neither threads nor timing. Where units are few, each is worked on in pieces of its
//! keys, which are merged in the order of the keys, whoever finishes the last.
//!
//! Code map: `setup` places sequences and finds units, `tensors` finds rows, `band` says which keys
//! a query sees · `block` is one unit, `attend` takes its rows as lanes (`pack` gathers, `panel`
//! computes), `few` takes a few rows as they lie (`few_products` computes) · `softmax` and `merge`
//! end both · `scratch` is a worker's memory.

mod attend;
mod band;
mod block;
mod few;
mod few_products;
mod merge;
mod pack;
mod panel;
mod scratch;
mod setup;
#[cfg(test)]
mod setup_agreement;
mod softmax;
mod tensors;

use std::sync::atomic::Ordering;

use frazil_core::{Call, Error, Facts, Launch, Plan, SdpaFwdFacts};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

pub(crate) use merge::Partial;
pub(crate) use scratch::Scratch;
pub(crate) use setup::Sequence;

use crate::memory::{as_usize, workspace_slice, workspace_u32s, workspace_u64};
use crate::support::{Regions, Tile};
use crate::vector::Isa;
use block::Work;
use setup::WorkShape;
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
    pub(crate) fn new(plan: &Plan, isa: Isa) -> Self {
        let facts = facts_of(plan);
        let tile = Tile::of(facts, plan.target());
        let regions = Regions::of(facts, tile);
        Self { plan: plan.clone(), tile, regions, isa }
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
        let errors = unsafe { &workspace_u32s(call, regions.error_word, 1)[0] };
        // SAFETY: the region is the plan's, and this the one reference made to it.
        let sequences =
            unsafe { workspace_slice(call.region(regions.sequences), regions.sequences, 0..batch) };
        let facts_shape = facts.shape();
        let shape = WorkShape {
            band: facts.band(),
            num_kv_heads: facts_shape.num_kv_heads,
            group: facts_shape.num_q_heads / facts_shape.num_kv_heads,
            block_m: tile.block_m as u64,
        };
        let found = setup::place_all(call, facts, &tensors, &shape, sequences);
        errors.store(found.0, Ordering::Relaxed);
        let sequences: &[Sequence] = sequences;
        let num_units = sequences.last().map_or(0, |last| last.units_end);
        let longest = sequences.first().map_or([0, 0], |first| shape.costs(first));
        let num_pieces = regions.num_pieces(num_units, longest[0].max(longest[1]));
        let work = Work { facts, tensors, sequences, shape, tile, isa, num_pieces, errors };
        let crew = Crew { call, regions, facts, tile };
        if num_pieces == 1 {
            crew.share(num_units, |unit_idx, scratch| work.run(unit_idx, scratch));
            return Ok(());
        }
        // Units are at most as many as slots, for there is a slot for every piece of each.
        // SAFETY: the region is the plan's, and this the one reference made to it.
        let finished = unsafe { workspace_u32s(call, regions.finished, as_usize(num_units)) };
        finished.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        crew.share(num_units * num_pieces, |at, scratch| {
            let (unit_idx, piece_idx) = (at / num_pieces, at % num_pieces);
            // SAFETY: each piece is claimed once, and its slot is read only after it is finished.
            let partial = unsafe { crew.slots(at, 1) };
            work.run_piece((unit_idx, piece_idx), partial, scratch);
            // Whoever finishes the last piece merges: it sees what the others wrote before they
            // counted theirs.
            let before = finished[as_usize(unit_idx)].fetch_add(1, Ordering::AcqRel);
            if u64::from(before) + 1 == num_pieces {
                // SAFETY: every piece of the unit is finished, and one worker alone comes here.
                let partials = unsafe { crew.slots(unit_idx * num_pieces, num_pieces) };
                work.finish(unit_idx, partials, scratch);
            }
        });
        Ok(())
    }
}

/// The workers of a call.
#[derive(Debug)]
struct Crew<'a> {
    call: &'a Call<'a>,
    regions: &'a Regions,
    facts: &'a SdpaFwdFacts,
    tile: Tile,
}

impl Crew<'_> {
    /// Calls `work` once with each number below `count`, in order of their start, on all workers,
    /// and returns when all is done. Workers claim numbers until none is left.
    fn share(&self, count: u64, work: impl Fn(u64, &mut Scratch<'_>) + Sync) {
        let Self { call, regions, facts, tile } = self;
        // SAFETY: the region is the plan's, and referred to here alone.
        let claimed = unsafe { workspace_u64(call, regions.claimed) };
        claimed.store(0, Ordering::Relaxed);
        let len = Scratch::len(facts.shape(), *tile);
        let run_worker = |worker_idx: usize| {
            let part = worker_idx * len..(worker_idx + 1) * len;
            // SAFETY: the region is the plan's, and each worker has its own part of it.
            let memory =
                unsafe { workspace_slice(call.region(regions.scratch), regions.scratch, part) };
            let mut scratch = Scratch::carve(memory, facts.shape(), *tile);
            loop {
                let number = claimed.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                work(number, &mut scratch);
            }
        };
        let num_workers =
            usize::try_from(count).map_or(tile.num_workers, |count| count.min(tile.num_workers));
        if num_workers <= 1 {
            run_worker(0);
        } else {
            // One slot of scratch each: rayon may run several on one thread, never one on two.
            (0..num_workers).into_par_iter().with_max_len(1).for_each(run_worker);
        }
    }

    /// Slots of the partial results.
    ///
    /// # Safety
    ///
    /// While the slice is alive nothing else refers to these slots.
    #[expect(clippy::mut_from_ref, reason = "the memory is the call's; the caller vouches for it")]
    unsafe fn slots(&self, first: u64, count: u64) -> &mut [f32] {
        let Regions { partials, slot_len, .. } = *self.regions;
        let (begin, end) = (as_usize(first) * slot_len, as_usize(first + count) * slot_len);
        // SAFETY: the region is the plan's; the caller vouches for the rest.
        unsafe { workspace_slice(self.call.region(partials), partials, begin..end) }
    }
}
