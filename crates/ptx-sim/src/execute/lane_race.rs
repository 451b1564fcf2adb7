//! Races between the lanes of a warp on shared memory.
//!
//! Lanes run in lock step here, and on a GPU they need not: what orders their accesses is `bar.warp.sync`, a barrier of
//! the block or an access that synchronises (PTX ISA, "Memory Consistency Model"). An exchange such as `shfl.sync` orders
//! nothing in memory. Each word remembers the last write and the reads after it, as long as one warp alone touches it
//! and has not synchronised.
//!
//! Races are missed where words are accessed by parts, and where lanes synchronise with a part of their warp, which
//! counts for all. A row that `ldmatrix` has read may be written next without a barrier: all lanes have executed the
//! load before any goes on.

use crate::program::Order;

const WORD_BYTES: usize = 4;

#[derive(Default)]
pub(super) struct LaneRaces {
    /// Of each word of shared memory; empty until the first access.
    words: Vec<Cell>,
}

/// Accesses of a word by lanes of one warp since it has last synchronised.
#[derive(Clone, Copy, Default)]
struct Cell {
    warp: u32,
    syncs: u32,
    /// The lane of the last write, or all of them; none where there was no write.
    writers: u32,
    readers: u32,
    write_pc: u32,
    read_pc: u32,
}

/// One access of one lane, or of all lanes at once.
#[derive(Clone, Copy)]
pub(super) struct LaneTouch {
    pub(super) warp: usize,
    /// How often the warp has synchronised.
    pub(super) syncs: u32,
    /// `None` for all lanes.
    pub(super) lane: Option<usize>,
    pub(super) at: usize,
    pub(super) bytes: usize,
    pub(super) writes: bool,
    pub(super) order: Order,
    pub(super) pc: u32,
}

impl LaneRaces {
    /// Notes an access; the instruction of the earlier one that it races with, and whether that one wrote.
    #[inline]
    pub(super) fn touch(&mut self, touch: LaneTouch, shared_bytes: usize) -> Option<(u32, bool)> {
        if touch.order == Order::Strong {
            return None;
        }
        if self.words.is_empty() {
            self.words = vec![Cell::default(); shared_bytes.div_ceil(WORD_BYTES)];
        }
        let words = touch.at / WORD_BYTES..(touch.at + touch.bytes).div_ceil(WORD_BYTES);
        let mut found = None;
        for cell in self.words.get_mut(words)? {
            found = found.or(cell.touch(touch));
        }
        found
    }
}

impl Cell {
    #[inline]
    fn touch(&mut self, touch: LaneTouch) -> Option<(u32, bool)> {
        // A block has at most 32 warps.
        let warp = u32::try_from(touch.warp).unwrap_or(u32::MAX);
        let is_part = touch.bytes < WORD_BYTES;
        if is_part || self.warp != warp || self.syncs != touch.syncs {
            *self = Self { warp, syncs: touch.syncs, ..Self::default() };
        }
        if is_part {
            return None;
        }
        let by = touch.lane.map_or(u32::MAX, |lane| 1 << lane);
        // Of an access of all lanes, one is another than any.
        let others = |lanes: u32| if touch.lane.is_none() { lanes } else { lanes & !by };
        // Lanes of one instruction may write to one place, of which any comes last.
        let written = others(self.writers) != 0 && !(touch.writes && self.write_pc == touch.pc);
        let read = touch.writes && others(self.readers) != 0;
        let found = if written {
            Some((self.write_pc, true))
        } else if read {
            Some((self.read_pc, false))
        } else {
            None
        };
        if touch.writes {
            (self.writers, self.write_pc, self.readers) = (by, touch.pc, 0);
        } else if touch.lane.is_some() {
            (self.readers, self.read_pc) = (self.readers | by, touch.pc);
        }
        found
    }
}
