//! Loads, stores and atomics (PTX ISA, `ld`, `st`, `atom`, `red`).

use super::Stopped;
use super::block::Common;
use super::copies::{By, Met};
use super::lane_race::LaneTouch;
use super::machine::Machine;
use super::race::Touch;
use super::warp::{Frame, Warp, lanes};
use crate::alu::{LANES, Lane, Lanes};
use crate::decode::PARAM_FRAME_BASE;
use crate::finding::FindingKind;
use crate::memory::windows;
use crate::program::{Access, Address, AddressBase, Modify, Op, Order, Register, Source};
use crate::types::Space;

/// Bytes of an access, in the memory that holds them.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Memory { allocation: usize, at: usize },
    Shared { at: usize },
    Local { at: usize },
    Param { at: usize },
}

/// What the lanes of one instruction share.
pub(super) struct Instruction<'i> {
    pub(super) pc: u32,
    pub(super) frame: Frame,
    pub(super) mask: u32,
    pub(super) access: &'i Access,
    pub(super) addresses: Lanes,
    /// Whether each lane accesses what all of them address.
    pub(super) is_collective: bool,
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
    let op = &program.code[pc as usize].op;
    let (Op::Load { access, address, .. }
    | Op::Store { access, address, .. }
    | Op::Atomic { access, address, .. }) = op
    else {
        return Ok(());
    };
    let addresses = addresses(warp, &machine.constants, frame, *address);
    let mut this = Accesses {
        machine,
        common,
        warp,
        instruction: Instruction { pc, frame, mask, access, addresses, is_collective: false },
    };
    let synchronises = access.order == Order::Strong;
    if synchronises {
        this.common.races.acquire(this.warp.index, this.instruction.active_addresses());
    }
    match op {
        Op::Load { d, used, .. } => this.load(d, *used)?,
        Op::Store { s, .. } => this.store(s)?,
        Op::Atomic { modify, d, b, c, .. } => this.atomic(*modify, *d, [*b, *c])?,
        _ => {}
    }
    if synchronises {
        this.warp.syncs += 1;
        this.common.races.publish(this.warp.index, this.instruction.active_addresses());
    }
    Ok(())
}

impl Instruction<'_> {
    fn active_addresses(&self) -> impl Iterator<Item = u64> {
        lanes(self.mask).map(|lane| self.addresses[lane])
    }
}

pub(super) fn addresses(warp: &Warp, constants: &[Lanes], frame: Frame, address: Address) -> Lanes {
    let offset = address.offset;
    match address.base {
        AddressBase::Wide(source) => {
            let base = warp.read(constants, frame, source);
            base.map(|base| base.wrapping_add(offset))
        }
        AddressBase::Narrow(source) => {
            let base = warp.read(constants, frame, source);
            base.map(|base| u64::from(u32::read(base.wrapping_add(offset))))
        }
        AddressBase::Frame => [offset.wrapping_add(frame.local.into()); LANES],
    }
}

pub(super) struct Accesses<'a, 'm, 'i> {
    pub(super) machine: &'a mut Machine<'m>,
    pub(super) common: &'a mut Common,
    pub(super) warp: &'a mut Warp,
    pub(super) instruction: Instruction<'i>,
}

impl Accesses<'_, '_, '_> {
    fn load(&mut self, d: &[Option<Register>], used: u32) -> Result<(), Stopped> {
        let Instruction { frame, mask, access, .. } = self.instruction;
        let bytes = usize::from(access.bytes);
        for lane in lanes(mask) {
            let target = self.locate(lane, false)?;
            self.check_written(lane, target, used)?;
            self.note(lane, target, false)?;
            for (index, d) in d.iter().enumerate() {
                let Some(d) = d else { continue };
                let value = self.read(target, index * bytes, bytes);
                self.warp.write_lane(frame, *d, lane, extend(value, access));
            }
        }
        Ok(())
    }

    fn store(&mut self, s: &[Source]) -> Result<(), Stopped> {
        let Instruction { frame, mask, access, .. } = self.instruction;
        let bytes = usize::from(access.bytes);
        for lane in self.in_any_order(mask) {
            let target = self.locate(lane, true)?;
            self.note(lane, target, true)?;
            for (index, s) in s.iter().enumerate() {
                let value = self.warp.read(&self.machine.constants, frame, *s)[lane];
                self.write(target, index * bytes, bytes, value);
            }
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        modify: Modify,
        d: Option<Register>,
        operands: [Source; 2],
    ) -> Result<(), Stopped> {
        let Instruction { frame, mask, access, .. } = self.instruction;
        let bytes = usize::from(access.bytes);
        let [b, c] = operands.map(|s| *self.warp.read(&self.machine.constants, frame, s));
        for lane in self.in_any_order(mask) {
            let target = self.locate(lane, true)?;
            self.check_written(lane, target, u32::MAX)?;
            self.note(lane, target, true)?;
            let old = self.read(target, 0, bytes);
            self.write(target, 0, bytes, modify(old, b[lane], c[lane]));
            if let Some(d) = d {
                self.warp.write_lane(frame, d, lane, extend(old, access));
            }
        }
        Ok(())
    }

    /// Which of several lanes comes last to one address is not defined, so a seed says.
    fn in_any_order(&mut self, mask: u32) -> impl Iterator<Item = usize> + use<> {
        let first = self.machine.random.next() % 32;
        let first = u32::try_from(first).unwrap_or(0);
        let turned = mask.rotate_right(first);
        lanes(turned).map(move |lane| (lane + first as usize) % LANES)
    }

    /// Where the access of a lane lies, if it may be made.
    #[inline]
    pub(super) fn locate(&mut self, lane: usize, writes: bool) -> Result<Target, Stopped> {
        let access = self.instruction.access;
        let mut address = self.instruction.addresses[lane];
        let mut space = access.space;
        if space == Space::Generic {
            (space, address) = windows::resolve(address);
        }
        let bytes = u64::from(access.bytes) * u64::from(access.count);
        if address & (bytes - 1) != 0 {
            let kind = FindingKind::Misaligned { space, address, bytes: narrow(bytes) };
            return self.refuse(kind, lane);
        }
        let target = match space {
            Space::Shared => self.in_shared(address, bytes),
            Space::Local => self.in_local(address, bytes, lane),
            Space::Param if address >= PARAM_FRAME_BASE => {
                self.in_local(address - PARAM_FRAME_BASE, bytes, lane)
            }
            Space::Param => {
                within(address, bytes, self.machine.params.len()).map(|at| Target::Param { at })
            }
            Space::Global | Space::Const | Space::Generic => self.in_memory(address, bytes),
        };
        let Some(target) = target else {
            let kind = FindingKind::OutOfBounds { space, address, bytes: narrow(bytes) };
            return self.refuse(kind, lane);
        };
        let constant = match target {
            Target::Memory { allocation, .. } => {
                let allocated = self.machine.memory.allocated(allocation);
                allocated.is_some_and(|allocated| allocated.is_constant)
            }
            Target::Param { .. } => true,
            Target::Shared { .. } | Target::Local { .. } => false,
        };
        if writes && constant {
            return self.refuse(FindingKind::ReadOnly { space, address }, lane);
        }
        if access.space == Space::Const && !constant {
            // Constants are a space of their own: other memory cannot be read through it.
            let kind = FindingKind::OutOfBounds { space, address, bytes: narrow(bytes) };
            return self.refuse(kind, lane);
        }
        Ok(target)
    }

    fn in_shared(&self, address: u64, bytes: u64) -> Option<Target> {
        let at = within(address, bytes, self.common.shared.len())?;
        // The begin belongs to the system.
        (at >= crate::module::SharedLayout::BEGIN as usize).then_some(Target::Shared { at })
    }

    fn in_local(&self, address: u64, bytes: u64, lane: usize) -> Option<Target> {
        let stride = self.machine.stack_bytes as usize;
        let at = within(address, bytes, stride)?;
        Some(Target::Local { at: lane * stride + at })
    }

    fn in_memory(&mut self, address: u64, bytes: u64) -> Option<Target> {
        let in_allocation = |machine: &Machine<'_>, allocation: usize| {
            let allocated = machine.memory.allocated(allocation)?;
            let at = address.checked_sub(allocated.base)?;
            let at = within(at, bytes, allocated.bytes.len())?;
            Some(Target::Memory { allocation, at })
        };
        if let Some(target) = in_allocation(self.machine, self.machine.last_allocation) {
            return Some(target);
        }
        let allocation = self.machine.memory.index_of(address)?;
        self.machine.last_allocation = allocation;
        in_allocation(self.machine, allocation)
    }

    #[cold]
    pub(super) fn refuse(&mut self, kind: FindingKind, lane: usize) -> Result<Target, Stopped> {
        self.machine.report_lanes(kind, self.instruction.pc, self.warp, 1 << lane)?;
        Err(Stopped)
    }

    #[inline]
    pub(super) fn check_written(
        &mut self,
        lane: usize,
        target: Target,
        used: u32,
    ) -> Result<(), Stopped> {
        let access = self.instruction.access;
        let bytes = usize::from(access.bytes) * usize::from(access.count);
        let unwritten = match target {
            Target::Memory { allocation, at } => {
                let allocated = self.machine.memory.allocated(allocation);
                allocated.map_or(0, |allocated| allocated.bytes.unwritten(at, bytes))
            }
            // What a copy has under way is told as such.
            Target::Shared { at } if self.common.copies.are_under_way(at, bytes) => 0,
            Target::Shared { at } => self.common.shared.unwritten(at, bytes),
            Target::Local { at } => self.warp.local.unwritten(at, bytes),
            Target::Param { .. } => 0,
        };
        let unwritten = unwritten & u64::from(used);
        if unwritten == 0 {
            return Ok(());
        }
        let mut address = self.instruction.addresses[lane];
        let mut space = access.space;
        if space == Space::Generic {
            (space, address) = windows::resolve(address);
        }
        let address = address + u64::from(unwritten.trailing_zeros());
        let kind = FindingKind::Unwritten { space, address };
        self.machine.report_lanes(kind, self.instruction.pc, self.warp, 1 << lane)
    }

    /// Tells the detectors of races and of early accesses; the first to find one says so.
    #[inline]
    pub(super) fn note(
        &mut self,
        lane: usize,
        target: Target,
        writes: bool,
    ) -> Result<(), Stopped> {
        let Instruction { pc, access, is_collective, .. } = self.instruction;
        let bytes = usize::from(access.bytes) * usize::from(access.count);
        let at = match target {
            Target::Shared { at } => at,
            Target::Memory { .. } if writes => return self.note_source(lane, bytes),
            Target::Memory { .. } | Target::Local { .. } | Target::Param { .. } => return Ok(()),
        };
        let (warp, syncs, order) = (self.warp.index, self.warp.syncs, access.order);
        let by_lane = (!is_collective).then_some(lane);
        let Common { copies, races, lane_races, shared, .. } = &mut *self.common;
        let met = copies.meet(By { warp, lane: by_lane }, syncs, (at, bytes), writes);
        let conflict = races.touch(Touch { warp, at, bytes, writes, order, pc });
        let lanes = LaneTouch { warp, syncs, lane: by_lane, at, bytes, writes, order, pc };
        let lanes = lane_races.touch(lanes, shared.len());
        let raced = conflict.map(|conflict| (conflict.pc, conflict.wrote)).or(lanes);
        if met.is_none() && raced.is_none() {
            return Ok(());
        }
        self.report_early(lane, at, writes, (met, raced))
    }

    #[cold]
    fn report_early(
        &mut self,
        lane: usize,
        at: usize,
        writes: bool,
        (met, raced): (Option<Met>, Option<(u32, bool)>),
    ) -> Result<(), Stopped> {
        let place = |pc| self.machine.program.places.place(pc);
        let address = at as u64;
        let race = |(pc, wrote)| FindingKind::SharedRace {
            address,
            earlier: place(pc),
            writes: [wrote, writes],
        };
        let kind = match met {
            Some(Met::UnderWay { pc }) => {
                FindingKind::CopyUnderWay { address, copy: place(pc), writes }
            }
            Some(Met::Landed { pc }) => race((pc, true)),
            None => {
                let Some(raced) = raced else { return Ok(()) };
                race(raced)
            }
        };
        self.machine.report_lanes(kind, self.instruction.pc, self.warp, 1 << lane)
    }

    /// A write to memory that a copy may read.
    #[inline]
    fn note_source(&mut self, lane: usize, bytes: usize) -> Result<(), Stopped> {
        let address = self.instruction.addresses[lane];
        let Some(copy) = self.common.copies.reads(address, bytes as u64) else { return Ok(()) };
        let copy = self.machine.program.places.place(copy);
        let kind = FindingKind::CopySource { address, copy };
        self.machine.report_lanes(kind, self.instruction.pc, self.warp, 1 << lane)
    }

    #[inline]
    fn read(&self, target: Target, offset: usize, bytes: usize) -> u64 {
        match target {
            Target::Memory { allocation, at } => {
                let allocated = self.machine.memory.allocated(allocation);
                allocated.map_or(0, |allocated| allocated.bytes.load(at + offset, bytes))
            }
            Target::Shared { at } => self.common.shared.load(at + offset, bytes),
            Target::Local { at } => self.warp.local.load(at + offset, bytes),
            Target::Param { at } => {
                let mut value = [0; 8];
                let begin = at + offset;
                value[..bytes].copy_from_slice(&self.machine.params[begin..begin + bytes]);
                u64::from_le_bytes(value)
            }
        }
    }

    #[inline]
    fn write(&mut self, target: Target, offset: usize, bytes: usize, value: u64) {
        match target {
            Target::Memory { allocation, at } => {
                if let Some(allocated) = self.machine.memory.allocated_mut(allocation) {
                    allocated.bytes.store(at + offset, bytes, value);
                }
            }
            Target::Shared { at } => self.common.shared.store(at + offset, bytes, value),
            Target::Local { at } => self.warp.local.store(at + offset, bytes, value),
            Target::Param { .. } => {}
        }
    }
}

/// A value as its register takes it: signed ones fill all bits above (PTX ISA 9.4.1).
#[inline]
fn extend(value: u64, access: &Access) -> u64 {
    if !access.signed {
        return value;
    }
    match access.bytes {
        1 => i8::read(value).write(),
        2 => i16::read(value).write(),
        4 => i32::read(value).write(),
        _ => value,
    }
}

/// The index of a range's first byte, if the range ends within `len`.
#[inline]
fn within(address: u64, bytes: u64, len: usize) -> Option<usize> {
    let end = address.checked_add(bytes)?;
    if end > len as u64 { None } else { usize::try_from(address).ok() }
}

fn narrow(bytes: u64) -> u32 {
    // An access has at most 32 bytes.
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Ends the launch with the text of a failed assertion, as far as it can be read.
pub(super) fn assertion(
    machine: &mut Machine<'_>,
    warp: &Warp,
    fragment: usize,
    mask: u32,
    fields: [u32; 3],
) -> Result<(), Stopped> {
    let at = &warp.fragments[fragment];
    let lane = mask.trailing_zeros() as usize;
    let begin = lane * machine.stack_bytes as usize + at.frame.local as usize;
    let [message, file, line] = fields.map(|field| begin + field as usize);
    let text = |at: usize| {
        let mut address = warp.local.load(at, 8);
        let mut bytes = Vec::new();
        let mut byte = [0];
        while bytes.len() < 1024 && machine.memory.read(address, &mut byte).is_ok() && byte != [0] {
            bytes.push(byte[0]);
            address += 1;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (message, file) = (text(message), text(file));
    let line = u32::read(warp.local.load(line, 4));
    let kind = FindingKind::Assertion { message, file, line };
    machine.report_lanes(kind, at.pc, warp, mask)
}
