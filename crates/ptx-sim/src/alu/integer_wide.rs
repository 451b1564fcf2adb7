//! Products wider than their operands, and the 24-bit ones (PTX ISA, `mul`, `mad`, `mul24`, `mad24`).

use super::{Lane, Map, map};
use crate::types::ScalarType as S;

/// `mad.wide`: the product in twice the width, plus `c` in that width. `mul.wide` has a `c` of 0.
pub(crate) fn multiply_wide(ty: S) -> Option<Map<3>> {
    Some(match ty {
        S::U16 => map!(|a: u16, b: u16, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c)),
        S::S16 => map!(|a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c)),
        S::U32 => map!(|a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).wrapping_add(c)),
        S::S32 => map!(|a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).wrapping_add(c)),
        _ => return None,
    })
}

/// `mad.hi`: the upper half of the product, plus `c`. `mul.hi` has a `c` of 0.
pub(crate) fn multiply_hi(ty: S) -> Option<Map<3>> {
    Some(match ty {
        S::U16 => map!(|a: u16, b: u16, c: u16| {
            c.wrapping_add(<u16 as Lane>::read((u64::from(a) * u64::from(b)) >> 16))
        }),
        S::S16 => map!(|a: i16, b: i16, c: i16| {
            let product = (i64::from(a) * i64::from(b)).cast_unsigned();
            c.wrapping_add(<i16 as Lane>::read(product >> 16))
        }),
        S::U32 => map!(|a: u32, b: u32, c: u32| {
            c.wrapping_add(<u32 as Lane>::read((u64::from(a) * u64::from(b)) >> 32))
        }),
        S::S32 => map!(|a: i32, b: i32, c: i32| {
            let product = (i64::from(a) * i64::from(b)).cast_unsigned();
            c.wrapping_add(<i32 as Lane>::read(product >> 32))
        }),
        S::U64 => map!(|a: u64, b: u64, c: u64| c.wrapping_add(high_u64(a, b))),
        S::S64 => map!(|a: i64, b: i64, c: i64| c.wrapping_add(high_i64(a, b))),
        _ => return None,
    })
}

/// `mad24.lo`: products of 24 bits; `mul24.lo` has a `c` of 0.
pub(crate) fn multiply_add_24(ty: S) -> Option<Map<3>> {
    const MASK: u32 = (1 << 24) - 1;
    Some(match ty {
        S::U32 => {
            map!(|a: u32, b: u32, c: u32| (a & MASK).wrapping_mul(b & MASK).wrapping_add(c))
        }
        S::S32 => map!(|a: i32, b: i32, c: i32| {
            ((a << 8) >> 8).wrapping_mul((b << 8) >> 8).wrapping_add(c)
        }),
        _ => return None,
    })
}

fn high_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

fn high_i64(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 64) as i64
}
