//! Conversions, with registers wider than the types where the ISA allows it (PTX ISA 9.4.1).

use super::Out::{B16, B32, B64};
use super::{OPERANDS, case, check, check_over};

/// Every form that narrows or widens among integers, each from registers of its width and wider.
#[test]
fn integers_are_extended_and_cut() {
    check(&[
        case("cvt.u64.u32 %dl, %a;", B64, |a, _, _| u64::from(a as u32)),
        case("cvt.s64.s32 %dl, %a;", B64, |a, _, _| a as i32 as u64),
        case("cvt.u64.s32 %dl, %a;", B64, |a, _, _| a as i32 as u64),
        case("cvt.s64.u32 %dl, %a;", B64, |a, _, _| u64::from(a as u32)),
        case("cvt.u32.u64 %d, %al;", B32, |a, _, _| a),
        case("cvt.s32.s64 %d, %al;", B32, |a, _, _| a),
        case("cvt.u16.u32 %dh, %a;", B16, |a, _, _| a),
        case("cvt.u32.u16 %d, %ah;", B32, |a, _, _| u64::from(a as u16)),
        case("cvt.s32.s16 %d, %ah;", B32, |a, _, _| a as i16 as u64),
        case("cvt.u64.u16 %dl, %ah;", B64, |a, _, _| u64::from(a as u16)),
        case("cvt.s32.s8 %d, %a;", B32, |a, _, _| a as i8 as u64),
        case("cvt.u32.u8 %d, %a;", B32, |a, _, _| u64::from(a as u8)),
        case("cvt.s16.s8 %dh, %ah;", B16, |a, _, _| a as i8 as u64),
        case("cvt.u16.u8 %dh, %ah;", B16, |a, _, _| u64::from(a as u8)),
        case("cvt.s64.s8 %dl, %a;", B64, |a, _, _| a as i8 as u64),
    ]);
    // The source, the result or both in wider registers.
    check(&[
        case("cvt.s64.s32 %dl, %al;", B64, |a, _, _| a as i32 as u64),
        case("cvt.u64.u32 %dl, %al;", B64, |a, _, _| u64::from(a as u32)),
        case("cvt.s32.s16 %d, %a;", B32, |a, _, _| a as i16 as u64),
        case("cvt.u32.u16 %d, %al;", B32, |a, _, _| u64::from(a as u16)),
        case("cvt.s32.s16 %dl, %al;", B64, |a, _, _| a as i16 as u64),
        case("cvt.s8.s32 %d, %a;", B32, |a, _, _| a as i8 as u64),
        case("cvt.u8.u32 %d, %a;", B32, |a, _, _| u64::from(a as u8)),
        case("cvt.s16.s64 %dl, %al;", B64, |a, _, _| a as i16 as u64),
        case("cvt.u16.u64 %dl, %al;", B64, |a, _, _| u64::from(a as u16)),
    ]);
}

#[test]
fn integers_saturate() {
    check(&[
        case("cvt.sat.s8.s32 %d, %a;", B32, |a, _, _| (a as i32).clamp(-128, 127) as u64),
        case("cvt.sat.u8.s32 %d, %a;", B32, |a, _, _| (a as i32).clamp(0, 255) as u64),
        case("cvt.sat.u8.u32 %d, %a;", B32, |a, _, _| u64::from((a as u32).min(255))),
        case("cvt.sat.s32.u32 %d, %a;", B32, |a, _, _| u64::from((a as u32).min(i32::MAX as u32))),
        case("cvt.sat.u32.s32 %d, %a;", B32, |a, _, _| (a as i32).max(0) as u64),
        case("cvt.sat.s32.s64 %d, %al;", B32, |a, _, _| {
            (a as i64).clamp(i32::MIN.into(), i32::MAX.into()) as u64
        }),
    ]);
}

#[test]
fn integers_become_floats() {
    check(&[
        case("cvt.rn.f32.s32 %d, %a;", B32, |a, _, _| (a as i32 as f32).to_bits().into()),
        case("cvt.rn.f32.u32 %d, %a;", B32, |a, _, _| (a as u32 as f32).to_bits().into()),
        case("cvt.rn.f32.s64 %d, %al;", B32, |a, _, _| (a as i64 as f32).to_bits().into()),
        case("cvt.rn.f32.u64 %d, %al;", B32, |a, _, _| (a as f32).to_bits().into()),
        case("cvt.rn.f32.u8 %d, %a;", B32, |a, _, _| f32::from(a as u8).to_bits().into()),
        case("cvt.rn.f32.s16 %d, %ah;", B32, |a, _, _| f32::from(a as i16).to_bits().into()),
        case("cvt.rn.f64.s32 %dl, %a;", B64, |a, _, _| f64::from(a as i32).to_bits()),
        case("cvt.rn.f64.u64 %dl, %al;", B64, |a, _, _| (a as f64).to_bits()),
        case("cvt.rn.f64.s64 %dl, %al;", B64, |a, _, _| (a as i64 as f64).to_bits()),
        // Down is below or at the value, and its successor is above.
        case("cvt.rm.f32.s32 %d, %a;", B32, |a, _, _| {
            let exact = f64::from(a as i32);
            let near = exact as f32;
            let down = if f64::from(near) > exact { near.next_down() } else { near };
            down.to_bits().into()
        }),
        case("cvt.rp.f32.u64 %d, %al;", B32, |a, _, _| {
            let near = a as f32;
            let up = if (near as u128) < u128::from(a) { near.next_up() } else { near };
            up.to_bits().into()
        }),
    ]);
}

/// Floats of 32 bits at limits, ties and specials; `%al` takes the same bits as f64.
fn f32_operands() -> Vec<u64> {
    let values = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        0.999_999_94,
        -2.7,
        127.5,
        255.5,
        65504.0,
        65519.9,
        65520.0,
        1e-8,
        6.1e-5,
        2.147_483_5e9,
        2.147_483_6e9,
        4.294_967_3e9,
        -3e9,
        1e19,
        1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-45,
    ];
    values.map(|value: f32| value.to_bits().into()).to_vec()
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[test]
fn floats_become_integers() {
    let operands = f32_operands();
    // Casts of Rust round to zero and saturate, as the instruction does.
    let cases = [
        case("cvt.rzi.s32.f32 %d, %a;", B32, |a, _, _| f(a) as i32 as u64),
        case("cvt.rzi.u32.f32 %d, %a;", B32, |a, _, _| u64::from(f(a) as u32)),
        case("cvt.rzi.s64.f32 %dl, %a;", B64, |a, _, _| f(a) as i64 as u64),
        case("cvt.rzi.u64.f32 %dl, %a;", B64, |a, _, _| f(a) as u64),
        case("cvt.rni.s32.f32 %d, %a;", B32, |a, _, _| f(a).round_ties_even() as i32 as u64),
        case("cvt.rmi.s32.f32 %d, %a;", B32, |a, _, _| f(a).floor() as i32 as u64),
        case("cvt.rpi.s32.f32 %d, %a;", B32, |a, _, _| f(a).ceil() as i32 as u64),
        case("cvt.rzi.s16.f32 %dh, %a;", B16, |a, _, _| f(a) as i16 as u64),
        case("cvt.rzi.u8.f32 %d, %a;", B32, |a, _, _| u64::from(f(a) as u8)),
        case("cvt.f64.f32 %dl, %a; cvt.rni.s64.f64 %dl, %dl;", B64, |a, _, _| {
            f64::from(f(a)).round_ties_even() as i64 as u64
        }),
        // Whole floats of their own type.
        case("cvt.rni.f32.f32 %d, %a;", B32, |a, _, _| f(a).round_ties_even().to_bits().into()),
        case("cvt.rzi.f32.f32 %d, %a;", B32, |a, _, _| f(a).trunc().to_bits().into()),
        case("cvt.rmi.ftz.f32.f32 %d, %a;", B32, |a, _, _| {
            let a = f(a);
            let flushed = if a.is_subnormal() { 0.0_f32.copysign(a) } else { a };
            flushed.floor().to_bits().into()
        }),
        case("cvt.sat.f32.f32 %d, %a;", B32, |a, _, _| f(a).clamp(0.0, 1.0).abs().to_bits().into()),
    ];
    for operand in &operands {
        check_over(&cases, &[*operand]);
    }
    // What is no number: 0, and for 64 bits the top bit alone.
    let nan = u64::from(f32::NAN.to_bits());
    check_over(
        &[
            case("cvt.rzi.s32.f32 %d, %a;", B32, |_, _, _| 0),
            case("cvt.rzi.s64.f32 %dl, %a;", B64, |_, _, _| 1 << 63),
            case("cvt.sat.f32.f32 %d, %a;", B32, |_, _, _| 0),
        ],
        &[nan],
    );
}

/// The value of a half, from its definition.
fn half_value(bits: u64) -> f64 {
    let (exponent, fraction) = ((bits >> 10 & 31) as i32, (bits & 1023) as f64);
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 & 1 == 1 { -magnitude } else { magnitude }
}

/// The half next to a value, ties to even, by looking at all of them.
fn nearest_half(value: f64) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    // From half way past the greatest on, infinity is the nearest.
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    let distance = |bits: &u64| (half_value(*bits) - magnitude).abs();
    let nearest = (0..0x7c00_u64)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    sign | nearest.unwrap()
}

#[test]
fn floats_change_their_format() {
    let cases = [
        case("cvt.rn.f16.f32 %dh, %a;", B16, |a, _, _| nearest_half(f(a).into())),
        case("cvt.f64.f32 %dl, %a;", B64, |a, _, _| f64::from(f(a)).to_bits()),
        case("cvt.f64.f32 %dl, %a; cvt.rn.f32.f64 %d, %dl;", B32, |a, _, _| a),
        // The lower bits of an f32 decide, ties to even.
        case("cvt.rn.bf16.f32 %dh, %a;", B16, |a, _, _| {
            let (upper, lower) = (a >> 16, a & 0xffff);
            upper + u64::from(lower > 0x8000 || (lower == 0x8000 && upper & 1 == 1))
        }),
        case("cvt.rz.bf16.f32 %dh, %a;", B16, |a, _, _| a >> 16),
        case("cvt.rn.relu.f16.f32 %dh, %a;", B16, |a, _, _| {
            if f(a) < 0.0 { 0 } else { nearest_half(f(a).into()) }
        }),
        case("cvt.rn.f16x2.f32 %d, %a, %b;", B32, |a, b, _| {
            nearest_half(f(a).into()) << 16 | nearest_half(f(b).into())
        }),
        case("cvt.f64.f32 %dl, %a; cvt.rn.ftz.f32.f64 %d, %dl;", B32, |a, _, _| {
            if f(a).is_subnormal() { a & 1 << 31 } else { a }
        }),
    ];
    for operand in f32_operands() {
        check_over(&cases, &[operand]);
    }
    check_over(
        &[case("cvt.f32.f16 %d, %ah;", B32, |a, _, _| {
            let value = half_value(a & 0xffff) as f32;
            if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
        })],
        &OPERANDS[..8],
    );
    check_over(
        &[case("cvt.f32.bf16 %d, %ah;", B32, |a, _, _| (a & 0xffff) << 16)],
        &[0x3f80, 0xbf80, 0x0001, 0x7f80],
    );
}
