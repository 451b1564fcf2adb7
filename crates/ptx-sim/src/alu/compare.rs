//! Comparisons (PTX ISA, "Comparison and Selection Instructions"): the tests of integers, and of floats ordered and unordered.

use std::cmp::Ordering;

use super::{LANES, Lane, Lanes};
use crate::alu::half;
use crate::types::ScalarType as S;

/// A bit for each lane where the comparison holds.
pub(crate) type Compare = fn([&Lanes; 2]) -> u32;

macro_rules! compare_lanes {
    (|$a:ident, $b:ident: $t:ty| $holds:expr) => {{
        fn apply([$a, $b]: [&Lanes; 2]) -> u32 {
            let mut out = 0;
            for lane in 0..LANES {
                let $a = <$t as Lane>::read($a[lane]);
                let $b = <$t as Lane>::read($b[lane]);
                out |= u32::from($holds) << lane;
            }
            out
        }
        apply
    }};
}

/// Tests that hold of a type as Rust compares it, in which a float that is no number holds for `ne` alone.
macro_rules! ordered {
    ($name:expr, $t:ty, $($other:tt)*) => {
        match $name {
            "eq" => compare_lanes!(|a, b: $t| a == b),
            "ne" => compare_lanes!(|a, b: $t| a != b),
            "lt" => compare_lanes!(|a, b: $t| a < b),
            "le" => compare_lanes!(|a, b: $t| a <= b),
            "gt" => compare_lanes!(|a, b: $t| a > b),
            "ge" => compare_lanes!(|a, b: $t| a >= b),
            $($other)*
            _ => return None,
        }
    };
}

macro_rules! integer {
    ($name:expr, $t:ty) => {
        ordered!($name, $t,)
    };
}

macro_rules! unsigned {
    ($name:expr, $t:ty) => {
        ordered!($name, $t,
            "lo" => compare_lanes!(|a, b: $t| a < b),
            "ls" => compare_lanes!(|a, b: $t| a <= b),
            "hi" => compare_lanes!(|a, b: $t| a > b),
            "hs" => compare_lanes!(|a, b: $t| a >= b),
        )
    };
}

macro_rules! bits {
    ($name:expr, $t:ty) => {
        match $name {
            "eq" => compare_lanes!(|a, b: $t| a == b),
            "ne" => compare_lanes!(|a, b: $t| a != b),
            _ => return None,
        }
    };
}

macro_rules! float {
    ($name:expr, $t:ty, |$x:ident| $value:expr) => {
        match $name {
            "eq" => float!(@ $t, |$x| $value, |a, b| a == b),
            // Ordered: false where either is no number.
            "ne" => float!(@ $t, |$x| $value, |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
            "lt" => float!(@ $t, |$x| $value, |a, b| a < b),
            "le" => float!(@ $t, |$x| $value, |a, b| a <= b),
            "gt" => float!(@ $t, |$x| $value, |a, b| a > b),
            "ge" => float!(@ $t, |$x| $value, |a, b| a >= b),
            "equ" => float!(@ $t, |$x| $value, |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
            "neu" => float!(@ $t, |$x| $value, |a, b| a != b),
            "ltu" => float!(@ $t, |$x| $value, |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_lt)),
            "leu" => float!(@ $t, |$x| $value, |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_le)),
            "gtu" => float!(@ $t, |$x| $value, |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_gt)),
            "geu" => float!(@ $t, |$x| $value, |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_ge)),
            "num" => float!(@ $t, |$x| $value, |a, b| !a.is_nan() && !b.is_nan()),
            "nan" => float!(@ $t, |$x| $value, |a, b| a.is_nan() || b.is_nan()),
            _ => return None,
        }
    };
    (@ $t:ty, |$x:ident| $value:expr, |$a:ident, $b:ident| $holds:expr) => {{
        fn apply([left, right]: [&Lanes; 2]) -> u32 {
            let value = |$x: $t| $value;
            let mut out = 0;
            for lane in 0..LANES {
                let $a = value(<$t as Lane>::read(left[lane]));
                let $b = value(<$t as Lane>::read(right[lane]));
                out |= u32::from($holds) << lane;
            }
            out
        }
        apply
    }};
}

/// A comparison by its name and type; `flush` takes subnormal f32 for zero.
pub(crate) fn compare(name: &str, ty: S, flush: bool) -> Option<Compare> {
    if flush && ty != S::F32 {
        return None;
    }
    Some(match ty {
        S::B16 => bits!(name, u16),
        S::B32 => bits!(name, u32),
        S::B64 => bits!(name, u64),
        S::U16 => unsigned!(name, u16),
        S::U32 => unsigned!(name, u32),
        S::U64 => unsigned!(name, u64),
        S::S16 => integer!(name, i16),
        S::S32 => integer!(name, i32),
        S::S64 => integer!(name, i64),
        S::F16 => float!(name, u16, |x| half::f16_to_f32(x)),
        S::BF16 => float!(name, u16, |x| half::bf16_to_f32(x)),
        S::F32 if flush => float!(name, f32, |x| super::float::flush(x)),
        S::F32 => float!(name, f32, |x| x),
        S::F64 => float!(name, f64, |x| x),
        _ => return None,
    })
}
