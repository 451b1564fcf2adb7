//! Generic addresses: each space but global and const is a window of its own (PTX ISA 5.1, `cvta`).

use crate::types::Space;

const LOCAL: u64 = 0x1000_0000_0000;
const SHARED: u64 = 0x2000_0000_0000;
const PARAM: u64 = 0x3000_0000_0000;
const EXTENT: u64 = 1 << 32;

fn begin(space: Space) -> u64 {
    match space {
        Space::Local => LOCAL,
        Space::Shared => SHARED,
        Space::Param => PARAM,
        // Addresses of memory, constants included, are generic as they stand.
        Space::Generic | Space::Global | Space::Const => 0,
    }
}

/// An address of a space as a generic one, or the other way.
pub(crate) fn convert(space: Space, to_generic: bool, address: u64) -> u64 {
    let begin = begin(space);
    if to_generic { address.wrapping_add(begin) } else { address.wrapping_sub(begin) }
}

/// The space that a generic address falls into, and the address in it.
#[inline]
pub(crate) fn resolve(address: u64) -> (Space, u64) {
    for space in [Space::Shared, Space::Local, Space::Param] {
        let inside = address.wrapping_sub(begin(space));
        if inside < EXTENT {
            return (space, inside);
        }
    }
    (Space::Global, address)
}

pub(crate) fn is_in(space: Space, address: u64) -> bool {
    let (found, _) = resolve(address);
    match space {
        Space::Global | Space::Const => found == Space::Global,
        other => found == other,
    }
}
