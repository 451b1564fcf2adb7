//! The work list: what a kernel must make of a call for those that attend.
//!
//! [`Problem::work_list`] is the answer, from the contract's definition of a band and one query at a
//! time; [`Problem::check_work_list`] compares a workspace with it. Dearest first, bands are compared as
//! a set, for their order is free where they cost alike.

mod check;

use frazil_core::{Align, Band};

pub use check::{Fault, Listed};

use crate::seqlens::{HEAD_DIM, Placed, Problem, SideProblem};

/// In which order bands are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By cost; of bands that cost alike in any order.
    DearestFirst,
    /// As [`WorkList::bands`], with the sums of what they cost.
    Natural,
}

/// How an engine cuts sequences into bands and keys into tiles, and lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Queries of a band.
    pub band_tokens: u32,
    /// Keys of a tile.
    pub block_n: u32,
    /// Head units of one head of K and V.
    pub num_runs: u32,
    /// Bytes of keys and values that units which run together may read.
    pub section_bytes: u64,
    /// In which order.
    pub order: Order,
}

/// A band and the tiles of keys that its queries see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedBand {
    /// Its sequence.
    pub batch_idx: i32,
    /// First query, in its sequence.
    pub q_begin: i32,
    /// First row of the sequence.
    pub q_start: i32,
    /// Queries of the sequence.
    pub q_len: i32,
    /// First row of its keys.
    pub kv_start: i32,
    /// Its keys.
    pub kv_len: i32,
    /// First tile.
    pub tile_begin: i32,
    /// End of the tiles.
    pub tile_end: i32,
}

/// What a list must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkList {
    /// In the order of the batch, and of queries.
    pub bands: Vec<ListedBand>,
    /// Bands before each sequence, and of all.
    pub first_bands: Vec<i32>,
    /// Head units of a section.
    pub heads_per_section: u32,
    /// There are bands that have no room.
    pub is_clipped: bool,
    /// No sequence has more than [`FEW_TILES`] tiles of keys, and bands are to be taken dearest first: they
    /// may then stand in any order.
    pub costs_alike: bool,
}

/// Tiles of keys up to which bands cost nearly alike.
pub const FEW_TILES: i64 = 2;

impl WorkList {
    /// In natural order, the places of the bands before each and of all: one for every tile of a band,
    /// and one more.
    pub fn places(&self) -> Vec<i64> {
        let mut places = vec![0];
        let mut sum = 0;
        for band in &self.bands {
            sum += i64::from(band.tile_end) - i64::from(band.tile_begin) + 1;
            places.push(sum);
        }
        places
    }
}

impl ListedBand {
    /// What it costs, as the order sees it: tiles and two more, of which the leading five bits count.
    pub fn cost_class(&self) -> (u32, u64) {
        let (mut octave, mut cost) = (0, i64::from(self.tile_end) - i64::from(self.tile_begin) + 2);
        while cost >= 32 {
            (octave, cost) = (octave + 1, cost / 2);
        }
        (octave, cost.unsigned_abs())
    }
}

impl Problem {
    /// The list, where there is room for `max_bands`.
    pub fn work_list(&self, cut: &Cut, max_bands: usize) -> WorkList {
        let q = every_sequence(self.placed_q(), &self.q, self.batch);
        let kv = every_sequence(self.placed_kv(), &self.kv, self.batch);
        let (mut bands, mut first_bands) = (Vec::new(), vec![0]);
        let mut num_bands = 0;
        for (batch_idx, (&(q_start, q_len), &(kv_start, kv_len))) in (0..).zip(q.iter().zip(&kv)) {
            for q_begin in (0..q_len).step_by(usize::try_from(cut.band_tokens).unwrap_or(1)) {
                num_bands += 1;
                if bands.len() == max_bands {
                    continue;
                }
                let q_end = i64::from(q_len).min(i64::from(q_begin) + i64::from(cut.band_tokens));
                let queries = i64::from(q_begin)..q_end;
                let lens = (q_len.into(), kv_len.into());
                let [tile_begin, tile_end] = tiles(self.band, queries, lens, cut.block_n.into());
                bands.push(ListedBand {
                    batch_idx,
                    q_begin,
                    q_start,
                    q_len,
                    kv_start,
                    kv_len,
                    tile_begin,
                    tile_end,
                });
            }
            first_bands.push(i32::try_from(bands.len()).expect("bands are counted by an int32"));
        }
        let longest = kv.iter().map(|&(_, len)| len).max().unwrap_or(0);
        let heads_per_section = self.heads_per_section(cut, longest.unsigned_abs());
        WorkList {
            is_clipped: num_bands > bands.len(),
            costs_alike: cut.order == Order::DearestFirst
                && i64::from(longest) <= FEW_TILES * i64::from(cut.block_n),
            bands,
            first_bands,
            heads_per_section,
        }
    }

    /// The greatest power of two of heads of K and V, or all, whose keys and values of the longest
    /// sequence fit a section; at least one. A sequence counts as one key at least.
    fn heads_per_section(&self, cut: &Cut, longest: u32) -> u32 {
        // f16.
        let head_bytes = u128::from(longest.max(1)) * u128::from(2 * HEAD_DIM) * 2;
        let fits = |heads: u64| u128::from(heads) * head_bytes <= cut.section_bytes.into();
        let mut heads = 1;
        while heads < self.num_heads && fits(2 * heads) {
            heads *= 2;
        }
        let heads = heads.min(self.num_heads);
        u32::try_from(heads).unwrap_or(u32::MAX) * cut.num_runs
    }
}

/// First row and length of every sequence of a side.
fn every_sequence(placed: Placed, side: &SideProblem, batch: u64) -> Vec<(i32, i32)> {
    if side.is_dense() {
        let rows = i32::try_from(side.rows[0]).expect("extents are counted by an int32");
        return vec![(0, rows); usize::try_from(batch).unwrap_or(usize::MAX)];
    }
    placed.starts.into_iter().zip(placed.lengths).collect()
}

/// First and end of the tiles that some query of a run sees, by the contract's definition: query i
/// sees key j where `i + off - left <= j <= i + off + right`, of those that there are.
fn tiles(
    band: Option<Band>,
    queries: std::ops::Range<i64>,
    (q_len, kv_len): (i64, i64),
    block_n: i64,
) -> [i32; 2] {
    let off = match band {
        Some(Band { align: Align::BottomRight, .. }) => kv_len - q_len,
        _ => 0,
    };
    let (left, right) = band.map_or((None, None), |band| (band.left, band.right));
    let seen = queries.filter_map(|query| {
        let first = left.map_or(0, |left| (query + off - i64::from(left)).max(0));
        let last =
            right.map_or(kv_len - 1, |right| (query + off + i64::from(right)).min(kv_len - 1));
        (first <= last).then_some((first, last))
    });
    let ends = seen.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let tile = |key: i64| i32::try_from(key / block_n).expect("keys are counted by an int32");
    ends.map_or([0, 0], |(first, last)| [tile(first), tile(last) + 1])
}

#[cfg(test)]
mod tests {
    use frazil_core::LengthBounds;

    use super::*;
    use crate::seqlens::Content;

    fn side(content: Content) -> SideProblem {
        SideProblem {
            content,
            bounds: LengthBounds::up_to(100),
            max_total: 100,
            rows: [100; 3],
            spare_rows: 0,
            int_stride: 1,
            repeated: false,
        }
    }

    fn problem(band: Option<Band>) -> Problem {
        Problem {
            batch: 3,
            spare_batch: 0,
            num_heads: 6,
            band,
            q: side(Content::PackedLengths(vec![5, 0, 3])),
            kv: side(Content::PackedPrefix(vec![7, 7, 16, 24])),
        }
    }

    const CUT: Cut = Cut {
        band_tokens: 2,
        block_n: 3,
        num_runs: 2,
        section_bytes: 1 << 20,
        order: Order::DearestFirst,
    };

    fn of(band: Option<Band>) -> Vec<[i32; 4]> {
        let list = problem(band).work_list(&CUT, 100);
        assert_eq!(list.first_bands, [0, 3, 3, 5]);
        let bands = list.bands.iter();
        bands.map(|of| [of.batch_idx, of.q_begin, of.tile_begin, of.tile_end]).collect()
    }

    /// Worked out by hand. The first sequence has no keys, the second no queries, the third 3 queries
    /// and 8 keys, of tiles 0..3, 3..6 and 6..8.
    #[test]
    fn bands_are_those_of_the_contract() {
        let first = [[0, 0, 0, 0], [0, 2, 0, 0], [0, 4, 0, 0]];
        let with = |third: [[i32; 4]; 2]| [&first[..], &third[..]].concat();
        assert_eq!(of(None), with([[2, 0, 0, 3], [2, 2, 0, 3]]));
        let top_left = Band::causal(Align::TopLeft);
        assert_eq!(of(Some(top_left)), with([[2, 0, 0, 1], [2, 2, 0, 1]]));
        let bottom_right = Band::causal(Align::BottomRight);
        assert_eq!(of(Some(bottom_right)), with([[2, 0, 0, 3], [2, 2, 0, 3]]));
        // Keys 4..=5 and 5..=6; then 6..=7.
        let window = Band { left: Some(1), ..bottom_right };
        assert_eq!(of(Some(window)), with([[2, 0, 1, 3], [2, 2, 2, 3]]));
        let list = problem(None).work_list(&CUT, 100);
        let last = list.bands[4];
        assert_eq!([last.q_start, last.q_len, last.kv_start, last.kv_len], [5, 3, 9, 8]);
        assert!(!list.is_clipped);
    }

    /// The bands of the first sequence see nothing, those of the third all three tiles.
    #[test]
    fn places_are_sums_of_tiles_and_one() {
        assert_eq!(problem(None).work_list(&CUT, 100).places(), [0, 1, 2, 3, 7, 11]);
        assert_eq!(problem(None).work_list(&CUT, 4).places(), [0, 1, 2, 3, 7]);
        assert_eq!(problem(None).work_list(&CUT, 0).places(), [0]);
    }

    #[test]
    fn what_has_no_room_is_not_listed() {
        let list = problem(None).work_list(&CUT, 4);
        assert!(list.is_clipped);
        assert_eq!((list.bands.len(), &list.first_bands[..]), (4, &[0, 3, 3, 4][..]));
        assert!(!problem(None).work_list(&CUT, 5).is_clipped);
    }

    /// 9 keys of 2 * 8 columns are 288 bytes for one head of six.
    #[test]
    fn sections_are_whole_heads() {
        let heads = |section_bytes| {
            problem(None).work_list(&Cut { section_bytes, ..CUT }, 100).heads_per_section
        };
        assert_eq!([0, 287, 288, 575].map(heads), [2; 4]);
        assert_eq!([576, 1151, 1152, 2303].map(heads), [4, 4, 8, 8]);
        assert_eq!([2304, u64::MAX].map(heads), [12; 2], "all of them");
    }

    #[test]
    fn a_class_of_cost_has_five_bits() {
        let class = |tiles| ListedBand { tile_end: tiles, ..LISTED }.cost_class();
        assert_eq!([0, 13, 29].map(class), [(0, 2), (0, 15), (0, 31)]);
        assert_eq!([30, 31, 32].map(class), [(1, 16), (1, 16), (1, 17)]);
        assert_eq!(class(i32::MAX), (27, 16));
    }

    const LISTED: ListedBand = ListedBand {
        batch_idx: 0,
        q_begin: 0,
        q_start: 0,
        q_len: 1,
        kv_start: 0,
        kv_len: 1,
        tile_begin: 0,
        tile_end: 0,
    };
}
