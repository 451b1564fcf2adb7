//! Floating point (PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions").
//!
//! Sums and products of f32 and of the 16-bit types are computed in f64 and rounded once, exactly. Functions that
//! the ISA calls approximate are computed as f64 would have them and rounded: closer than any GPU.

use super::half::{self, Format, Rounding};
use super::{LANES, Lane, Lanes};
use crate::types::ScalarType as S;

/// An operation of up to three operands over one format; what it lacks is given as zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatMap {
    f: Operation,
    ty: S,
    rounding: Rounding,
    flush: bool,
    saturate: bool,
    relu: bool,
}

type Values = [f64; LANES];

/// An operation on all lanes.
type Operation = fn(&Values, &Values, &Values) -> Values;

macro_rules! operation {
    (|$a:ident, $b:ident, $c:ident| $value:expr) => {{
        fn apply($a: &Values, $b: &Values, $c: &Values) -> Values {
            let mut out = [0.0; LANES];
            for lane in 0..LANES {
                let ($a, $b, $c) = ($a[lane], $b[lane], $c[lane]);
                let _unused = ($a, $b, $c);
                out[lane] = $value;
            }
            out
        }
        apply
    }};
}

/// Modifiers of a floating-point instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatModifiers {
    pub(crate) rounding: Rounding,
    /// Subnormal operands and results are zero.
    pub(crate) flush: bool,
    /// The result is clamped to 0 to 1, and 0 for what is no number.
    pub(crate) saturate: bool,
    /// A negative result is 0.
    pub(crate) relu: bool,
}

/// An operation by its name.
pub(crate) fn float_map(name: &str, ty: S, modifiers: FloatModifiers) -> Option<FloatMap> {
    if !matches!(ty, S::F16 | S::F16x2 | S::BF16 | S::BF16x2 | S::F32 | S::F64) {
        return None;
    }
    let FloatModifiers { rounding, flush, saturate, relu } = modifiers;
    if ty == S::F64 && (rounding != Rounding::Nearest || flush || saturate || relu) {
        return None;
    }
    let is_exact = ["add", "sub", "mul", "fma"].contains(&name);
    if rounding != Rounding::Nearest && !is_exact {
        return None;
    }
    let f: Operation = match (name, ty) {
        ("add", S::F64) => operation!(|a, b, c| a + b),
        ("sub", S::F64) => operation!(|a, b, c| a - b),
        ("mul", _) => operation!(|a, b, c| a * b),
        ("fma", S::F64) => operation!(|a, b, c| a.mul_add(b, c)),
        ("add", _) => operation!(|a, b, c| half::add_to_odd(a, b)),
        ("sub", _) => operation!(|a, b, c| half::add_to_odd(a, -b)),
        // The product of two f32 fits an f64.
        ("fma", _) => operation!(|a, b, c| half::add_to_odd(a * b, c)),
        // Twice the bits and two more: rounding the quotient and the root twice is rounding once
        // (Figueroa, "When is double rounding innocuous?", 1995).
        ("div", _) => operation!(|a, b, c| a / b),
        ("rcp", _) => operation!(|a, b, c| 1.0 / a),
        ("sqrt", _) => operation!(|a, b, c| a.sqrt()),
        ("rsqrt", _) => operation!(|a, b, c| 1.0 / a.sqrt()),
        ("abs", _) => operation!(|a, b, c| a.abs()),
        ("neg", _) => operation!(|a, b, c| -a),
        ("min", _) => operation!(|a, b, c| minimum(a, b)),
        ("max", _) => operation!(|a, b, c| -minimum(-a, -b)),
        ("min.3", _) => operation!(|a, b, c| minimum(minimum(a, b), c)),
        ("max.3", _) => operation!(|a, b, c| -minimum(minimum(-a, -b), -c)),
        ("min.NaN", _) => operation!(|a, b, c| if a.is_nan() {
            a
        } else if b.is_nan() {
            b
        } else {
            minimum(a, b)
        }),
        ("max.NaN", _) => operation!(|a, b, c| if a.is_nan() {
            a
        } else if b.is_nan() {
            b
        } else {
            -minimum(-a, -b)
        }),
        ("copysign", S::F32 | S::F64) => operation!(|sign, value, c| value.copysign(sign)),
        ("ex2", S::F16 | S::F16x2 | S::BF16 | S::BF16x2 | S::F32) => operation!(|a, b, c| a.exp2()),
        ("lg2", S::F32) => operation!(|a, b, c| a.log2()),
        ("sin", S::F32) => operation!(|a, b, c| a.sin()),
        ("cos", S::F32) => operation!(|a, b, c| a.cos()),
        ("tanh", S::F16 | S::F16x2 | S::BF16 | S::BF16x2 | S::F32) => {
            operation!(|a, b, c| a.tanh())
        }
        _ => return None,
    };
    Some(FloatMap { f, ty, rounding, flush, saturate, relu })
}

/// A number where there is one, and -0 below +0 (IEEE 754-2008 minNum, as the ISA refines it).
fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// A subnormal f32 as the zero of its sign.
#[inline]
pub(crate) fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

impl FloatMap {
    pub(crate) fn apply(&self, s: [&Lanes; 3]) -> Lanes {
        match self.ty {
            S::F64 => {
                let [a, b, c] = s.map(|s| s.map(f64::read));
                (self.f)(&a, &b, &c).map(|value| canonical(value).write())
            }
            S::F32 => {
                let read = |bits: u64| f64::from(f32::read(bits));
                let flushed = |bits: u64| f64::from(flush(f32::read(bits)));
                let [a, b, c] = s.map(|s| if self.flush { s.map(flushed) } else { s.map(read) });
                self.round_f32((self.f)(&a, &b, &c))
            }
            S::F16 | S::F16x2 => self.apply_half(s, half::F16, half::f16_to_f32),
            _ => self.apply_half(s, half::BF16, half::bf16_to_f32),
        }
    }

    fn round_f32(&self, values: Values) -> Lanes {
        let plain = !(self.flush || self.saturate || self.relu);
        if plain && self.rounding == Rounding::Nearest {
            // The processor's own conversion rounds to the nearest.
            #[expect(clippy::cast_possible_truncation, reason = "it is the rounding")]
            return values.map(
                |value| {
                    if value.is_nan() { NAN_F32 } else { (value as f32).write() }
                },
            );
        }
        values.map(|value| {
            let value = self.finish(value);
            let rounded = if self.rounding == Rounding::Nearest && !value.is_nan() {
                #[expect(clippy::cast_possible_truncation, reason = "it is the rounding")]
                let rounded = value as f32;
                rounded
            } else {
                f32::from_bits(half::round(value, half::F32, self.rounding))
            };
            if self.flush { flush(rounded) } else { rounded }.write()
        })
    }

    fn apply_half(&self, s: [&Lanes; 3], format: Format, widen: fn(u16) -> f32) -> Lanes {
        let half = |shift: u32| {
            let read = |bits: u64| f64::from(widen(u16::read(bits >> shift)));
            let [a, b, c] = s.map(|s| s.map(read));
            (self.f)(&a, &b, &c).map(|value| {
                u64::from(half::round(self.finish(value), format, self.rounding)) << shift
            })
        };
        let mut out = half(0);
        if matches!(self.ty, S::F16x2 | S::BF16x2) {
            for (low, high) in out.iter_mut().zip(half(16)) {
                *low |= high;
            }
        }
        out
    }

    fn finish(&self, value: f64) -> f64 {
        if self.saturate {
            // The sum makes a negative zero positive.
            return if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) + 0.0 };
        }
        if self.relu && value < 0.0 { 0.0 } else { value }
    }
}

/// The f32 that GPUs give for what is no number.
const NAN_F32: u64 = 0x7fff_ffff;

/// The f64 that GPUs give for what is no number.
fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(0x7fff_ffff_ffff_ffff) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(name: &str, rounding: Rounding) -> FloatMap {
        let modifiers = FloatModifiers { rounding, flush: false, saturate: false, relu: false };
        float_map(name, S::F32, modifiers).unwrap()
    }

    /// The processor's own f32 arithmetic is the independent computation.
    #[test]
    fn arithmetic_of_f32_is_that_of_the_processor() {
        let [add, mul, div, fma] =
            ["add", "mul", "div", "fma"].map(|name| plain(name, Rounding::Nearest));
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            f32::from_bits(u32::read(state >> 32))
        };
        for _ in 0..20_000 {
            let (a, b, c) = (draw(), draw(), draw());
            let lanes = [a, b, c].map(|x| [x.write(); LANES]);
            let s = [&lanes[0], &lanes[1], &lanes[2]];
            let cases = [(&add, a + b), (&mul, a * b), (&div, a / b), (&fma, a.mul_add(b, c))];
            for (map, expected) in cases {
                let got = f32::read(map.apply(s)[0]);
                let same = got.to_bits() == expected.to_bits();
                assert!(same || (got.is_nan() && expected.is_nan()), "{a:e} {b:e} {c:e}");
            }
        }
    }
}
