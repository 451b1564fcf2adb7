//! Execution: warps in lock step, diverging and joining again, in an order that a seed gives.

mod access;
mod barrier;
mod block;
mod call;
mod compute;
mod copies;
mod copy;
mod exchange;
mod lane_race;
mod machine;
mod matrix;
mod race;
mod schedule;
mod special;
mod step;
mod warp;

use crate::launch::{Fault, Launch, Report};
use crate::memory::Memory;
use crate::module::{Kernel, SharedLayout};
use machine::Machine;

/// Ends a launch: the machine keeps the finding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

pub(crate) fn run(
    kernel: Kernel<'_>,
    memory: &mut Memory,
    launch: &Launch<'_>,
    layout: &SharedLayout,
) -> Result<Report, Fault> {
    let mut machine = Machine::new(kernel, memory, launch, layout);
    let ended = schedule::run(&mut machine, launch);
    machine.finish(ended)
}
