//! What atomics store, and what reductions over lanes join with (PTX ISA, `atom`, `redux.sync`).

use super::half::{self, Rounding};
use super::{LANES, Lane, Lanes};
use crate::program::Modify;
use crate::types::ScalarType as S;

/// The new value of an element from the old one and the operands.
pub(crate) fn modify(name: &str, ty: S) -> Option<Modify> {
    Some(match (name, ty) {
        ("and", S::B32 | S::B64) => |old, b, _| old & b,
        ("or", S::B32 | S::B64) => |old, b, _| old | b,
        ("xor", S::B32 | S::B64) => |old, b, _| old ^ b,
        ("exch", S::B32 | S::B64 | S::U32 | S::S32 | S::F32 | S::U64 | S::S64) => |_, b, _| b,
        ("cas", S::B16 | S::U16) => {
            |old, b, c| if u16::read(old) == u16::read(b) { c } else { old }
        }
        ("cas", S::B32 | S::U32 | S::S32) => {
            |old, b, c| if u32::read(old) == u32::read(b) { c } else { old }
        }
        ("cas", S::B64 | S::U64 | S::S64) => |old, b, c| if old == b { c } else { old },
        ("add", S::U32 | S::S32 | S::U64 | S::S64) => |old, b, _| old.wrapping_add(b),
        ("add", S::F32) => |old, b, _| {
            let sum = half::add_to_odd(f32::read(old).into(), f32::read(b).into());
            u64::from(half::round(sum, half::F32, Rounding::Nearest))
        },
        ("add", S::F64) => |old, b, _| (f64::read(old) + f64::read(b)).write(),
        ("add", S::F16) => |old, b, _| add_f16(old, b),
        ("add", S::BF16) => |old, b, _| add_bf16(old, b),
        ("add", S::F16x2) => |old, b, _| add_f16(old, b) | add_f16(old >> 16, b >> 16) << 16,
        ("add", S::BF16x2) => |old, b, _| add_bf16(old, b) | add_bf16(old >> 16, b >> 16) << 16,
        ("min", S::U32) => |old, b, _| u32::read(old).min(u32::read(b)).write(),
        ("max", S::U32) => |old, b, _| u32::read(old).max(u32::read(b)).write(),
        ("min", S::S32) => |old, b, _| i32::read(old).min(i32::read(b)).write(),
        ("max", S::S32) => |old, b, _| i32::read(old).max(i32::read(b)).write(),
        ("min", S::U64) => |old, b, _| old.min(b),
        ("max", S::U64) => |old, b, _| old.max(b),
        ("min", S::S64) => |old, b, _| i64::read(old).min(i64::read(b)).write(),
        ("max", S::S64) => |old, b, _| i64::read(old).max(i64::read(b)).write(),
        // Up to the bound, then from zero; down to zero, then from the bound.
        ("inc", S::U32) => |old, b, _| {
            let (old, bound) = (u32::read(old), u32::read(b));
            if old >= bound { 0 } else { u64::from(old) + 1 }
        },
        ("dec", S::U32) => |old, b, _| {
            let (old, bound) = (u32::read(old), u32::read(b));
            if old == 0 || old > bound { bound.into() } else { u64::from(old) - 1 }
        },
        _ => return None,
    })
}

/// What `redux.sync` joins two lanes with.
pub(crate) fn reduce(name: &str, ty: S) -> Option<Modify> {
    match (name, ty) {
        ("add" | "min" | "max", S::U32 | S::S32) | ("and" | "or" | "xor", S::B32) => {
            modify(name, ty)
        }
        _ => None,
    }
}

fn add_f16(a: u64, b: u64) -> u64 {
    let sum = f64::from(half::f16_to_f32(u16::read(a))) + f64::from(half::f16_to_f32(u16::read(b)));
    half::round(sum, half::F16, Rounding::Nearest).into()
}

fn add_bf16(a: u64, b: u64) -> u64 {
    let (a, b) = (half::bf16_to_f32(u16::read(a)), half::bf16_to_f32(u16::read(b)));
    half::round(half::add_to_odd(a.into(), b.into()), half::BF16, Rounding::Nearest).into()
}

/// All lanes alike.
pub(crate) fn splat(value: u64) -> Lanes {
    [value; LANES]
}
