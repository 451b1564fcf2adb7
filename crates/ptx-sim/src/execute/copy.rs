//! Asynchronous copies from global to shared memory (PTX ISA, `cp.async`, `cp.async.commit_group`,
//! `cp.async.wait_group`).
//!
//! A copy reads its source and writes its destination at any time between the instruction that begins it and the wait
//! of the same thread that covers it; no order is promised among copies. When it is done, its bytes are visible to that
//! thread alone; others need a barrier after the wait. Each word of a destination therefore knows the copy that is under
//! way to it, and for copies that have landed the lane and what its warp had synchronised by then; whatever meets a
//! copy too early is found in every order and at every time that a seed gives.
//!
//! Copies that nobody waits for before their thread exits are no finding: the ISA asks for a wait before their bytes are
//! used, and nothing else. They stay under way until the block ends. Writes to the source are seen if they are of the
//! same block and come before the wait in the order that the seed gives.

use super::Stopped;
use super::access::{Accesses, Instruction, Target, addresses};
use super::block::Common;
use super::copies::Copies;
use super::machine::Machine;
use super::warp::{Frame, Warp, lanes};
use crate::alu::{LANES, Lane};
use crate::finding::FindingKind;
use crate::memory::Memory;
use crate::program::{Access, CopyOp, CopyRead, Op, Order};
use crate::types::Space;

/// When copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// As they begin.
    Early,
    Random,
    /// At the wait.
    Late,
}

impl Timing {
    pub(super) fn of_seed(seed: u64) -> Self {
        match seed % 3 {
            0 => Self::Early,
            1 => Self::Random,
            _ => Self::Late,
        }
    }
}

pub(super) fn execute(
    machine: &mut Machine<'_>,
    common: &mut Common,
    warp: &mut Warp,
    fragment: usize,
    mask: u32,
) -> Result<(), Stopped> {
    let at = &warp.fragments[fragment];
    let (pc, frame) = (at.pc, at.frame);
    let program = machine.program;
    match &program.code[pc as usize].op {
        Op::Copy(op) => begin(machine, common, warp, (pc, frame, mask), op)?,
        Op::CopyCommit => common.copies.commit(warp.index, mask),
        Op::CopyWait { pending } => {
            if pending.is_none() {
                common.copies.commit(warp.index, mask);
            }
            common.wait(machine.memory, warp, mask, pending.unwrap_or(0));
        }
        _ => {}
    }
    Ok(())
}

fn begin(
    machine: &mut Machine<'_>,
    common: &mut Common,
    warp: &mut Warp,
    (pc, frame, mask): (u32, Frame, u32),
    op: &CopyOp,
) -> Result<(), Stopped> {
    let constants = &machine.constants;
    let from = addresses(warp, constants, frame, op.from);
    let to = addresses(warp, constants, frame, op.to);
    let wanted: [u32; LANES] = match op.read {
        CopyRead::All => [op.bytes.into(); LANES],
        CopyRead::Bytes(source) => warp.read(constants, frame, source).map(u32::read),
        CopyRead::Unless(predicate) => {
            let ignored = warp.predicate(frame, predicate);
            std::array::from_fn(|lane| u32::from(op.bytes) * (!ignored >> lane & 1))
        }
    };
    let number = common.copies.add(warp.index, pc, op.bytes, common.shared.len());
    common.copies.batches[number].from = from;
    let access = copy_access(op.bytes);
    let instruction = Instruction { pc, frame, mask, access, addresses: to, is_collective: false };
    let mut this = Accesses { machine, common, warp, instruction };
    for lane in lanes(mask) {
        let Target::Shared { at } = this.locate(lane, true)? else { continue };
        let read = check_source(&mut this, lane, from[lane], (wanted[lane], op.bytes))?;
        this.note(lane, Target::Shared { at }, true)?;
        this.common.copies.put(number, lane, at, read);
    }
    if machine.timing == Timing::Early {
        common.copies.batches[number].make(u32::MAX, machine.memory, &mut common.shared);
    }
    Ok(())
}

/// A destination as one access of its lane.
fn copy_access(bytes: u8) -> &'static Access {
    const fn of(bytes: u8, count: u8) -> Access {
        Access { space: Space::Shared, bytes, count, signed: false, order: Order::Weak }
    }
    static SIZES: [Access; 3] = [of(4, 1), of(8, 1), of(8, 2)];
    match bytes {
        4 => &SIZES[0],
        8 => &SIZES[1],
        _ => &SIZES[2],
    }
}

/// How many bytes of the source a lane's copy reads, if it may.
fn check_source(
    this: &mut Accesses<'_, '_, '_>,
    lane: usize,
    address: u64,
    (wanted, bytes): (u32, u8),
) -> Result<u8, Stopped> {
    let pc = this.instruction.pc;
    let space = CopyOp::FROM;
    let mut report = |kind| this.machine.report_lanes(kind, pc, this.warp, 1 << lane);
    let read = u8::try_from(wanted).unwrap_or(bytes).min(bytes);
    if wanted > bytes.into() {
        report(FindingKind::CopySize { read: wanted, bytes: bytes.into() })?;
    }
    if !address.is_multiple_of(bytes.into()) {
        report(FindingKind::Misaligned { space, address, bytes: bytes.into() })?;
    }
    if read == 0 {
        return Ok(0);
    }
    match this.machine.memory.first_unwritten(address, read.into()) {
        Ok(None) => {}
        Ok(Some(address)) => {
            let kind = FindingKind::Unwritten { space, address };
            this.machine.report_lanes(kind, pc, this.warp, 1 << lane)?;
        }
        Err(_) => {
            let kind = FindingKind::OutOfBounds { space, address, bytes: read.into() };
            this.machine.report_lanes(kind, pc, this.warp, 1 << lane)?;
        }
    }
    Ok(read)
}

impl Common {
    /// Lets some copies be made, where time is random.
    #[inline]
    pub(super) fn progress(&mut self, machine: &mut Machine<'_>) {
        if machine.timing != Timing::Random || self.copies.batches.is_empty() {
            return;
        }
        let chosen = machine.random.index(self.copies.batches.len());
        let some = u32::read(machine.random.next());
        self.copies.batches[chosen].make(some, machine.memory, &mut self.shared);
    }

    /// Makes and ends the copies of lanes of a warp that belong to all but the last `pending` groups.
    fn wait(&mut self, memory: &Memory, warp: &Warp, mask: u32, pending: u32) {
        let Self { copies, shared, races, .. } = self;
        let Copies { words, batches, free, groups } = copies;
        let Some(made) = groups.get(warp.index) else { return };
        for (number, batch) in batches.iter_mut().enumerate() {
            if batch.warp != warp.index || batch.waited_for & mask == 0 {
                continue;
            }
            let is_covered = |lane: &usize| {
                u64::from(batch.groups[*lane]) + u64::from(pending) < u64::from(made[*lane])
            };
            let covered = lanes(batch.waited_for & mask).filter(is_covered);
            let covered = covered.fold(0, |bits, lane| bits | 1 << lane);
            if covered == 0 {
                continue;
            }
            batch.make(covered, memory, shared);
            batch.land(covered, warp.syncs, words, races);
            if batch.waited_for == 0 {
                free.push(number);
            }
        }
    }
}
