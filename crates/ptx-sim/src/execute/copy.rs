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
use super::machine::Machine;
use super::race::{Races, Touch};
use super::warp::{Frame, Warp, lanes};
use crate::alu::{LANES, Lane};
use crate::finding::FindingKind;
use crate::memory::{Memory, TrackedBytes};
use crate::program::{Access, CopyOp, CopyRead, Op, Order};
use crate::types::Space;

/// Copies have whole words.
const WORD_BYTES: usize = 4;
const MAX_COPY_BYTES: usize = 16;

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

/// The copies of a block.
#[derive(Default)]
pub(super) struct Copies {
    /// Of each word of shared memory; empty until the block's first copy.
    words: Vec<Word>,
    batches: Vec<Batch>,
    /// Batches whose copies have all landed.
    free: Vec<usize>,
    /// Groups that each lane of each warp has made.
    groups: Vec<[u32; LANES]>,
}

#[derive(Clone, Copy)]
enum Word {
    Untouched,
    UnderWay {
        batch: u32,
    },
    /// A copy of a lane that has waited for it.
    Landed {
        warp: u8,
        lane: u8,
        syncs: u32,
        pc: u32,
    },
}

/// The copies that one instruction of a warp began.
struct Batch {
    warp: usize,
    pc: u32,
    bytes: usize,
    /// Lanes that have not waited for their copies, and those of them whose bytes have not been moved.
    waited_for: u32,
    unmoved: u32,
    /// The group that each lane's copy belongs to, or will when it is made.
    groups: [u32; LANES],
    to: [u32; LANES],
    from: [u64; LANES],
    /// Bytes that are read.
    read: [u8; LANES],
}

/// Who makes an access: one lane of a warp, or all of them.
#[derive(Clone, Copy)]
pub(super) struct By {
    pub(super) warp: usize,
    pub(super) lane: Option<usize>,
}

/// A copy that an access comes too early for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    UnderWay {
        pc: u32,
    },
    /// Its lane has waited, but nothing has told the lanes of its warp.
    Landed {
        pc: u32,
    },
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
            batch.land(covered, number, (warp.syncs, words, races));
            if batch.waited_for == 0 {
                free.push(number);
            }
        }
    }
}

impl Copies {
    fn commit(&mut self, warp: usize, mask: u32) {
        // Before the first copy of the block, groups are empty and need not be counted.
        if let Some(groups) = self.groups.get_mut(warp) {
            for lane in lanes(mask) {
                groups[lane] += 1;
            }
        }
    }

    /// Room for the copies of one instruction.
    fn add(&mut self, warp: usize, pc: u32, bytes: u8, shared_bytes: usize) -> usize {
        if self.words.is_empty() {
            self.words = vec![Word::Untouched; shared_bytes.div_ceil(WORD_BYTES)];
        }
        if self.groups.len() <= warp {
            self.groups.resize(warp + 1, [0; LANES]);
        }
        let batch = Batch {
            warp,
            pc,
            bytes: bytes.into(),
            waited_for: 0,
            unmoved: 0,
            groups: self.groups[warp],
            to: [0; LANES],
            from: [0; LANES],
            read: [0; LANES],
        };
        if let Some(number) = self.free.pop() {
            self.batches[number] = batch;
            return number;
        }
        self.batches.push(batch);
        self.batches.len() - 1
    }

    /// The copy of a lane begins.
    fn put(&mut self, number: usize, lane: usize, at: usize, read: u8) {
        let batch = &mut self.batches[number];
        // Shared memory has less than 2^32 bytes.
        batch.to[lane] = u32::try_from(at).unwrap_or(u32::MAX);
        batch.read[lane] = read;
        batch.waited_for |= 1 << lane;
        batch.unmoved |= 1 << lane;
        let words = at / WORD_BYTES..(at + batch.bytes) / WORD_BYTES;
        // Each batch takes more memory than a word does.
        let batch = u32::try_from(number).unwrap_or(u32::MAX);
        self.words[words].fill(Word::UnderWay { batch });
    }

    #[inline]
    pub(super) fn are_under_way(&self, at: usize, bytes: usize) -> bool {
        let words = at / WORD_BYTES..(at + bytes).div_ceil(WORD_BYTES);
        let under_way = |word: &Word| matches!(word, Word::UnderWay { .. });
        self.words.get(words).is_some_and(|words| words.iter().any(under_way))
    }

    /// The copy that an access of shared memory comes too early for.
    #[inline]
    pub(super) fn meet(
        &mut self,
        by: By,
        syncs: u32,
        (at, bytes): (usize, usize),
        writes: bool,
    ) -> Option<Met> {
        let words = at / WORD_BYTES..(at + bytes).div_ceil(WORD_BYTES);
        let mut met = None;
        for word in self.words.get_mut(words)? {
            match *word {
                Word::Untouched => {}
                Word::UnderWay { batch } => {
                    let pc = self.batches[batch as usize].pc;
                    met = met.or(Some(Met::UnderWay { pc }));
                }
                Word::Landed { warp, lane, syncs: landed, pc } => {
                    let other = by.lane.is_none_or(|by| by != usize::from(lane));
                    if usize::from(warp) == by.warp && other && landed == syncs {
                        met = met.or(Some(Met::Landed { pc }));
                    }
                    if writes {
                        *word = Word::Untouched;
                    }
                }
            }
        }
        met
    }

    /// The copy under way that reads bytes of global memory.
    #[inline]
    pub(super) fn reads(&self, address: u64, bytes: u64) -> Option<u32> {
        let under_way = self.batches.iter().filter(|batch| batch.waited_for != 0);
        under_way.into_iter().find_map(|batch| {
            let overlaps = |lane: usize| {
                let (from, read) = (batch.from[lane], u64::from(batch.read[lane]));
                from < address.saturating_add(bytes) && address < from.saturating_add(read)
            };
            lanes(batch.waited_for).any(overlaps).then_some(batch.pc)
        })
    }
}

impl Batch {
    /// Moves the bytes of lanes that have not been moved.
    fn make(&mut self, some: u32, memory: &Memory, shared: &mut TrackedBytes) {
        for lane in lanes(self.unmoved & some) {
            let mut bytes = [0; MAX_COPY_BYTES];
            let read = usize::from(self.read[lane]);
            // The source was checked when the copy began, and nothing is freed during a launch.
            let _checked = memory.read(self.from[lane], &mut bytes[..read]);
            shared.write(self.to[lane] as usize, &bytes[..self.bytes]);
        }
        self.unmoved &= !some;
    }

    /// Lanes have waited for their copies.
    fn land(
        &mut self,
        covered: u32,
        number: usize,
        (syncs, words, races): (u32, &mut [Word], &mut Races),
    ) {
        let (warp, pc, bytes) = (self.warp, self.pc, self.bytes);
        for lane in lanes(covered) {
            let at = self.to[lane] as usize;
            for word in &mut words[at / WORD_BYTES..(at + bytes) / WORD_BYTES] {
                // A later copy to the same place was found when it began.
                if matches!(*word, Word::UnderWay { batch } if batch as usize == number) {
                    let [warp, lane] =
                        [warp, lane].map(|index| u8::try_from(index).unwrap_or(u8::MAX));
                    *word = Word::Landed { warp, lane, syncs, pc };
                }
            }
            races.land(Touch { warp, at, bytes, writes: true, order: Order::Weak, pc });
        }
        self.waited_for &= !covered;
    }
}
