//! Barriers of a block (PTX ISA, `bar`): sixteen, each counting threads in whole warps.
//!
//! A barrier without a count waits for every warp of the block that has not exited, as `__syncthreads()` is defined
//! (CUDA C++ Programming Guide, Synchronization Functions).

use super::Stopped;
use super::block::Block;
use super::machine::Machine;
use super::race::Clock;
use super::warp::{FragmentState, Warp, WarpState, lanes};
use crate::alu::{LANES, Lane, splat};
use crate::finding::FindingKind;
use crate::program::{BarrierOp, BarrierReduce, Op, Program};

const NUM_BARRIERS: usize = 16;
const WARP_THREADS: u32 = 32;

pub(super) struct Barriers {
    barriers: [Barrier; NUM_BARRIERS],
    num_warps: u32,
    /// Warps that a completed barrier has let go, until the scheduler takes them.
    pub(super) woken: Vec<usize>,
}

#[derive(Default)]
struct Barrier {
    /// Threads that complete it; 0 while nobody has come.
    expected: u32,
    arrived: u32,
    /// Whether all warps of the block take part, of which those that have exited count as come.
    is_whole: bool,
    waiting: Vec<usize>,
    reduction: Reduction,
    /// What the accesses before the barrier ordered.
    clock: Clock,
}

/// Of the predicates of a reduction: how many hold, and how many do not.
#[derive(Clone, Copy, Default)]
struct Reduction {
    holding: u32,
    failing: u32,
}

impl Barriers {
    pub(super) fn new(num_warps: usize) -> Self {
        let num_warps = u32::try_from(num_warps).unwrap_or(u32::MAX);
        Self { barriers: Default::default(), num_warps, woken: Vec::new() }
    }

    /// Threads that came, and that were to come.
    pub(super) fn counts(&self, barrier: usize) -> (u32, u32) {
        let barrier = &self.barriers[barrier];
        (barrier.arrived, barrier.expected)
    }

    fn whole(&self) -> u32 {
        self.num_warps * WARP_THREADS
    }
}

/// The number of the barrier that lanes of a fragment are at.
pub(super) fn number(
    machine: &mut Machine<'_>,
    warp: &Warp,
    fragment: usize,
    mask: u32,
    op: &BarrierOp,
) -> Result<usize, Stopped> {
    let at = &warp.fragments[fragment];
    let ids = warp.read(&machine.constants, at.frame, op.id);
    let id = u32::read(ids[mask.trailing_zeros() as usize]);
    let differs = lanes(mask).any(|other| u32::read(ids[other]) != id);
    let why = if differs {
        "its number differs among lanes"
    } else if id as usize >= NUM_BARRIERS {
        "its number is not below 16"
    } else {
        return Ok(id as usize);
    };
    let kind = FindingKind::Barrier { barrier: id.into(), why };
    machine.report_lanes(kind, at.pc, warp, mask)?;
    Err(Stopped)
}

/// A warp has come to a barrier with all its lanes; its fragments stand at the instructions.
pub(super) fn arrive(
    machine: &mut Machine<'_>,
    block: &mut Block,
    index: usize,
    number: usize,
) -> Result<(), Stopped> {
    let Block { warps, common } = &mut *block;
    let warp = &mut warps[index];
    let program = machine.program;
    let mut waits = false;
    for position in 0..warp.fragments.len() {
        let pc = warp.fragments[position].pc;
        let Op::Barrier(op) = &program.code[pc as usize].op else { continue };
        if let Err(why) = join(machine, &mut common.barriers, warp, position, (number, op)) {
            let kind = FindingKind::Barrier { barrier: number as u64, why };
            return machine.report_lanes(kind, pc, warp, warp.fragments[position].mask);
        }
        waits |= op.waits;
    }
    let barrier = &mut common.barriers.barriers[number];
    barrier.arrived += WARP_THREADS;
    common.races.release(index, &mut barrier.clock);
    if waits {
        warp.state = WarpState::AtBarrier(number);
        barrier.waiting.push(index);
    } else {
        common.races.begin_segment(index);
        step_over(warp);
    }
    complete(program, block, number);
    Ok(())
}

/// One fragment's part in an arrival.
fn join(
    machine: &Machine<'_>,
    barriers: &mut Barriers,
    warp: &Warp,
    position: usize,
    (number, op): (usize, &BarrierOp),
) -> Result<(), &'static str> {
    let fragment = &warp.fragments[position];
    let whole = barriers.whole();
    let count = op.count.map(|count| {
        let values = warp.read(&machine.constants, fragment.frame, count);
        u32::read(values[fragment.mask.trailing_zeros() as usize])
    });
    let expected = count.unwrap_or(whole);
    let barrier = &mut barriers.barriers[number];
    if expected == 0 || !expected.is_multiple_of(WARP_THREADS) {
        return Err("its count of threads is no multiple of 32");
    }
    if expected > whole {
        return Err("its count is more than the block has threads");
    }
    if barrier.expected != 0 && barrier.expected != expected {
        return Err("its count differs among warps");
    }
    barrier.expected = expected;
    barrier.is_whole |= count.is_none();
    if let Some((_, predicate)) = op.reduce {
        let holds = warp.predicate(fragment.frame, predicate) & fragment.mask;
        barrier.reduction.holding += holds.count_ones();
        barrier.reduction.failing += (fragment.mask & !holds).count_ones();
    }
    Ok(())
}

/// A warp has exited: barriers of the whole block wait for it no more.
pub(super) fn exit(program: &Program, block: &mut Block) {
    for number in 0..NUM_BARRIERS {
        complete(program, block, number);
    }
}

/// Lets the waiting warps go if nobody is missing.
fn complete(program: &Program, block: &mut Block, number: usize) {
    let Block { warps, common } = block;
    let barrier = &mut common.barriers.barriers[number];
    let gone = || warps.iter().filter(|warp| warp.state == WarpState::Done).count() * LANES;
    let gone = if barrier.is_whole { u32::try_from(gone()).unwrap_or(u32::MAX) } else { 0 };
    if barrier.expected == 0 || barrier.arrived + gone < barrier.expected {
        return;
    }
    let barrier = std::mem::take(barrier);
    common.races.begin_together(&barrier.waiting, &barrier.clock);
    for index in &barrier.waiting {
        let warp = &mut warps[*index];
        warp.state = WarpState::Runnable;
        warp.syncs += 1;
        for position in 0..warp.fragments.len() {
            let pc = warp.fragments[position].pc;
            if let Op::Barrier(op) = &program.code[pc as usize].op
                && let Some((reduce, _)) = op.reduce
            {
                write(warp, position, reduce, barrier.reduction);
            }
        }
        step_over(warp);
    }
    common.barriers.woken.extend(barrier.waiting);
}

fn write(warp: &mut Warp, position: usize, reduce: BarrierReduce, reduction: Reduction) {
    let fragment = &warp.fragments[position];
    let (frame, mask) = (fragment.frame, fragment.mask);
    let all = |holds: bool| if holds { mask } else { 0 };
    match reduce {
        BarrierReduce::Count(d) => warp.write(frame, d, mask, &splat(reduction.holding.into())),
        BarrierReduce::And(d) => {
            warp.write_predicate(frame, d, mask, all(reduction.failing == 0));
        }
        BarrierReduce::Or(d) => warp.write_predicate(frame, d, mask, all(reduction.holding > 0)),
    }
}

fn step_over(warp: &mut Warp) {
    for fragment in &mut warp.fragments {
        fragment.pc += 1;
        fragment.state = FragmentState::Ready;
    }
    warp.join();
}
