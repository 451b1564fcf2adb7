//! Integer arithmetic (PTX ISA 9.7.1).

use super::{Map, map, map_integers};
use crate::types::ScalarType;

/// `abs`, `neg`.
pub(crate) fn int1(name: &str, ty: ScalarType) -> Option<Map<1>> {
    if !ty.is_signed() {
        return None;
    }
    match name {
        "abs" => match ty {
            ScalarType::S16 => Some(map!(|a: i16| a.wrapping_abs())),
            ScalarType::S32 => Some(map!(|a: i32| a.wrapping_abs())),
            ScalarType::S64 => Some(map!(|a: i64| a.wrapping_abs())),
            _ => None,
        },
        "neg" => match ty {
            ScalarType::S16 => Some(map!(|a: i16| a.wrapping_neg())),
            ScalarType::S32 => Some(map!(|a: i32| a.wrapping_neg())),
            ScalarType::S64 => Some(map!(|a: i64| a.wrapping_neg())),
            _ => None,
        },
        _ => None,
    }
}

/// `add`, `sub`, `mul.lo`, `div`, `rem`, `min`, `max`, `add.sat`, `sub.sat`, `min.relu`, `max.relu`.
pub(crate) fn int2(name: &str, ty: ScalarType) -> Option<Map<2>> {
    if !ty.is_integer() {
        return None;
    }
    match name {
        "add" => map_integers!(ty, |a, b| a.wrapping_add(b)),
        "sub" => map_integers!(ty, |a, b| a.wrapping_sub(b)),
        "mul.lo" => map_integers!(ty, |a, b| a.wrapping_mul(b)),
        // A division by zero gives a machine-specific value: all bits set, as GPUs do. The lowest
        // value by -1 wraps.
        "div" => map_integers!(ty, |a, b| if b == 0 { !0 as T } else { a.wrapping_div(b) }),
        // The same machines leave the dividend as the remainder.
        "rem" => map_integers!(ty, |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
        "min" => map_integers!(ty, |a, b| a.min(b)),
        "max" => map_integers!(ty, |a, b| a.max(b)),
        "add.sat" if ty == ScalarType::S32 => Some(map!(|a: i32, b: i32| a.saturating_add(b))),
        "sub.sat" if ty == ScalarType::S32 => Some(map!(|a: i32, b: i32| a.saturating_sub(b))),
        "min.relu" if ty == ScalarType::S32 => Some(map!(|a: i32, b: i32| a.min(b).max(0))),
        "max.relu" if ty == ScalarType::S32 => Some(map!(|a: i32, b: i32| a.max(b).max(0))),
        _ => None,
    }
}

/// `mad.lo`, `sad`.
pub(crate) fn int3(name: &str, ty: ScalarType) -> Option<Map<3>> {
    if !ty.is_integer() {
        return None;
    }
    match name {
        "mad.lo" => map_integers!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        "sad" => map_integers!(ty, |a, b, c| {
            let distance = if a < b { b.wrapping_sub(a) } else { a.wrapping_sub(b) };
            c.wrapping_add(distance)
        }),
        _ => None,
    }
}
