//! Which warp runs next: an order that the seed gives.

use super::block::Block;
use super::machine::Machine;
use super::step::{Event, run_warp};
use super::warp::WarpState;
use super::{Stopped, barrier};
use crate::finding::FindingKind;
use crate::launch::Launch;
use crate::random::Order;

/// Most instructions of a warp before another one is chosen.
const MAX_QUANTUM: u64 = 64;

/// Runs all blocks of a launch. Those of a cluster begin together.
pub(super) fn run(machine: &mut Machine<'_>, launch: &Launch<'_>) -> Result<(), Stopped> {
    let per_cluster = launch.cluster.map(u64::from).iter().product::<u64>();
    let num_blocks = launch.grid.map(u64::from).iter().product::<u64>();
    let mut clusters = Order::new(num_blocks / per_cluster, &mut machine.random);
    let room = u64::from(launch.limits.resident_blocks).max(per_cluster);
    let mut resident = Resident::default();
    loop {
        while resident.num_blocks as u64 + per_cluster <= room {
            let Some(cluster) = clusters.next() else { break };
            for rank in 0..per_cluster {
                let index = block_index(launch, cluster, rank);
                resident.add(Block::new(machine, launch, index));
            }
        }
        if resident.num_blocks == 0 {
            return Ok(());
        }
        if resident.runnable.is_empty() {
            return resident.deadlock(machine);
        }
        let chosen = machine.random.index(resident.runnable.len());
        let quantum = 1 + machine.random.below(MAX_QUANTUM);
        resident.run(machine, chosen, quantum)?;
    }
}

fn block_index(launch: &Launch<'_>, cluster: u64, rank: u64) -> [u32; 3] {
    let place = |linear: u64, extents: [u32; 3]| {
        let [x, y, _] = extents.map(u64::from);
        [linear % x, linear / x % y, linear / x / y]
    };
    let clusters = [0, 1, 2].map(|axis| launch.grid[axis] / launch.cluster[axis]);
    let (outer, inner) = (place(cluster, clusters), place(rank, launch.cluster));
    [0, 1, 2].map(|axis| {
        let index = outer[axis] * u64::from(launch.cluster[axis]) + inner[axis];
        // An index of a block is below the grid's extent.
        u32::try_from(index).unwrap_or(u32::MAX)
    })
}

/// Blocks that have begun and not ended.
#[derive(Default)]
struct Resident {
    slots: Vec<Option<Block>>,
    num_blocks: usize,
    /// Slot and warp of every warp that may run.
    runnable: Vec<(usize, usize)>,
}

impl Resident {
    fn add(&mut self, block: Block) {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.runnable.extend((0..block.warps.len()).map(|warp| (slot, warp)));
        self.slots[slot] = Some(block);
        self.num_blocks += 1;
    }

    fn run(
        &mut self,
        machine: &mut Machine<'_>,
        chosen: usize,
        quantum: u64,
    ) -> Result<(), Stopped> {
        let (slot, index) = self.runnable[chosen];
        let Some(block) = &mut self.slots[slot] else {
            self.runnable.swap_remove(chosen);
            return Ok(());
        };
        block.common.progress(machine);
        let event = run_warp(machine, &mut block.common, &mut block.warps[index], quantum)?;
        match event {
            Event::Continues => return Ok(()),
            Event::Barrier(barrier) => {
                // A warp that completes the barrier is among the woken; one that does not wait stays.
                let is_woken = |block: &Block| block.common.barriers.woken.contains(&index);
                barrier::arrive(machine, block, index, barrier)?;
                let waits = block.warps[index].state != WarpState::Runnable;
                if waits || is_woken(block) {
                    self.runnable.swap_remove(chosen);
                }
            }
            Event::Done => {
                block.warps[index].state = WarpState::Done;
                self.runnable.swap_remove(chosen);
                barrier::exit(machine.program, block);
            }
        }
        let woken = std::mem::take(&mut block.common.barriers.woken);
        self.runnable.extend(woken.into_iter().map(|warp| (slot, warp)));
        if block.warps.iter().all(|warp| warp.state == WarpState::Done) {
            self.slots[slot] = None;
            self.num_blocks -= 1;
        }
        Ok(())
    }

    fn deadlock(&self, machine: &mut Machine<'_>) -> Result<(), Stopped> {
        for block in self.slots.iter().flatten() {
            for warp in &block.warps {
                let WarpState::AtBarrier(barrier) = warp.state else { continue };
                let (arrived, expected) = block.common.barriers.counts(barrier);
                // A barrier has a number below 16.
                let barrier = u32::try_from(barrier).unwrap_or(u32::MAX);
                let kind = FindingKind::Deadlock { barrier, arrived, expected };
                let fragment = &warp.fragments[0];
                machine.report_lanes(kind, fragment.pc, warp, fragment.mask)?;
            }
        }
        Ok(())
    }
}
