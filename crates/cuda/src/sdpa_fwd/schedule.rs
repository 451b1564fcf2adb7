//! In which order units of work are taken: `Schedule` of `kernels/common/work_list.cuh`.

use bytemuck::NoUninit;

use crate::Divisor;

/// Where the blocks of attention forward find their units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Schedule {
    /// Address of the records of a list; 0 where units are told by their index alone.
    pub records: u64,
    /// Address of the header of a list.
    pub header: u64,
    /// Of units told by their index; all zeros for a list.
    pub sections: Sections,
    /// Runs of heads of one sequence.
    pub head_units: Divisor,
    /// What pieces of units leave; all zeros where units are not cut.
    pub partials: Partials,
}

/// Where pieces of units are told apart, and what they leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Partials {
    /// Address of int64 `[bands + 1]`: places of the bands before; 0 where units are told by their index.
    pub prefix: u64,
    /// Address of f32 `[2 blocks, slot_rows, head_dim_v]`: rows of O, each divided by its sum; 0 where
    /// units are not cut.
    pub out: u64,
    /// Address of f32 `[2 blocks, slot_rows, 2]`: the score, in units of log2, that weights are relative
    /// to, and their sum.
    pub stats: u64,
    /// Rows of a tile that may be live: its first ones.
    pub slot_rows: i32,
    /// Places of every unit told by its index: its tiles, or more, and 1.
    pub unit_places: i32,
    /// Blocks of the kernel that cuts; up to 2^15.
    pub blocks: Divisor,
}

/// The order of units told by their index: sections of pairs of a sequence and a head unit
/// outermost, then bands, then the pairs of the section, so that blocks that run together read the
/// same keys. The last section has what pairs are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sections {
    /// Bands of a sequence.
    pub num_bands: u32,
    /// Units of all sections.
    pub num_units: u32,
    /// Units of the sections that are whole.
    pub num_in_whole: u32,
    /// Padding, written out.
    pub unused: u32,
    /// Units of a whole section.
    pub units: Divisor,
    /// Pairs of a whole section.
    pub heads: Divisor,
    /// Pairs of the last section, where it is not whole; else 1.
    pub left: Divisor,
}

impl Schedule {
    /// Size, in bytes.
    pub const BYTES: usize = size_of::<Self>();

    /// Of units told by their index.
    pub fn counted(sections: Sections, num_head_units: u32) -> Self {
        Self { sections, head_units: Divisor::new(num_head_units), ..Self::default() }
    }

    /// Of units that blocks work out by themselves.
    pub fn without_list(num_head_units: u32) -> Self {
        Self { head_units: Divisor::new(num_head_units), ..Self::default() }
    }

    /// Of a list.
    pub fn listed(records: u64, header: u64, num_head_units: u32) -> Self {
        let head_units = Divisor::new(num_head_units);
        Self { records, header, head_units, ..Self::default() }
    }
}

impl Sections {
    /// `num_bands` for each of `num_pairs`, `pairs_per_section` pairs to a section.
    ///
    /// Both at once are below 2^31, as an engine has checked of what was declared.
    pub fn new(num_bands: u32, num_pairs: u32, pairs_per_section: u32) -> Self {
        if num_bands == 0 || num_pairs == 0 {
            return Self::default();
        }
        let heads = pairs_per_section.clamp(1, num_pairs);
        let num_in_whole = num_pairs / heads * heads;
        Self {
            num_bands,
            num_units: num_bands * num_pairs,
            num_in_whole: num_bands * num_in_whole,
            unused: 0,
            units: Divisor::new(heads * num_bands),
            heads: Divisor::new(heads),
            left: Divisor::new((num_pairs - num_in_whole).max(1)),
        }
    }
}

// SAFETY: `repr(C)` structs of plain numbers, without padding (below).
unsafe impl NoUninit for Schedule {}

// The sums of the fields: there is no padding, here or in the kernels.
const _: () = assert!(size_of::<Sections>() == 4 * 4 + 3 * 16);
const _: () = assert!(Schedule::BYTES == 2 * 8 + size_of::<Sections>() + 16 + 4 * 8 + 16);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Band and pair of a unit, as the kernel finds them.
    fn band_and_pair(sections: &Sections, unit: u32) -> (u32, u32) {
        if unit < sections.num_in_whole {
            let (section, rest) = (unit / sections.units.get(), unit % sections.units.get());
            let heads = sections.heads.get();
            return (rest / heads, section * heads + rest % heads);
        }
        let rest = unit - sections.num_in_whole;
        let num_whole = sections.num_in_whole / sections.num_bands;
        (rest / sections.left.get(), num_whole + rest % sections.left.get())
    }

    #[test]
    fn every_band_of_every_pair_is_one_unit() {
        for num_bands in 1..6 {
            for num_pairs in 1..12 {
                for pairs_per_section in 0..14 {
                    let sections = Sections::new(num_bands, num_pairs, pairs_per_section);
                    let units = 0..sections.num_units;
                    let found: BTreeSet<_> = units.map(|at| band_and_pair(&sections, at)).collect();
                    let bands = 0..num_bands;
                    let all = bands.flat_map(|band| (0..num_pairs).map(move |pair| (band, pair)));
                    assert_eq!(found, all.collect(), "{sections:?}");
                }
            }
        }
    }

    /// What a section reads is read by units that follow on one another.
    #[test]
    fn a_section_is_done_with_before_the_next() {
        let sections = Sections::new(3, 5, 2);
        let pairs: Vec<u32> =
            (0..sections.num_units).map(|at| band_and_pair(&sections, at).1).collect();
        assert_eq!(pairs, [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 4, 4]);
    }

    #[test]
    fn nothing_has_no_units() {
        assert_eq!(Sections::new(0, 8, 4), Sections::default());
        assert_eq!(Sections::new(8, 0, 4), Sections::default());
    }
}
