//! Integer arithmetic and comparisons.

use super::Out::{B16, B32, B64};
use super::{case, check};

#[test]
fn sums_differences_and_products() {
    check(&[
        case("add.s32 %d, %a, %b;", B32, |a, b, _| a.wrapping_add(b)),
        case("add.u64 %dl, %al, %bl;", B64, |a, b, _| a.wrapping_add(b)),
        case("add.s16 %dh, %ah, -3;", B16, |a, _, _| a.wrapping_sub(3)),
        case("sub.s32 %d, %a, %b;", B32, |a, b, _| a.wrapping_sub(b)),
        case("sub.s64 %dl, %al, %bl;", B64, |a, b, _| a.wrapping_sub(b)),
        case("add.sat.s32 %d, %a, %b;", B32, |a, b, _| (a as i32).saturating_add(b as i32) as u64),
        case("sub.sat.s32 %d, %a, %b;", B32, |a, b, _| (a as i32).saturating_sub(b as i32) as u64),
        case("mul.lo.s32 %d, %a, %b;", B32, |a, b, _| a.wrapping_mul(b)),
        case("mul.lo.u64 %dl, %al, %bl;", B64, |a, b, _| a.wrapping_mul(b)),
        case("mul.lo.s16 %dh, %ah, %bh;", B16, |a, b, _| a.wrapping_mul(b)),
        case("mul.hi.u32 %d, %a, %b;", B32, |a, b, _| {
            (u64::from(a as u32) * u64::from(b as u32)) >> 32
        }),
        case("mul.hi.s32 %d, %a, %b;", B32, |a, b, _| {
            ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u64
        }),
        case("mul.hi.u64 %dl, %al, %bl;", B64, |a, b, _| {
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        }),
        case("mul.hi.s64 %dl, %al, %bl;", B64, |a, b, _| {
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        }),
        case("mul.hi.u16 %dh, %ah, %bh;", B16, |a, b, _| {
            (u64::from(a as u16) * u64::from(b as u16)) >> 16
        }),
        case("mul.hi.s16 %dh, %ah, %bh;", B16, |a, b, _| {
            ((i64::from(a as i16) * i64::from(b as i16)) >> 16) as u64
        }),
        case("mul.wide.u32 %dl, %a, %b;", B64, |a, b, _| u64::from(a as u32) * u64::from(b as u32)),
        case("mul.wide.s32 %dl, %a, %b;", B64, |a, b, _| {
            (i64::from(a as i32) * i64::from(b as i32)) as u64
        }),
        case("mul.wide.u16 %d, %ah, %bh;", B32, |a, b, _| {
            u64::from(a as u16) * u64::from(b as u16)
        }),
        case("mul.wide.s16 %d, %ah, %bh;", B32, |a, b, _| {
            (i64::from(a as i16) * i64::from(b as i16)) as u64
        }),
        case("mul24.lo.u32 %d, %a, %b;", B32, |a, b, _| (a & 0xff_ffff) * (b & 0xff_ffff)),
        case("mul24.lo.s32 %d, %a, %b;", B32, |a, b, _| {
            let sign = |x: u64| ((x << 40) as i64) >> 40;
            (sign(a) * sign(b)) as u64
        }),
    ]);
}

#[test]
fn products_with_a_sum() {
    check(&[
        case("mad.lo.s32 %d, %a, %b, %c;", B32, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        case("mad.lo.u64 %dl, %al, %bl, %cl;", B64, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        case("mad.lo.u16 %dh, %ah, %bh, %ch;", B16, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        case("mad.hi.s32 %d, %a, %b, %c;", B32, |a, b, c| {
            c.wrapping_add(((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u64)
        }),
        case("mad.hi.u64 %dl, %al, %bl, %cl;", B64, |a, b, c| {
            c.wrapping_add(((u128::from(a) * u128::from(b)) >> 64) as u64)
        }),
        case("mad.wide.u32 %dl, %a, %b, %cl;", B64, |a, b, c| {
            c.wrapping_add(u64::from(a as u32) * u64::from(b as u32))
        }),
        case("mad.wide.s16 %d, %ah, %bh, %c;", B32, |a, b, c| {
            c.wrapping_add((i64::from(a as i16) * i64::from(b as i16)) as u64)
        }),
        case("mad24.lo.u32 %d, %a, %b, %c;", B32, |a, b, c| {
            ((a & 0xff_ffff) * (b & 0xff_ffff)).wrapping_add(c)
        }),
        case("sad.u32 %d, %a, %b, %c;", B32, |a, b, c| {
            u64::from((a as u32).abs_diff(b as u32)).wrapping_add(c)
        }),
        case("sad.s32 %d, %a, %b, %c;", B32, |a, b, c| {
            u64::from((a as i32).abs_diff(b as i32)).wrapping_add(c)
        }),
    ]);
}

/// Each of these adds or subtracts 128 bits in four steps of 32, or 64 in two.
#[test]
fn carries_pass_from_one_instruction_to_the_next() {
    check(&[
        case(
            "{ .reg .b32 %al0, %al1, %bl0, %bl1, %x, %y;
               mov.b64 {%al0, %al1}, %al; mov.b64 {%bl0, %bl1}, %bl;
               add.cc.u32 %x, %al0, %bl0; addc.u32 %y, %al1, %bl1; mov.b64 %dl, {%x, %y}; }",
            B64,
            |a, b, _| a.wrapping_add(b),
        ),
        case(
            "{ .reg .b32 %al0, %al1, %bl0, %bl1, %x, %y;
               mov.b64 {%al0, %al1}, %al; mov.b64 {%bl0, %bl1}, %bl;
               sub.cc.u32 %x, %al0, %bl0; subc.u32 %y, %al1, %bl1; mov.b64 %dl, {%x, %y}; }",
            B64,
            |a, b, _| a.wrapping_sub(b),
        ),
        case(
            "add.cc.u64 %sl, %al, %bl; addc.cc.s64 %sl, %cl, -1; addc.u32 %d, 0, 0;",
            B32,
            |a, b, c| {
                let first = u128::from(a) + u128::from(b) > u128::from(u64::MAX);
                u64::from(
                    u128::from(c) + u128::from(u64::MAX) + u128::from(first) > u128::from(u64::MAX),
                )
            },
        ),
    ]);
}

#[test]
fn quotients_and_remainders() {
    check(&[
        // All bits set, and the dividend, are what the machine gives for a divisor of zero.
        case("div.u32 %d, %a, %b;", B32, |a, b, _| {
            (a as u32).checked_div(b as u32).unwrap_or(u32::MAX).into()
        }),
        case("div.s32 %d, %a, %b;", B32, |a, b, _| {
            if b as i32 == 0 { u64::MAX } else { (a as i32).wrapping_div(b as i32) as u64 }
        }),
        case("div.s64 %dl, %al, %bl;", B64, |a, b, _| {
            if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 }
        }),
        case("div.u64 %dl, %al, 7;", B64, |a, _, _| a / 7),
        case("div.u16 %dh, %ah, 10;", B16, |a, _, _| u64::from(a as u16 / 10)),
        case("rem.u32 %d, %a, %b;", B32, |a, b, _| {
            (a as u32).checked_rem(b as u32).unwrap_or(a as u32).into()
        }),
        case("rem.s32 %d, %a, %b;", B32, |a, b, _| {
            if b as i32 == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u64 }
        }),
        case("rem.s64 %dl, %al, %bl;", B64, |a, b, _| {
            if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 }
        }),
        case("rem.u64 %dl, %al, 1000;", B64, |a, _, _| a % 1000),
    ]);
}

#[test]
fn limits_and_signs() {
    check(&[
        case("min.s32 %d, %a, %b;", B32, |a, b, _| (a as i32).min(b as i32) as u64),
        case("max.s32 %d, %a, %b;", B32, |a, b, _| (a as i32).max(b as i32) as u64),
        case("min.u32 %d, %a, %b;", B32, |a, b, _| (a as u32).min(b as u32).into()),
        case("max.u32 %d, %a, %b;", B32, |a, b, _| (a as u32).max(b as u32).into()),
        case("min.s64 %dl, %al, %bl;", B64, |a, b, _| (a as i64).min(b as i64) as u64),
        case("max.u64 %dl, %al, %bl;", B64, |a, b, _| a.max(b)),
        case("min.s16 %dh, %ah, %bh;", B16, |a, b, _| (a as i16).min(b as i16) as u64),
        case("max.u16 %dh, %ah, %bh;", B16, |a, b, _| (a as u16).max(b as u16).into()),
        case("min.relu.s32 %d, %a, %b;", B32, |a, b, _| (a as i32).min(b as i32).max(0) as u64),
        case("abs.s32 %d, %a;", B32, |a, _, _| (a as i32).wrapping_abs() as u64),
        case("abs.s64 %dl, %al;", B64, |a, _, _| (a as i64).wrapping_abs() as u64),
        case("neg.s32 %d, %a;", B32, |a, _, _| a.wrapping_neg()),
        case("neg.s64 %dl, %al;", B64, |a, _, _| a.wrapping_neg()),
        case("neg.s16 %dh, %ah;", B16, |a, _, _| a.wrapping_neg()),
    ]);
}

macro_rules! comparisons {
    ($(($name:literal, $a:ident $op:tt $b:ident)),+) => {
        check(&[$(
            case(concat!("setp.", $name, ".s32 %q, %a, %b; selp.u32 %d, 1, 0, %q;"), B32, |a, b, _| {
                let ($a, $b) = (a as i32, b as i32);
                u64::from($a $op $b)
            }),
            case(concat!("setp.", $name, ".u32 %q, %a, %b; selp.u32 %d, 1, 0, %q;"), B32, |a, b, _| {
                let ($a, $b) = (a as u32, b as u32);
                u64::from($a $op $b)
            }),
            case(concat!("setp.", $name, ".s64 %q, %al, %bl; selp.b64 %dl, 1, 0, %q;"), B64, |a, b, _| {
                let ($a, $b) = (a as i64, b as i64);
                u64::from($a $op $b)
            }),
            case(concat!("setp.", $name, ".u64 %q, %al, %bl; selp.b64 %dl, 1, 0, %q;"), B64, |a, b, _| {
                let ($a, $b) = (a, b);
                u64::from($a $op $b)
            }),
            case(concat!("setp.", $name, ".s16 %q, %ah, %bh; selp.b16 %dh, 1, 0, %q;"), B16, |a, b, _| {
                let ($a, $b) = (a as i16, b as i16);
                u64::from($a $op $b)
            }),
            case(concat!("setp.", $name, ".u16 %q, %ah, %bh; selp.b16 %dh, 1, 0, %q;"), B16, |a, b, _| {
                let ($a, $b) = (a as u16, b as u16);
                u64::from($a $op $b)
            }),
            case(concat!("set.", $name, ".u32.s32 %d, %a, %b;"), B32, |a, b, _| {
                let ($a, $b) = (a as i32, b as i32);
                if $a $op $b { u64::MAX } else { 0 }
            }),
        )+]);
    };
}

#[test]
fn comparisons_of_all_types() {
    comparisons!(
        ("eq", x == y),
        ("ne", x != y),
        ("lt", x < y),
        ("le", x <= y),
        ("gt", x > y),
        ("ge", x >= y)
    );
    check(&[
        case("setp.lo.u32 %q, %a, %b; selp.u32 %d, 1, 0, %q;", B32, |a, b, _| {
            u64::from((a as u32) < b as u32)
        }),
        case("setp.hs.u64 %q, %al, %bl; selp.u32 %d, 1, 0, %q;", B32, |a, b, _| u64::from(a >= b)),
        case("setp.eq.b32 %q, %a, %b; selp.u32 %d, 1, 0, %q;", B32, |a, b, _| {
            u64::from(a as u32 == b as u32)
        }),
    ]);
}

#[test]
fn comparisons_join_predicates() {
    check(&[
        case("setp.lt.and.s32 %q, %a, %b, %p; selp.u32 %d, 5, 6, %q;", B32, |a, b, c| {
            if (a as i32) < b as i32 && c & 1 == 1 { 5 } else { 6 }
        }),
        case("setp.lt.or.s32 %q, %a, %b, !%p; selp.u32 %d, 5, 6, %q;", B32, |a, b, c| {
            if (a as i32) < b as i32 || c & 1 == 0 { 5 } else { 6 }
        }),
        // The second result is the comparison's opposite, joined alike.
        case(
            "{ .reg .pred %r; setp.lt.xor.s32 %q|%r, %a, %b, %p;
               selp.u32 %s, 1, 0, %q; selp.u32 %d, 2, 0, %r; or.b32 %d, %d, %s; }",
            B32,
            |a, b, c| {
                let (less, odd) = ((a as i32) < b as i32, c & 1 == 1);
                u64::from(less ^ odd) | u64::from(!less ^ odd) << 1
            },
        ),
    ]);
}
