//! Which keys a query sees, as kernels take it: `Band` of `kernels/common/band.cuh`.

use frazil_core::{Align, SdpaFwdFacts};

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Band {
    /// Keys before the diagonal; [`Band::UNBOUNDED`] without a bound.
    pub left: i64,
    /// Keys after the diagonal.
    pub right: i64,
    /// 1: the diagonal ends at the last query and key; 0: it starts at the first.
    pub is_bottom_right: u32,
    /// 0: every query sees every key.
    pub is_bounded: u32,
}

const _: () = assert!(size_of::<Band>() == 24);

impl Band {
    /// No distance between a query and a key is as large.
    pub const UNBOUNDED: i64 = 1 << 31;

    /// That of the facts.
    pub fn of(facts: &SdpaFwdFacts) -> Self {
        let band = facts.band();
        let bound = |keys: Option<u32>| {
            keys.map_or(Self::UNBOUNDED, |keys| i64::from(keys).min(Self::UNBOUNDED))
        };
        Self {
            left: bound(band.and_then(|band| band.left)),
            right: bound(band.and_then(|band| band.right)),
            is_bottom_right: band.is_some_and(|band| band.align == Align::BottomRight).into(),
            is_bounded: band.is_some().into(),
        }
    }
}
