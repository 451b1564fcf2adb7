//! A warp's turn: which of its fragments runs, and what control flow does to them.

use super::block::Common;
use super::machine::Machine;
use super::warp::{Fragment, FragmentState, Warp, lanes};
use super::{Stopped, access, barrier, call, compute, copy, exchange, matrix};
use crate::alu::Lane;
use crate::finding::FindingKind;
use crate::program::{Op, Source};

/// Why a warp's turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It may go on.
    Continues,
    /// All its lanes have come to this barrier of the block.
    Barrier(usize),
    Done,
}

/// What an instruction does to the fragment that executed it.
pub(super) enum Flow {
    Next,
    /// The fragments have changed, its own included.
    Changed,
}

/// Instructions after which another fragment may be chosen against the usual order, so that lanes
/// which wait for others in a loop do not keep them from running.
const TURN: u64 = 64;

pub(super) fn run_warp(
    machine: &mut Machine<'_>,
    common: &mut Common,
    warp: &mut Warp,
    quantum: u64,
) -> Result<Event, Stopped> {
    let mut left = quantum;
    while left > 0 {
        if warp.fragments.is_empty() {
            return Ok(Event::Done);
        }
        let Some(fragment) = choose(machine, warp) else {
            return stuck(machine, warp);
        };
        // Alone it runs on; otherwise each step may meet another fragment.
        let steps = if warp.fragments.len() == 1 { left } else { 1 };
        for _ in 0..steps {
            left -= 1;
            let limit = machine.limits.instructions;
            if machine.warp_instructions >= limit {
                let (pc, mask) = (warp.fragments[fragment].pc, warp.fragments[fragment].mask);
                machine.report_lanes(FindingKind::Budget { limit }, pc, warp, mask)?;
            }
            if matches!(step(machine, common, warp, fragment)?, Flow::Changed) {
                break;
            }
            warp.fragments[fragment].pc += 1;
        }
        if !matches!(warp.fragments.as_slice(), [only] if only.mask != 0) {
            warp.join();
        }
    }
    Ok(if warp.fragments.is_empty() { Event::Done } else { Event::Continues })
}

/// The fragment that is deepest in calls, and of those the one that stands first: lanes that are
/// behind catch up, so that all meet again. Now and then any other.
fn choose(machine: &mut Machine<'_>, warp: &Warp) -> Option<usize> {
    if let [only] = warp.fragments.as_slice() {
        return (only.state == FragmentState::Ready).then_some(0);
    }
    let ready = || {
        let all = warp.fragments.iter().enumerate();
        all.filter(|(_, fragment)| fragment.state == FragmentState::Ready)
    };
    let turn = machine.warp_instructions / TURN;
    if turn % 4 == 3 {
        // The same one for a whole turn, so that it comes through a loop.
        let count = ready().count();
        let nth = usize::try_from(turn / 4).unwrap_or(0).checked_rem(count)?;
        return ready().nth(nth).map(|(index, _)| index);
    }
    let key = |fragment: &Fragment| (usize::MAX - fragment.stack.len(), fragment.pc);
    ready().min_by_key(|(_, fragment)| key(fragment)).map(|(index, _)| index)
}

/// No fragment is ready: all are at barriers, or some wait for lanes that cannot come.
fn stuck(machine: &mut Machine<'_>, warp: &mut Warp) -> Result<Event, Stopped> {
    if exchange::complete_warp_sync(warp) {
        return Ok(Event::Continues);
    }
    if let Some(number) = gathered(machine, warp)? {
        return Ok(Event::Barrier(number));
    }
    let waits = |fragment: &&Fragment| fragment.state != FragmentState::AtBarrier;
    let first = warp.fragments.iter().find(waits).unwrap_or(&warp.fragments[0]);
    let (pc, waiting) = (first.pc, first.mask);
    let missing = warp.live & !waiting;
    let other = warp.fragments.iter().find(|fragment| fragment.mask & missing != 0);
    let stands_at = machine.program.places.place(other.map_or(pc, |fragment| fragment.pc));
    let kind = FindingKind::Divergence { waiting, missing, stands_at };
    machine.report_lanes(kind, pc, warp, waiting)?;
    Err(Stopped)
}

/// The barrier that all fragments are at: at one instruction, or each at one that is not aligned.
fn gathered(machine: &mut Machine<'_>, warp: &Warp) -> Result<Option<usize>, Stopped> {
    let mut all = None;
    for position in 0..warp.fragments.len() {
        let fragment = &warp.fragments[position];
        let program = machine.program;
        let Op::Barrier(op) = &program.code[fragment.pc as usize].op else { return Ok(None) };
        if fragment.state != FragmentState::AtBarrier || (op.aligned && warp.fragments.len() > 1) {
            return Ok(None);
        }
        let number = barrier::number(machine, warp, position, fragment.mask, op)?;
        if all.is_some_and(|other| other != number) {
            return Ok(None);
        }
        all = Some(number);
    }
    Ok(all)
}

/// Executes one instruction of a fragment. Unless the fragments have changed, the caller moves on.
fn step(
    machine: &mut Machine<'_>,
    common: &mut Common,
    warp: &mut Warp,
    fragment: usize,
) -> Result<Flow, Stopped> {
    let program = machine.program;
    let at = &warp.fragments[fragment];
    let (pc, frame) = (at.pc, at.frame);
    let instruction = &program.code[pc as usize];
    let mask = match instruction.guard {
        None => at.mask,
        Some(guard) => at.mask & warp.predicate(frame, guard),
    };
    machine.warp_instructions += 1;
    machine.thread_instructions += u64::from(mask.count_ones());
    if mask == 0 {
        return Ok(Flow::Next);
    }
    match &instruction.op {
        Op::Branch { target } => Ok(branch(warp, fragment, mask, *target)),
        Op::BranchIndexed { targets, index } => {
            branch_indexed(machine, warp, fragment, mask, (targets, *index))
        }
        Op::Call(op) => {
            let whole = warp.fragments[fragment].mask;
            if mask != whole {
                warp.split(fragment, whole & !mask, pc + 1, FragmentState::Ready);
            }
            call::enter(machine, warp, fragment, op)?;
            Ok(Flow::Changed)
        }
        Op::Return => {
            warp.fragments[fragment].pc += u32::from(warp.fragments[fragment].mask != mask);
            call::leave(machine, warp, fragment, mask);
            Ok(Flow::Changed)
        }
        Op::Exit => {
            warp.fragments[fragment].pc += u32::from(warp.fragments[fragment].mask != mask);
            warp.exit(mask);
            Ok(Flow::Changed)
        }
        Op::Trap => {
            machine.report_lanes(FindingKind::Trap, pc, warp, mask)?;
            Err(Stopped)
        }
        Op::Assertion { message, file, line } => {
            access::assertion(machine, warp, fragment, mask, [*message, *file, *line])?;
            Err(Stopped)
        }
        Op::Barrier(_) => {
            // Lanes whose guard fails do not come to it.
            let whole = warp.fragments[fragment].mask;
            if mask != whole {
                warp.split(fragment, whole & !mask, pc + 1, FragmentState::Ready);
            }
            warp.fragments[fragment].state = FragmentState::AtBarrier;
            Ok(Flow::Changed)
        }
        Op::WarpSync { .. }
        | Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::Match { .. }
        | Op::Reduce { .. }
        | Op::Elect { .. } => exchange::execute(machine, warp, fragment, mask),
        Op::LoadMatrix(_)
        | Op::StoreMatrix(_)
        | Op::TransposeMatrix { .. }
        | Op::MatrixProduct(_) => matrix::execute(machine, common, warp, fragment, mask),
        Op::Copy(_) | Op::CopyCommit | Op::CopyWait { .. } => {
            copy::execute(machine, common, warp, fragment, mask)?;
            Ok(Flow::Next)
        }
        Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. } => {
            access::execute(machine, common, warp, fragment, mask)?;
            Ok(Flow::Next)
        }
        _ => {
            compute::execute(machine, warp, fragment, mask);
            Ok(Flow::Next)
        }
    }
}

fn branch(warp: &mut Warp, fragment: usize, mask: u32, target: u32) -> Flow {
    let whole = warp.fragments[fragment].mask;
    if mask == whole {
        warp.fragments[fragment].pc = target;
    } else {
        warp.split(fragment, mask, target, FragmentState::Ready);
        warp.fragments[fragment].pc += 1;
    }
    Flow::Changed
}

fn branch_indexed(
    machine: &mut Machine<'_>,
    warp: &mut Warp,
    fragment: usize,
    mask: u32,
    (targets, index): (&[u32], Source),
) -> Result<Flow, Stopped> {
    let at = &warp.fragments[fragment];
    let pc = at.pc;
    let index = *warp.read(&machine.constants, at.frame, index);
    for lane in lanes(mask) {
        let index = u32::read(index[lane]);
        let Some(target) = targets.get(index as usize) else {
            let targets = u32::try_from(targets.len()).unwrap_or(u32::MAX);
            let kind = FindingKind::BranchIndex { index, targets };
            machine.report_lanes(kind, pc, warp, 1 << lane)?;
            return Err(Stopped);
        };
        warp.split(fragment, 1 << lane, *target, FragmentState::Ready);
    }
    warp.fragments[fragment].pc += 1;
    Ok(Flow::Changed)
}

/// Joins the bits of a comparison with a predicate.
pub(super) fn joined(
    warp: &Warp,
    frame: super::warp::Frame,
    bits: u32,
    join: crate::program::Join,
) -> u32 {
    match join {
        None => bits,
        Some((op, predicate)) => apply(op, bits, warp.predicate(frame, predicate)),
    }
}

pub(super) fn apply(op: crate::program::BoolOp, a: u32, b: u32) -> u32 {
    use crate::program::BoolOp;
    match op {
        BoolOp::And => a & b,
        BoolOp::Or => a | b,
        BoolOp::Xor => a ^ b,
    }
}
