//! Pairs of 16-bit floats in one register, against exact arithmetic rounded by looking at every number of the format.

use super::Out::B32;
use super::{Case, case, check_over};

/// A format of 16 bits: how many are those of the fraction.
type Format = u32;
const F16: Format = 10;
const BF16: Format = 7;

/// The value of 16 bits, from the definition of the formats.
fn value(bits: u64, format: Format) -> f64 {
    let exponent_bits = 15 - format;
    let (exponent, fraction) =
        (bits >> format & ((1 << exponent_bits) - 1), bits & ((1 << format) - 1));
    let bias = (1 << (exponent_bits - 1)) - 1;
    let scale = 2.0_f64.powi(exponent.max(1) as i32 - bias - format as i32);
    let one = if exponent == 0 { 0 } else { 1 << format };
    let is_special = exponent == (1 << exponent_bits) - 1;
    let magnitude = match fraction {
        0 if is_special => f64::INFINITY,
        _ if is_special => f64::NAN,
        _ => (one + fraction) as f64 * scale,
    };
    if bits >> 15 & 1 == 1 { -magnitude } else { magnitude }
}

/// The bits next to a value, ties to even; all bits but the sign for what is no number.
fn nearest(exact: f64, format: Format) -> u64 {
    if exact.is_nan() {
        return 0x7fff;
    }
    let sign = u64::from(exact.is_sign_negative()) << 15;
    let infinity = ((1 << (15 - format)) - 1) << format;
    let highest = value(infinity - 1, format);
    // Infinity stands where the next number would.
    let past = highest + (highest - value(infinity - 2, format));
    let of = |bits: u64| if bits == infinity { past } else { value(bits, format) };
    let magnitude = exact.abs().min(past);
    let above =
        (0..infinity).collect::<Vec<_>>().partition_point(|bits| of(*bits) < magnitude) as u64;
    let below = above.saturating_sub(1);
    let (up, down) = (of(above) - magnitude, magnitude - of(below));
    let is_above = up < down || (up == down && above & 1 == 0);
    sign | if is_above { above } else { below }
}

fn pair(a: u64, b: u64, c: u64, format: Format, f: fn(f64, f64, f64) -> f64) -> u64 {
    let half = |shift: u32| {
        let [a, b, c] = [a, b, c].map(|bits| value(bits >> shift & 0xffff, format));
        nearest(f(a, b, c), format)
    };
    half(0) | half(16) << 16
}

macro_rules! pairs {
    ($format:ident, $(($text:literal, |$a:ident, $b:ident, $c:ident| $value:expr)),+) => {
        [$(case($text, B32, |a, b, c| pair(a, b, c, $format, |$a, $b, $c| $value))),+]
    };
}

/// The number of two, where one is none.
fn lesser(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a || (b == a && b.is_sign_negative()) { b } else { a }
}

fn greater(a: f64, b: f64) -> f64 {
    -lesser(-a, -b)
}

fn lesser_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { lesser(a, b) }
}

#[test]
fn pairs_of_f16_are_rounded_once() {
    let cases: [Case; 14] = pairs!(
        F16,
        ("add.f16x2 %d, %a, %b;", |a, b, _c| a + b),
        ("add.rn.f16x2 %d, %a, %b;", |a, b, _c| a + b),
        ("sub.f16x2 %d, %a, %b;", |a, b, _c| a - b),
        ("mul.f16x2 %d, %a, %b;", |a, b, _c| a * b),
        ("fma.rn.f16x2 %d, %a, %b, %c;", |a, b, c| a * b + c),
        ("fma.rn.relu.f16x2 %d, %a, %b, %c;", |a, b, c| {
            let sum = a * b + c;
            if sum < 0.0 { 0.0 } else { sum }
        }),
        ("min.f16x2 %d, %a, %b;", |a, b, _c| lesser(a, b)),
        ("max.f16x2 %d, %a, %b;", |a, b, _c| greater(a, b)),
        ("min.NaN.f16x2 %d, %a, %b;", |a, b, _c| lesser_or_nan(a, b)),
        ("max.NaN.f16x2 %d, %a, %b;", |a, b, _c| -lesser_or_nan(-a, -b)),
        ("neg.f16x2 %d, %a;", |a, _b, _c| -a),
        ("abs.f16x2 %d, %a;", |a, _b, _c| a.abs()),
        ("ex2.approx.f16x2 %d, %a;", |a, _b, _c| a.exp2()),
        ("tanh.approx.f16x2 %d, %a;", |a, _b, _c| a.tanh())
    );
    // 1 and -2.5, 0.1 and 3, zeros, subnormal numbers, the greatest and infinity.
    let operands = [0xc100_3c00, 0x4200_2e66, 0x8000_0000, 0x83ff_0001, 0x7c00_7bff, 0x3555_bbff];
    check_over(&cases, &operands);
}

#[test]
fn pairs_of_bf16_are_rounded_once() {
    let cases: [Case; 12] = pairs!(
        BF16,
        ("add.bf16x2 %d, %a, %b;", |a, b, _c| a + b),
        ("add.rn.bf16x2 %d, %a, %b;", |a, b, _c| a + b),
        ("sub.rn.bf16x2 %d, %a, %b;", |a, b, _c| a - b),
        ("mul.bf16x2 %d, %a, %b;", |a, b, _c| a * b),
        ("fma.rn.bf16x2 %d, %a, %b, %c;", |a, b, c| a * b + c),
        ("min.bf16x2 %d, %a, %b;", |a, b, _c| lesser(a, b)),
        ("max.bf16x2 %d, %a, %b;", |a, b, _c| greater(a, b)),
        ("max.NaN.bf16x2 %d, %a, %b;", |a, b, _c| -lesser_or_nan(-a, -b)),
        ("neg.bf16x2 %d, %a;", |a, _b, _c| -a),
        ("abs.bf16x2 %d, %a;", |a, _b, _c| a.abs()),
        ("ex2.approx.ftz.bf16x2 %d, %a;", |a, _b, _c| a.exp2()),
        ("tanh.approx.bf16x2 %d, %a;", |a, _b, _c| a.tanh())
    );
    // 1 and -2.5, 0.1 and 3, zeros, infinity and a third, a hundred and -0.01.
    let operands = [0xc020_3f80, 0x4040_3dcd, 0x8000_0000, 0x3eab_7f80, 0xbc24_42c8];
    check_over(&cases, &operands);
}

#[test]
fn pairs_are_made_of_two_f32() {
    fn f(bits: u64) -> f64 {
        f32::from_bits(bits as u32).into()
    }
    fn pack(a: f64, b: f64, format: Format) -> u64 {
        nearest(a, format) << 16 | nearest(b, format)
    }
    // Towards zero: the nearest, or the one before it.
    fn to_zero(exact: f64, format: Format) -> u64 {
        let near = nearest(exact, format);
        if value(near, format).abs() > exact.abs() { near - 1 } else { near }
    }
    let cases = [
        case("cvt.rn.f16x2.f32 %d, %a, %b;", B32, |a, b, _| pack(f(a), f(b), F16)),
        case("cvt.rn.bf16x2.f32 %d, %a, %b;", B32, |a, b, _| pack(f(a), f(b), BF16)),
        case("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", B32, |a, b, _| {
            pack(f(a).max(0.0), f(b).max(0.0), BF16)
        }),
        case("cvt.rn.relu.f16x2.f32 %d, %a, %b;", B32, |a, b, _| {
            pack(f(a).max(0.0), f(b).max(0.0), F16)
        }),
        case("cvt.rz.bf16x2.f32 %d, %a, %b;", B32, |a, b, _| {
            to_zero(f(a), BF16) << 16 | to_zero(f(b), BF16)
        }),
        case("cvt.rz.f16x2.f32 %d, %a, %b;", B32, |a, b, _| {
            to_zero(f(a), F16) << 16 | to_zero(f(b), F16)
        }),
    ];
    let operands = [1.0_f32, -2.503, 0.1, 1_000.49, 2049.0, 2051.0, 65_519.0, 1e-7, 1.003_906_2];
    let operands = operands.map(|value| u64::from(value.to_bits()));
    check_over(&cases, &operands);
}

/// Ten bits of fraction, ties away from zero.
#[test]
fn an_f32_becomes_the_nearest_tf32() {
    let cases = [case("cvt.rna.tf32.f32 %d, %a;", B32, |a, _, _| {
        let unit = 2.0_f64.powi(f32::from_bits(a as u32).abs().log2().floor() as i32 - 10);
        // `round` takes ties away from zero.
        let rounded = (f64::from(f32::from_bits(a as u32)) / unit).round() * unit;
        (rounded as f32).to_bits().into()
    })];
    let operands = [1.0_f32, 1.000_488_3, -1.000_488_3, 1.000_488_2, 0.1, -77.77, 3e30, 1.999_9];
    check_over(&cases, &operands.map(|value| u64::from(value.to_bits())));
}
