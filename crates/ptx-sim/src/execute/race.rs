//! Races between the warps of a block on its shared memory.
//!
//! Happens-before with one agent for each warp: the accesses of a warp fall into segments, which its barriers and its
//! synchronising accesses separate, and a warp knows up to which segment it is ordered after each other warp. Every
//! word of shared memory remembers its last write and the reads after it; a word that was reached by parts remembers
//! them for each byte.
//!
//! What is no race is not reported: atomic, volatile, relaxed and stronger accesses, of shared and of global memory,
//! order everything before them in one warp with everything after them in another one that reaches the same place
//! later, as if each had fences around it. What is a race may be missed for that reason. Lanes of one warp are not told
//! apart here, but in `lane_race.rs`.

use crate::program::Order;

/// For each warp, the last of its segments that is ordered before; 0 stands for none.
pub(super) type Clock = [u32; MAX_WARPS];

/// A block has at most 1024 threads.
const MAX_WARPS: usize = 32;
const WORD_BYTES: usize = 4;
/// Places that synchronising accesses are told apart by; two that share one order too much.
const NUM_PLACES: usize = 1024;
const NOBODY: u8 = u8::MAX;

pub(super) struct Races {
    /// The segment of each warp, numbered over all of them; warps that leave a barrier share one.
    segments: Vec<u32>,
    known: Vec<Clock>,
    last_segment: u32,
    words: Vec<Cell>,
    /// Cells of the bytes of a word.
    split: Vec<[Cell; WORD_BYTES]>,
    /// Reads of a cell in other segments than the one it holds: cell, warp, segment, instruction.
    other_reads: Vec<(CellIndex, usize, u32, u32)>,
    /// Made when the first access synchronises: most kernels have none.
    places: Vec<Clock>,
}

/// The accesses of a word or a byte that a later one may race with.
#[derive(Clone, Copy)]
struct Cell {
    writer: u8,
    is_strong_write: bool,
    is_split: bool,
    has_other_reads: bool,
    write_segment: u32,
    write_pc: u32,
    /// Warps that read in `read_segment`; the index into `split` where `is_split`.
    readers: u32,
    read_segment: u32,
    read_pc: u32,
}

const UNTOUCHED: Cell = Cell {
    writer: NOBODY,
    is_strong_write: false,
    is_split: false,
    has_other_reads: false,
    write_segment: 0,
    write_pc: 0,
    readers: 0,
    read_segment: 0,
    read_pc: 0,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum CellIndex {
    Word(usize),
    Byte(usize, usize),
}

/// One access of one lane.
#[derive(Clone, Copy)]
pub(super) struct Touch {
    pub(super) warp: usize,
    pub(super) at: usize,
    pub(super) bytes: usize,
    pub(super) writes: bool,
    pub(super) order: Order,
    pub(super) pc: u32,
}

/// An earlier access that nothing orders before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) pc: u32,
    pub(super) wrote: bool,
}

impl Races {
    pub(super) fn new(num_warps: usize, shared_end: usize) -> Self {
        // One warp races with nobody.
        let words = if num_warps > 1 { shared_end.div_ceil(WORD_BYTES) } else { 0 };
        Self {
            segments: vec![1; num_warps],
            known: vec![[0; MAX_WARPS]; num_warps],
            last_segment: 1,
            words: vec![UNTOUCHED; words],
            split: Vec::new(),
            other_reads: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Adds what a warp has done, and what it knows, to a clock.
    pub(super) fn release(&self, warp: usize, clock: &mut Clock) {
        raise(clock, &self.known[warp]);
        clock[warp] = clock[warp].max(self.segments[warp]);
    }

    pub(super) fn begin_segment(&mut self, warp: usize) {
        self.last_segment += 1;
        self.segments[warp] = self.last_segment;
    }

    /// Warps leave a barrier, knowing all that came to it.
    pub(super) fn begin_together(&mut self, warps: &[usize], clock: &Clock) {
        self.last_segment += 1;
        for warp in warps {
            self.segments[*warp] = self.last_segment;
            raise(&mut self.known[*warp], clock);
        }
    }

    /// Before accesses that threads may synchronise through: what was done before earlier ones at
    /// these places is ordered before.
    pub(super) fn acquire(&mut self, warp: usize, addresses: impl Iterator<Item = u64>) {
        if self.known.len() < 2 {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![[0; MAX_WARPS]; NUM_PLACES];
        }
        for address in addresses {
            raise(&mut self.known[warp], &self.places[place(address)]);
        }
    }

    /// After these accesses: what was done before them is ordered before later ones.
    pub(super) fn publish(&mut self, warp: usize, addresses: impl Iterator<Item = u64>) {
        if self.known.len() < 2 {
            return;
        }
        let mut clock = [0; MAX_WARPS];
        self.release(warp, &mut clock);
        for address in addresses {
            raise(&mut self.places[place(address)], &clock);
        }
        self.begin_segment(warp);
    }

    /// Notes an access; the earlier one that it races with, if there is one.
    pub(super) fn touch(&mut self, touch: Touch) -> Option<Conflict> {
        if self.words.is_empty() {
            return None;
        }
        let first = touch.at / WORD_BYTES;
        let last = (touch.at + touch.bytes - 1) / WORD_BYTES;
        let mut conflict = None;
        for word in first..=last {
            let is_whole = touch.bytes >= WORD_BYTES;
            if is_whole && !self.words[word].is_split {
                conflict = conflict.or(self.touch_cell(CellIndex::Word(word), touch));
                continue;
            }
            let part = self.split(word);
            let begin = touch.at.max(word * WORD_BYTES) - word * WORD_BYTES;
            let end = (touch.at + touch.bytes).min((word + 1) * WORD_BYTES) - word * WORD_BYTES;
            for byte in begin..end {
                conflict = conflict.or(self.touch_cell(CellIndex::Byte(part, byte), touch));
            }
        }
        conflict
    }

    /// An asynchronous copy is done, as if its warp had written now. What it races with was found when it began, and
    /// what met it since was told.
    pub(super) fn land(&mut self, touch: Touch) {
        if self.words.is_empty() {
            return;
        }
        let cell = Cell {
            writer: u8::try_from(touch.warp).unwrap_or(NOBODY),
            write_segment: self.segments[touch.warp],
            write_pc: touch.pc,
            ..UNTOUCHED
        };
        for word in touch.at / WORD_BYTES..(touch.at + touch.bytes).div_ceil(WORD_BYTES) {
            if self.words[word].is_split {
                let part = self.words[word].readers as usize;
                for byte in 0..WORD_BYTES {
                    self.replace(CellIndex::Byte(part, byte), cell);
                }
            } else {
                self.replace(CellIndex::Word(word), cell);
            }
        }
    }

    fn replace(&mut self, index: CellIndex, cell: Cell) {
        let old = match index {
            CellIndex::Word(word) => std::mem::replace(&mut self.words[word], cell),
            CellIndex::Byte(part, byte) => std::mem::replace(&mut self.split[part][byte], cell),
        };
        if old.has_other_reads {
            self.other_reads.retain(|read| read.0 != index);
        }
    }

    /// The cells of a word's bytes, made from that of the word the first time.
    fn split(&mut self, word: usize) -> usize {
        let cell = self.words[word];
        if cell.is_split {
            return cell.readers as usize;
        }
        let part = self.split.len();
        self.split.push([cell; WORD_BYTES]);
        let others = self.other_reads.clone().into_iter();
        for (_, warp, segment, pc) in others.filter(|read| read.0 == CellIndex::Word(word)) {
            for byte in 0..WORD_BYTES {
                self.other_reads.push((CellIndex::Byte(part, byte), warp, segment, pc));
            }
        }
        // There is at most one for each word of 227 KiB.
        let readers = u32::try_from(part).unwrap_or(u32::MAX);
        self.words[word] = Cell { is_split: true, readers, ..UNTOUCHED };
        part
    }

    fn touch_cell(&mut self, index: CellIndex, touch: Touch) -> Option<Conflict> {
        let mut cell = match index {
            CellIndex::Word(word) => self.words[word],
            CellIndex::Byte(part, byte) => self.split[part][byte],
        };
        let warp = touch.warp;
        let known = &self.known[warp];
        let is_strong = touch.order == Order::Strong;
        let mut conflict = None;
        let writer = usize::from(cell.writer);
        if cell.writer != NOBODY
            && writer != warp
            && known[writer] < cell.write_segment
            && !(is_strong && cell.is_strong_write)
        {
            conflict = Some(Conflict { pc: cell.write_pc, wrote: true });
        }
        if touch.writes {
            // A strong write does not race with reads of other strong accesses, which note none.
            conflict = conflict.or(self.conflicting_read(index, cell, warp));
            if cell.has_other_reads {
                self.other_reads.retain(|read| read.0 != index);
            }
            cell = Cell {
                writer: u8::try_from(warp).unwrap_or(NOBODY),
                is_strong_write: is_strong,
                write_segment: self.segments[warp],
                write_pc: touch.pc,
                ..UNTOUCHED
            };
        } else if !is_strong {
            self.note_read(index, &mut cell, touch);
        }
        match index {
            CellIndex::Word(word) => self.words[word] = cell,
            CellIndex::Byte(part, byte) => self.split[part][byte] = cell,
        }
        conflict
    }

    fn conflicting_read(&self, index: CellIndex, cell: Cell, warp: usize) -> Option<Conflict> {
        let known = &self.known[warp];
        let mut readers = cell.readers & !(1 << warp);
        while readers != 0 {
            let reader = readers.trailing_zeros() as usize;
            readers &= readers - 1;
            if known[reader] < cell.read_segment {
                return Some(Conflict { pc: cell.read_pc, wrote: false });
            }
        }
        if !cell.has_other_reads {
            return None;
        }
        let mut others = self.other_reads.iter().filter(|read| read.0 == index);
        let found =
            others.find(|(_, reader, segment, _)| *reader != warp && known[*reader] < *segment)?;
        Some(Conflict { pc: found.3, wrote: false })
    }

    fn note_read(&mut self, index: CellIndex, cell: &mut Cell, touch: Touch) {
        let (warp, segment) = (touch.warp, self.segments[touch.warp]);
        if cell.read_segment != segment {
            // Whoever is ordered after this read is so after what this warp knows.
            let mut readers = cell.readers & !(1 << warp);
            while readers != 0 {
                let reader = readers.trailing_zeros() as usize;
                readers &= readers - 1;
                if self.known[warp][reader] < cell.read_segment {
                    let read = (index, reader, cell.read_segment, cell.read_pc);
                    self.other_reads.push(read);
                    cell.has_other_reads = true;
                }
            }
            cell.readers = 0;
            cell.read_segment = segment;
        }
        cell.readers |= 1 << warp;
        cell.read_pc = touch.pc;
    }
}

/// The later of each, warp by warp.
fn raise(clock: &mut Clock, by: &Clock) {
    for (own, other) in clock.iter_mut().zip(by) {
        *own = (*own).max(*other);
    }
}

fn place(address: u64) -> usize {
    let mixed = (address / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    // The upper ten bits number the places.
    usize::try_from(mixed).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(warp: usize, at: usize, bytes: usize, writes: bool) -> Touch {
        let pc = u32::try_from(warp).unwrap();
        Touch { warp, at, bytes, writes, order: Order::Weak, pc }
    }

    fn barrier(races: &mut Races, warps: &[usize]) {
        let mut clock = [0; MAX_WARPS];
        for warp in warps {
            races.release(*warp, &mut clock);
        }
        races.begin_together(warps, &clock);
    }

    const WRITE: bool = true;
    const READ: bool = false;

    #[test]
    fn a_barrier_orders_and_its_lack_is_a_race() {
        let mut races = Races::new(3, 64);
        assert_eq!(races.touch(touch(0, 8, 4, WRITE)), None);
        let found = races.touch(touch(1, 8, 4, READ));
        assert_eq!(found, Some(Conflict { pc: 0, wrote: true }));
        barrier(&mut races, &[0, 1]);
        assert_eq!(races.touch(touch(1, 8, 4, READ)), None);
        // Warp 2 was not at the barrier.
        assert!(races.touch(touch(2, 8, 4, READ)).is_some());
        let found = races.touch(touch(0, 8, 4, WRITE));
        assert!(found.is_some_and(|conflict| !conflict.wrote));
    }

    #[test]
    fn bytes_of_one_word_are_told_apart() {
        let mut races = Races::new(2, 64);
        assert_eq!(races.touch(touch(0, 8, 1, WRITE)), None);
        assert_eq!(races.touch(touch(1, 9, 1, WRITE)), None);
        assert_eq!(races.touch(touch(1, 10, 2, WRITE)), None);
        assert!(races.touch(touch(0, 8, 4, READ)).is_some());
        assert!(races.touch(touch(1, 8, 1, READ)).is_some());
    }

    #[test]
    fn reads_in_different_segments_are_all_kept() {
        let mut races = Races::new(3, 64);
        assert_eq!(races.touch(touch(0, 0, 4, READ)), None);
        barrier(&mut races, &[1, 2]);
        assert_eq!(races.touch(touch(1, 0, 4, READ)), None);
        barrier(&mut races, &[1, 2]);
        // The read of warp 1 is ordered before, that of warp 0 is not.
        let found = races.touch(touch(2, 0, 4, WRITE));
        assert_eq!(found, Some(Conflict { pc: 0, wrote: false }));
    }

    #[test]
    fn synchronising_accesses_order_what_is_around_them() {
        let mut races = Races::new(2, 64);
        races.touch(touch(0, 0, 4, WRITE));
        races.acquire(0, [0x7000].into_iter());
        races.publish(0, [0x7000].into_iter());
        races.acquire(1, [0x7000].into_iter());
        assert_eq!(races.touch(touch(1, 0, 4, READ)), None);
        let strong = |warp, writes| Touch { order: Order::Strong, ..touch(warp, 32, 4, writes) };
        assert_eq!(races.touch(strong(0, WRITE)), None);
        assert_eq!(races.touch(strong(1, WRITE)), None);
        assert!(races.touch(touch(0, 32, 4, READ)).is_some());
    }
}
