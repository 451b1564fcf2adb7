//! Arithmetic of floats against the processor's own, and functions that the ISA calls approximate.

use super::Out::{B16, B32, B64};
use super::{Case, case, check_over, run};

const F32: [f32; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    3.0,
    1e-3,
    16_777_217.0,
    3.4e38,
    1e-38,
    1e-42,
    -1e-45,
    1.999_999_9,
    f32::INFINITY,
    f32::NEG_INFINITY,
];

fn f32_operands() -> Vec<u64> {
    F32.iter().map(|value| value.to_bits().into()).collect()
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// All that is no number is one value.
fn bits(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
}

/// By sign and magnitude, so that +0 is above -0.
fn highest(values: [f32; 3]) -> u64 {
    bits(values.into_iter().max_by(f32::total_cmp).unwrap())
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

#[test]
fn f32_rounds_to_the_nearest() {
    let cases = [
        case("add.f32 %d, %a, %b;", B32, |a, b, _| bits(f(a) + f(b))),
        case("add.rn.f32 %d, %a, %b;", B32, |a, b, _| bits(f(a) + f(b))),
        case("sub.f32 %d, %a, %b;", B32, |a, b, _| bits(f(a) - f(b))),
        case("mul.f32 %d, %a, %b;", B32, |a, b, _| bits(f(a) * f(b))),
        case("fma.rn.f32 %d, %a, %b, %c;", B32, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
        case("mad.rn.f32 %d, %a, %b, %c;", B32, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
        case("div.rn.f32 %d, %a, %b;", B32, |a, b, _| bits(f(a) / f(b))),
        case("rcp.rn.f32 %d, %a;", B32, |a, _, _| bits(1.0 / f(a))),
        case("sqrt.rn.f32 %d, %a;", B32, |a, _, _| bits(f(a).sqrt())),
        case("mul.f32 %d, %a, 0f40400000;", B32, |a, _, _| bits(f(a) * 3.0)),
        case("abs.f32 %d, %a;", B32, |a, _, _| bits(f(a).abs())),
        case("neg.f32 %d, %a;", B32, |a, _, _| bits(-f(a))),
        case("copysign.f32 %d, %a, %b;", B32, |a, b, _| bits(f(b).copysign(f(a)))),
        case("max.f32 %d, %a, %b, %c;", B32, |a, b, c| highest([f(a), f(b), f(c)])),
        case("min.f32 %d, %a, %b, %c;", B32, |a, b, c| highest([-f(a), -f(b), -f(c)]) ^ 1 << 31),
        case("add.sat.f32 %d, %a, %b;", B32, |a, b, _| {
            let sum = f(a) + f(b);
            // Also the zero is positive.
            if sum.is_nan() { 0 } else { bits(sum.clamp(0.0, 1.0).abs()) }
        }),
        case("add.ftz.f32 %d, %a, %b;", B32, |a, b, _| bits(flush(flush(f(a)) + flush(f(b))))),
        case("mul.ftz.f32 %d, %a, %b;", B32, |a, b, _| bits(flush(flush(f(a)) * flush(f(b))))),
    ];
    check_over(&cases, &f32_operands());
}

/// One step of the processor's result, in the direction, where f64 says that it was not exact.
#[test]
fn f32_rounds_as_it_is_told() {
    // Sums and products of these fit an f64.
    let operands = [1.0_f32, -1.0, 3.0, -5.5, 16_777_215.0, 1e-3, -0.333_333_34];
    let operands = operands.map(|value| u64::from(value.to_bits()));
    fn down(exact: f64) -> u64 {
        let near = exact as f32;
        bits(if f64::from(near) > exact { near.next_down() } else { near })
    }
    fn up(exact: f64) -> u64 {
        let near = exact as f32;
        bits(if f64::from(near) < exact { near.next_up() } else { near })
    }
    fn zero(exact: f64) -> u64 {
        if exact > 0.0 { down(exact) } else { up(exact) }
    }
    fn product(a: u64, b: u64) -> f64 {
        f64::from(f(a)) * f64::from(f(b))
    }
    let cases = [
        case("mul.rm.f32 %d, %a, %b;", B32, |a, b, _| down(product(a, b))),
        case("mul.rp.f32 %d, %a, %b;", B32, |a, b, _| up(product(a, b))),
        case("mul.rz.f32 %d, %a, %b;", B32, |a, b, _| zero(product(a, b))),
        case("add.rz.f32 %d, %a, %b;", B32, |a, b, _| match f64::from(f(a)) + f64::from(f(b)) {
            0.0 => 0,
            exact => zero(exact),
        }),
    ];
    check_over(&cases, &operands);
}

#[test]
fn the_lesser_and_the_greater_of_floats() {
    let mut operands = f32_operands();
    operands.push(u64::from(f32::NAN.to_bits()));
    fn lesser(a: f32, b: f32) -> f32 {
        if a.is_nan() {
            b
        } else if b.is_nan() || a.total_cmp(&b).is_le() {
            a
        } else {
            b
        }
    }
    let cases = [
        case("min.f32 %d, %a, %b;", B32, |a, b, _| bits(lesser(f(a), f(b)))),
        case("max.f32 %d, %a, %b;", B32, |a, b, _| bits(-lesser(-f(a), -f(b)))),
        case("max.NaN.f32 %d, %a, %b;", B32, |a, b, _| {
            if f(a).is_nan() || f(b).is_nan() { 0x7fff_ffff } else { bits(-lesser(-f(a), -f(b))) }
        }),
    ];
    check_over(&cases, &operands);
}

#[test]
fn comparisons_of_floats_know_what_is_no_number() {
    let mut operands = f32_operands();
    operands.push(u64::from(f32::NAN.to_bits()));
    fn unordered(a: u64, b: u64) -> bool {
        f(a).is_nan() || f(b).is_nan()
    }
    macro_rules! tests {
        ($(($name:literal, |$a:ident, $b:ident| $holds:expr)),+) => {[$(
            case(concat!("setp.", $name, ".f32 %q, %a, %b; selp.u32 %d, 1, 0, %q;"), B32, |$a, $b, _| u64::from($holds))
        ),+]};
    }
    let cases: [Case; 14] = tests!(
        ("eq", |a, b| f(a) == f(b)),
        ("ne", |a, b| f(a) != f(b) && !unordered(a, b)),
        ("lt", |a, b| f(a) < f(b)),
        ("le", |a, b| f(a) <= f(b)),
        ("gt", |a, b| f(a) > f(b)),
        ("ge", |a, b| f(a) >= f(b)),
        ("equ", |a, b| f(a) == f(b) || unordered(a, b)),
        ("neu", |a, b| f(a) != f(b)),
        ("ltu", |a, b| f(a) < f(b) || unordered(a, b)),
        ("leu", |a, b| f(a) <= f(b) || unordered(a, b)),
        ("gtu", |a, b| f(a) > f(b) || unordered(a, b)),
        ("geu", |a, b| f(a) >= f(b) || unordered(a, b)),
        ("num", |a, b| !unordered(a, b)),
        ("nan", |a, b| unordered(a, b))
    );
    check_over(&cases, &operands);
    let flushed =
        [case("setp.eq.ftz.f32 %q, %a, 0f00000000; selp.u32 %d, 1, 0, %q;", B32, |a, _, _| {
            u64::from(flush(f(a)) == 0.0)
        })];
    check_over(&flushed, &operands);
}

#[test]
fn f64_is_that_of_the_processor() {
    let operands =
        [0.0, -1.5, 3.0, 1e300, -1e-310, 0.1, f64::INFINITY].map(|value: f64| value.to_bits());
    fn d(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    fn bits(value: f64) -> u64 {
        if value.is_nan() { 0x7fff_ffff_ffff_ffff } else { value.to_bits() }
    }
    let cases = [
        case("add.f64 %dl, %al, %bl;", B64, |a, b, _| bits(d(a) + d(b))),
        case("sub.rn.f64 %dl, %al, %bl;", B64, |a, b, _| bits(d(a) - d(b))),
        case("mul.f64 %dl, %al, %bl;", B64, |a, b, _| bits(d(a) * d(b))),
        case("div.rn.f64 %dl, %al, %bl;", B64, |a, b, _| bits(d(a) / d(b))),
        case("fma.rn.f64 %dl, %al, %bl, %cl;", B64, |a, b, c| bits(d(a).mul_add(d(b), d(c)))),
        case("sqrt.rn.f64 %dl, %al;", B64, |a, _, _| bits(d(a).sqrt())),
        case("neg.f64 %dl, %al;", B64, |a, _, _| bits(-d(a))),
        case("max.f64 %dl, %al, 0d3FF0000000000000;", B64, |a, _, _| bits(d(a).max(1.0))),
        case("setp.gt.f64 %q, %al, %bl; selp.u32 %d, 1, 0, %q;", B32, |a, b, _| {
            u64::from(d(a) > d(b))
        }),
    ];
    check_over(&cases, &operands);
}

/// Within a few units in the last place, which GPUs do not reach themselves.
#[test]
fn approximate_functions_are_close() {
    type Function = fn(f32) -> f32;
    let cases: [(&str, Function); 11] = [
        ("ex2.approx.f32", f32::exp2),
        ("ex2.approx.ftz.f32", f32::exp2),
        ("lg2.approx.f32", f32::log2),
        ("lg2.approx.ftz.f32", f32::log2),
        ("rcp.approx.f32", f32::recip),
        ("rcp.approx.ftz.f32", f32::recip),
        ("rsqrt.approx.ftz.f32", |x| x.sqrt().recip()),
        ("sqrt.approx.f32", f32::sqrt),
        ("rsqrt.approx.f32", |x| x.sqrt().recip()),
        ("sin.approx.f32", f32::sin),
        ("tanh.approx.f32", f32::tanh),
    ];
    let values = [0.25_f32, 1.0, 1.7, 3.0, 10.5, 0.001];
    let triples: Vec<_> = values.iter().map(|value| [value.to_bits().into(), 0, 0]).collect();
    for (name, expected) in cases {
        let results = run(&format!("{name} %d, %a;"), &triples);
        for (value, result) in values.iter().zip(results) {
            let (got, expected) = (f(result[0]), expected(*value));
            let error = (got - expected).abs();
            assert!(error <= expected.abs() * 3e-7, "{name} {value}: {got}, not {expected}");
        }
    }
}

/// Halves that fit 8 bits are whole numbers here, whose sums and products are exact.
#[test]
fn arithmetic_of_halves() {
    // 1, 2, -3, 0.5, 6: `%ah` and both halves of `%a`.
    let operands = [0x3c00_3c00, 0x4000_3c00, 0xc200_4000, 0x3800_c200, 0x4600_3800_u64];
    fn value(bits: u64) -> f64 {
        let table = [(0x3c00, 1.0), (0x4000, 2.0), (0xc200, -3.0), (0x3800, 0.5), (0x4600, 6.0)];
        table.iter().find(|(known, _)| *known == bits & 0xffff).unwrap().1
    }
    /// Of a number with few bits.
    fn bits(value: f64) -> u64 {
        if value == 0.0 {
            return 0;
        }
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) + 15 - 1023;
        bits >> 63 << 15 | exponent << 10 | bits >> 42 & 1023
    }
    let cases = [
        case("add.f16 %dh, %ah, %bh;", B16, |a, b, _| bits(value(a) + value(b))),
        case("mul.f16 %dh, %ah, %bh;", B16, |a, b, _| bits(value(a) * value(b))),
        case("fma.rn.f16 %dh, %ah, %bh, %ch;", B16, |a, b, c| {
            bits(value(a).mul_add(value(b), value(c)))
        }),
        case("add.f16x2 %d, %a, %b;", B32, |a, b, _| {
            bits(value(a) + value(b)) | bits(value(a >> 16) + value(b >> 16)) << 16
        }),
        case("fma.rn.f16x2 %d, %a, %b, %c;", B32, |a, b, c| {
            bits(value(a).mul_add(value(b), value(c)))
                | bits(value(a >> 16).mul_add(value(b >> 16), value(c >> 16))) << 16
        }),
        case("max.f16x2 %d, %a, %b;", B32, |a, b, _| {
            bits(value(a).max(value(b))) | bits(value(a >> 16).max(value(b >> 16))) << 16
        }),
        case("setp.lt.f16 %q, %ah, %bh; selp.u32 %d, 1, 0, %q;", B32, |a, b, _| {
            u64::from(value(a) < value(b))
        }),
    ];
    check_over(&cases, &operands);
    let ones = [0x3f80_3f80_u64];
    check_over(&[case("add.bf16x2 %d, %a, %b;", B32, |_, _, _| 0x4000_4000)], &ones);
    check_over(&[case("fma.rn.bf16 %dh, %ah, %bh, %ch;", B16, |_, _, _| 0x4000)], &ones);
}
