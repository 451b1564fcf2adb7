//! A block: its warps, its shared memory, its barriers.

use super::barrier::Barriers;
use super::copies::Copies;
use super::lane_race::LaneRaces;
use super::machine::Machine;
use super::race::Races;
use super::special::special;
use super::warp::Warp;
use crate::alu::LANES;
use crate::launch::Launch;
use crate::memory::TrackedBytes;

pub(super) struct Block {
    pub(super) warps: Vec<Warp>,
    pub(super) common: Common,
}

/// What the warps of a block share.
pub(super) struct Common {
    pub(super) shared: TrackedBytes,
    pub(super) barriers: Barriers,
    pub(super) races: Races,
    pub(super) lane_races: LaneRaces,
    pub(super) copies: Copies,
}

impl Block {
    pub(super) fn new(machine: &mut Machine<'_>, launch: &Launch<'_>, index: [u32; 3]) -> Self {
        let num_threads = launch.block.iter().product::<u32>() as usize;
        let num_warps = num_threads.div_ceil(LANES);
        let shared_end = machine.shared_end;
        let warp = |warp| {
            let special = special(launch, index, warp, shared_end);
            Warp::new(machine, warp, index, launch.block, special)
        };
        Self {
            warps: (0..num_warps).map(warp).collect(),
            common: Common {
                shared: TrackedBytes::new(shared_end),
                barriers: Barriers::new(num_warps),
                races: Races::new(num_warps, shared_end),
                lane_races: LaneRaces::default(),
                copies: Copies::default(),
            },
        }
    }
}
