//! The copies of a block that are under way, and what is known of those that have landed.

use super::race::{Races, Touch};
use super::warp::lanes;
use crate::alu::LANES;
use crate::memory::{Memory, TrackedBytes};
use crate::program::Order;

/// Copies have whole words.
const WORD_BYTES: usize = 4;
const MAX_COPY_BYTES: usize = 16;

/// The copies of a block.
#[derive(Default)]
pub(super) struct Copies {
    /// Of each word of shared memory; empty until the block's first copy.
    pub(super) words: Vec<Word>,
    pub(super) batches: Vec<Batch>,
    /// Batches whose copies have all landed.
    pub(super) free: Vec<usize>,
    /// Groups that each lane of each warp has made.
    pub(super) groups: Vec<[u32; LANES]>,
}

#[derive(Clone, Copy)]
pub(super) enum Word {
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
pub(super) struct Batch {
    pub(super) warp: usize,
    pc: u32,
    bytes: usize,
    /// Lanes that have not waited for their copies, and those of them whose bytes have not been moved.
    pub(super) waited_for: u32,
    unmoved: u32,
    /// The group that each lane's copy belongs to, or will when it is made.
    pub(super) groups: [u32; LANES],
    to: [u32; LANES],
    pub(super) from: [u64; LANES],
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

impl Copies {
    pub(super) fn commit(&mut self, warp: usize, mask: u32) {
        // Before the first copy of the block, groups are empty and need not be counted.
        if let Some(groups) = self.groups.get_mut(warp) {
            for lane in lanes(mask) {
                groups[lane] += 1;
            }
        }
    }

    /// Room for the copies of one instruction.
    pub(super) fn add(&mut self, warp: usize, pc: u32, bytes: u8, shared_bytes: usize) -> usize {
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

    /// The copy of a lane begins. Those that it overwrites, which were found, are forgotten: however long a program goes
    /// on like this, no more copies are kept than there are words.
    pub(super) fn put(&mut self, number: usize, lane: usize, at: usize, read: u8) {
        self.forget(at, number);
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

    /// Forgets the copies under way to the bytes of a copy of the batch `current`.
    fn forget(&mut self, at: usize, current: usize) {
        let bytes = self.batches[current].bytes;
        for word in at / WORD_BYTES..(at + bytes) / WORD_BYTES {
            let Word::UnderWay { batch: number } = self.words[word] else { continue };
            let number = number as usize;
            let batch = &mut self.batches[number];
            let (first, size) = (word * WORD_BYTES, batch.bytes);
            let covers = |lane: &usize| {
                let to = batch.to[*lane] as usize;
                (to..to + size).contains(&first)
            };
            let gone = lanes(batch.waited_for).find(covers);
            let Some(gone) = gone else { continue };
            let to = batch.to[gone] as usize;
            batch.waited_for &= !(1 << gone);
            batch.unmoved &= !(1 << gone);
            let is_done = batch.waited_for == 0 && number != current;
            self.words[to / WORD_BYTES..(to + size) / WORD_BYTES].fill(Word::Untouched);
            if is_done {
                self.free.push(number);
            }
        }
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
    pub(super) fn make(&mut self, some: u32, memory: &Memory, shared: &mut TrackedBytes) {
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
    pub(super) fn land(&mut self, covered: u32, syncs: u32, words: &mut [Word], races: &mut Races) {
        let (warp, pc, bytes) = (self.warp, self.pc, self.bytes);
        for lane in lanes(covered) {
            let at = self.to[lane] as usize;
            let [of_warp, of_lane] =
                [warp, lane].map(|index| u8::try_from(index).unwrap_or(u8::MAX));
            let landed = Word::Landed { warp: of_warp, lane: of_lane, syncs, pc };
            words[at / WORD_BYTES..(at + bytes) / WORD_BYTES].fill(landed);
            races.land(Touch { warp, at, bytes, writes: true, order: Order::Weak, pc });
        }
        self.waited_for &= !covered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_overwrite_one_another_do_not_pile_up() {
        let mut copies = Copies::default();
        for round in 0..1000 {
            let number = copies.add(0, round, 16, 1024);
            for lane in 0..LANES {
                // Every other round lies across two copies of the one before, and one lane on itself.
                let at = 16 * lane.min(30) + if round % 2 == 0 { 0 } else { 4 };
                copies.put(number, lane, at, 16);
            }
        }
        assert!(copies.batches.len() <= 3, "{}", copies.batches.len());
        let under_way = copies.batches.iter().map(|batch| batch.waited_for.count_ones());
        assert_eq!(under_way.sum::<u32>(), 31);
        let words = copies.words.iter().filter(|word| matches!(word, Word::UnderWay { .. }));
        assert_eq!(words.count(), 31 * 4);
    }
}
