//! A warp: registers of 32 lanes, and the groups that its lanes have fallen into.

use super::machine::Machine;
use crate::alu::{LANES, Lanes};
use crate::finding::Thread;
use crate::memory::TrackedBytes;
use crate::program::{Predicate, PredicateRegister, Register, Source, Special};

pub(super) struct Warp {
    /// Index in its block.
    pub(super) index: usize,
    /// Extents of its block, and the index of the block in its grid.
    block_extents: [u32; 3],
    block: [u32; 3],
    pub(super) registers: Vec<Lanes>,
    /// A bit for each lane.
    pub(super) predicates: Vec<u32>,
    /// The carry of each lane.
    pub(super) carry: u32,
    pub(super) special: Box<[Lanes; Special::COUNT]>,
    pub(super) local: TrackedBytes,
    /// Lanes that have not exited.
    pub(super) live: u32,
    pub(super) fragments: Vec<Fragment>,
    pub(super) state: WarpState,
    /// How often its lanes have ordered their accesses among themselves.
    pub(super) syncs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarpState {
    Runnable,
    /// All lanes wait at this barrier of the block.
    AtBarrier(usize),
    Done,
}

/// Lanes of a warp that stand at one instruction, with the same calls behind them.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) frame: Frame,
    pub(super) stack: Vec<Return>,
    pub(super) state: FragmentState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FragmentState {
    Ready,
    /// Waits for other lanes of the warp to come to the same instruction.
    Converging,
    /// Has come to a barrier of the block.
    AtBarrier,
    /// Waits at `bar.warp.sync` for the members of a mask.
    AtWarpSync(u32),
}

/// Where the registers and local variables of a call begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) function: usize,
    pub(super) registers: u32,
    pub(super) predicates: u32,
    pub(super) local: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Return {
    /// The call; its successor is next.
    pub(super) call: u32,
    pub(super) frame: Frame,
}

impl Warp {
    pub(super) fn new(
        machine: &mut Machine<'_>,
        index: usize,
        block: [u32; 3],
        block_extents: [u32; 3],
        special: Box<[Lanes; Special::COUNT]>,
    ) -> Self {
        let function = &machine.program.functions[machine.function];
        let threads = block_extents.iter().product::<u32>() as usize;
        let lanes = (threads - index * LANES).min(LANES);
        let live = if lanes == LANES { u32::MAX } else { (1 << lanes) - 1 };
        let frame = Frame { function: machine.function, ..Frame::default() };
        // What a register holds before it is written is anything.
        let junk = machine.random.next();
        let predicates = if junk & 1 == 0 { 0 } else { u32::MAX };
        let stride = machine.stack_bytes as usize;
        Self {
            index,
            block_extents,
            block,
            registers: vec![[junk; LANES]; function.num_registers as usize],
            predicates: vec![predicates; function.num_predicates as usize],
            carry: 0,
            special,
            local: TrackedBytes::new(stride * LANES),
            live,
            fragments: vec![Fragment {
                pc: function.begin,
                mask: live,
                frame,
                stack: Vec::new(),
                state: FragmentState::Ready,
            }],
            state: WarpState::Runnable,
            syncs: 0,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a block has at most 1024 threads")]
    pub(super) fn thread(&self, lane: u32) -> Thread {
        let linear = self.index as u32 * LANES as u32 + lane.min(31);
        let [x, y, _] = self.block_extents;
        Thread { block: self.block, thread: [linear % x, linear / x % y, linear / x / y] }
    }

    #[inline]
    pub(super) fn read<'w>(
        &'w self,
        constants: &'w [Lanes],
        frame: Frame,
        source: Source,
    ) -> &'w Lanes {
        match source {
            Source::Register(Register(index)) => {
                &self.registers[(frame.registers + index) as usize]
            }
            Source::Constant(index) => &constants[index as usize],
            Source::Special(special) => &self.special[special as usize],
        }
    }

    #[inline]
    pub(super) fn write(&mut self, frame: Frame, register: Register, mask: u32, values: &Lanes) {
        let to = &mut self.registers[(frame.registers + register.0) as usize];
        if mask == u32::MAX {
            *to = *values;
            return;
        }
        for lane in 0..LANES {
            if mask >> lane & 1 == 1 {
                to[lane] = values[lane];
            }
        }
    }

    #[inline]
    pub(super) fn write_lane(&mut self, frame: Frame, register: Register, lane: usize, value: u64) {
        self.registers[(frame.registers + register.0) as usize][lane] = value;
    }

    #[inline]
    pub(super) fn predicate(&self, frame: Frame, predicate: Predicate) -> u32 {
        match predicate {
            Predicate::Register { index, negated } => {
                let bits = self.predicates[(frame.predicates + index.0) as usize];
                if negated { !bits } else { bits }
            }
            Predicate::Constant(value) => 0_u32.wrapping_sub(u32::from(value)),
        }
    }

    #[inline]
    pub(super) fn write_predicate(
        &mut self,
        frame: Frame,
        register: PredicateRegister,
        mask: u32,
        bits: u32,
    ) {
        let to = &mut self.predicates[(frame.predicates + register.0) as usize];
        *to = (*to & !mask) | (bits & mask);
    }

    /// Splits off lanes of a fragment into one of their own.
    pub(super) fn split(&mut self, fragment: usize, lanes: u32, pc: u32, state: FragmentState) {
        let from = &mut self.fragments[fragment];
        from.mask &= !lanes;
        let (frame, stack) = (from.frame, from.stack.clone());
        self.fragments.push(Fragment { pc, mask: lanes, frame, stack, state });
    }

    /// Joins fragments that stand at one instruction, and drops those without lanes. The lanes of a
    /// join are ready, so that what waited for more lanes looks again.
    pub(super) fn join(&mut self) {
        self.fragments.retain(|fragment| fragment.mask != 0);
        let mut first = 0;
        while first < self.fragments.len() {
            let mut other = first + 1;
            while other < self.fragments.len() {
                let (a, b) = (&self.fragments[first], &self.fragments[other]);
                // Those at a barrier of the warp stand behind it already, and must not slip through.
                let passed = |f: &Fragment| matches!(f.state, FragmentState::AtWarpSync(_));
                let meet = a.pc == b.pc && !passed(a) && !passed(b);
                if meet && a.frame == b.frame && a.stack == b.stack {
                    let mask = b.mask;
                    self.fragments.swap_remove(other);
                    self.fragments[first].mask |= mask;
                    self.fragments[first].state = FragmentState::Ready;
                } else {
                    other += 1;
                }
            }
            first += 1;
        }
    }

    /// Lanes that waited for one that has exited look again.
    pub(super) fn exit(&mut self, lanes: u32) {
        self.live &= !lanes;
        for fragment in &mut self.fragments {
            fragment.mask &= self.live;
            if fragment.state == FragmentState::Converging {
                fragment.state = FragmentState::Ready;
            }
        }
    }
}

/// Lanes of a mask, from the lowest.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}
