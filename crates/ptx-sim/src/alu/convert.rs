//! `cvt` among integers and floats (PTX ISA, `cvt`).

pub(crate) use super::half::Rounding;
use super::half::{self, Format};
use super::{LANES, Lane, Lanes, Map, map};
use crate::types::ScalarType as S;

/// A conversion whose combination of types and modifiers is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) from: S,
    pub(crate) to: S,
    pub(crate) rounding: Rounding,
    pub(crate) saturate: bool,
    pub(crate) flush: bool,
    pub(crate) relu: bool,
    /// Whether a float is rounded to a whole number of its own type.
    pub(crate) to_whole: bool,
}

pub(crate) fn convert(conversion: Conversion, s: &Lanes) -> Lanes {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = conversion.lane(s[lane]);
    }
    out
}

impl Conversion {
    fn lane(self, bits: u64) -> u64 {
        if self.from.is_integer() {
            let value = integer(self.from, bits);
            if self.to.is_integer() { self.narrow(value) } else { self.float_of(value) }
        } else {
            let value = float(self.from, bits, self.flush);
            if self.to.is_integer() { self.integer_of(value) } else { self.refloat(value) }
        }
    }

    /// Integer to integer: the low bits, or the nearest value that fits.
    fn narrow(self, value: i128) -> u64 {
        let value = if self.saturate {
            let (lowest, highest) = range(self.to);
            value.clamp(lowest, highest)
        } else {
            value
        };
        low(self.to, value)
    }

    fn integer_of(self, value: f64) -> u64 {
        let (lowest, highest) = range(self.to);
        if value.is_nan() {
            // 0 for types of up to 32 bits, and for 64 bits the top bit alone, as GPUs give.
            return if self.to.bytes() == 8 { 1 << 63 } else { 0 };
        }
        let whole = whole(value, self.rounding);
        // A cast of Rust stops at the limits of i128, which are far outside.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the value is whole, and casts saturate"
        )]
        let value = (whole as i128).clamp(lowest, highest);
        low(self.to, value)
    }

    /// An integer of 64 bits is rounded once, also on its way through f64.
    fn float_of(self, value: i128) -> u64 {
        if self.to == S::F64 {
            return match self.rounding {
                #[expect(clippy::cast_precision_loss, reason = "the cast rounds to the nearest")]
                Rounding::Nearest => (value as f64).write(),
                _ => f64_of(value, self.rounding).write(),
            };
        }
        self.refloat(to_odd(value))
    }

    fn refloat(self, value: f64) -> u64 {
        let value = if self.to_whole { whole(value, self.rounding) } else { value };
        let value = if self.saturate {
            // The sum makes a negative zero positive.
            if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) + 0.0 }
        } else if self.relu && value < 0.0 {
            0.0
        } else {
            value
        };
        let format = match self.to {
            S::F64 if value.is_nan() => return 0x7fff_ffff_ffff_ffff,
            S::F64 => return value.write(),
            S::F16 => half::F16,
            S::BF16 => half::BF16,
            _ => half::F32,
        };
        let bits = half::round(value, format, self.rounding);
        if self.flush && self.to == S::F32 { flushed(bits, format) } else { u64::from(bits) }
    }
}

/// The nearest tf32, ties away from zero, in the bits of an f32.
pub(crate) fn to_tf32() -> Map<1> {
    map!(|a: f32| if a.is_nan() {
        0x7fff_ffff
    } else if a.is_infinite() {
        a.to_bits()
    } else {
        // A carry out of the fraction makes the exponent the next, and infinity after the last.
        (a.to_bits() + 0x1000) & !0x1fff
    })
}

fn flushed(bits: u32, format: Format) -> u64 {
    let magnitude = bits & ((1 << (format.exponent_bits + format.fraction_bits)) - 1);
    let is_subnormal = magnitude >> format.fraction_bits == 0;
    u64::from(if is_subnormal { bits ^ magnitude } else { bits })
}

fn integer(ty: S, bits: u64) -> i128 {
    match ty {
        S::U8 => u8::read(bits).into(),
        S::U16 => u16::read(bits).into(),
        S::U32 => u32::read(bits).into(),
        S::U64 => bits.into(),
        S::S8 => i8::read(bits).into(),
        S::S16 => i16::read(bits).into(),
        S::S32 => i32::read(bits).into(),
        _ => i64::read(bits).into(),
    }
}

fn float(ty: S, bits: u64, flush: bool) -> f64 {
    match ty {
        S::F16 => half::f16_to_f32(u16::read(bits)).into(),
        S::BF16 => half::bf16_to_f32(u16::read(bits)).into(),
        S::F32 if flush => super::float::flush(f32::read(bits)).into(),
        S::F32 => f32::read(bits).into(),
        _ => f64::read(bits),
    }
}

fn range(ty: S) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The low bits, extended to 64 as the type extends.
fn low(ty: S, value: i128) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "low bits are what is asked for")]
    let bits = value as u64;
    match ty {
        S::U8 => u8::read(bits).write(),
        S::U16 => u16::read(bits).write(),
        S::U32 => u32::read(bits).write(),
        S::S8 => i8::read(bits).write(),
        S::S16 => i16::read(bits).write(),
        S::S32 => i32::read(bits).write(),
        _ => bits,
    }
}

fn whole(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// A value of at most 65 bits as f64, to odd where it does not fit.
fn to_odd(value: i128) -> f64 {
    let down = f64_of(value, Rounding::Zero);
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and fits")]
    let exact = down as i128 == value;
    if exact { down } else { f64::from_bits(down.to_bits() | 1) }
}

fn f64_of(value: i128, rounding: Rounding) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "what the cast rounds is mended below")]
    let near = value as f64;
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and fits")]
    let back = near as i128;
    let step = match rounding {
        Rounding::Nearest => 0,
        Rounding::Zero => -i64::from(back.unsigned_abs() > value.unsigned_abs()),
        Rounding::Down if value < 0 => i64::from(back > value),
        Rounding::Down => -i64::from(back > value),
        Rounding::Up if value < 0 => -i64::from(back < value),
        Rounding::Up => i64::from(back < value),
    };
    // Neighbours of a float are neighbours as bits.
    f64::from_bits(near.to_bits().wrapping_add_signed(step))
}
