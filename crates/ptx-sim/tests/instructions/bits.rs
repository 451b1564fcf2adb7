//! Logic, shifts, fields, counts, bytes.

use super::Out::{B16, B32, B64};
use super::{case, check};

#[test]
fn logic() {
    check(&[
        case("and.b32 %d, %a, %b;", B32, |a, b, _| a & b),
        case("or.b64 %dl, %al, %bl;", B64, |a, b, _| a | b),
        case("xor.b16 %dh, %ah, %bh;", B16, |a, b, _| a ^ b),
        case("not.b32 %d, %a;", B32, |a, _, _| !a),
        case("not.b64 %dl, %al;", B64, |a, _, _| !a),
        case("cnot.b32 %d, %a;", B32, |a, _, _| u64::from(a as u32 == 0)),
        // The table of (a & b) | (~a & c), and of a ^ b ^ c.
        case("lop3.b32 %d, %a, %b, %c, 0xCA;", B32, |a, b, c| (a & b) | (!a & c)),
        case("lop3.b32 %d, %a, %b, %c, 0x96;", B32, |a, b, c| a ^ b ^ c),
        case("lop3.b32 %d, %a, %b, %c, 0x08;", B32, |a, b, c| !a & b & c),
    ]);
}

#[test]
fn logic_of_predicates() {
    check(&[
        case(
            "setp.lt.s32 %q, %a, %b; and.pred %q, %q, %p; selp.u32 %d, 1, 0, %q;",
            B32,
            |a, b, c| u64::from((a as i32) < b as i32 && c & 1 == 1),
        ),
        case(
            "setp.lt.s32 %q, %a, %b; or.pred %q, %q, %p; selp.u32 %d, 1, 0, %q;",
            B32,
            |a, b, c| u64::from((a as i32) < b as i32 || c & 1 == 1),
        ),
        case(
            "setp.lt.s32 %q, %a, %b; xor.pred %q, %q, %p; selp.u32 %d, 1, 0, %q;",
            B32,
            |a, b, c| u64::from(((a as i32) < b as i32) != (c & 1 == 1)),
        ),
        case("not.pred %q, %p; selp.u32 %d, 1, 0, %q;", B32, |_, _, c| u64::from(c & 1 == 0)),
        case("mov.pred %q, %p; selp.u32 %d, 1, 0, !%q;", B32, |_, _, c| u64::from(c & 1 == 0)),
        case("mov.pred %q, -1; selp.u32 %d, 1, 0, %q;", B32, |_, _, _| 1),
        case("mov.pred %q, 0; selp.u32 %d, 1, 0, %q;", B32, |_, _, _| 0),
        // A guard leaves the register alone where it fails.
        case("mov.u32 %d, %a; @!%p mov.u32 %d, %b;", B32, |a, b, c| if c & 1 == 0 { b } else { a }),
    ]);
}

#[test]
fn shifts_are_clamped_to_the_width() {
    check(&[
        case("shl.b32 %d, %a, %b;", B32, |a, b, _| {
            (a as u32).checked_shl(b as u32).unwrap_or(0).into()
        }),
        case("shl.b64 %dl, %al, %b;", B64, |a, b, _| a.checked_shl(b as u32).unwrap_or(0)),
        case("shl.b16 %dh, %ah, 5;", B16, |a, _, _| a << 5),
        case("shl.b16 %dh, %ah, 16;", B16, |_, _, _| 0),
        case("shr.u32 %d, %a, %b;", B32, |a, b, _| {
            (a as u32).checked_shr(b as u32).unwrap_or(0).into()
        }),
        case("shr.s32 %d, %a, %b;", B32, |a, b, _| ((a as i32) >> (b as u32).min(31)) as u64),
        case("shr.b32 %d, %a, 4;", B32, |a, _, _| u64::from(a as u32 >> 4)),
        case("shr.u64 %dl, %al, %b;", B64, |a, b, _| a.checked_shr(b as u32).unwrap_or(0)),
        case("shr.s64 %dl, %al, %b;", B64, |a, b, _| ((a as i64) >> (b as u32).min(63)) as u64),
        case("shr.s16 %dh, %ah, 20;", B16, |a, _, _| if a & 0x8000 == 0 { 0 } else { u64::MAX }),
        case("shr.u16 %dh, %ah, 3;", B16, |a, _, _| u64::from(a as u16 >> 3)),
    ]);
}

#[test]
fn funnel_shifts() {
    fn joined(a: u64, b: u64) -> u128 {
        u128::from(a as u32) | u128::from(b as u32) << 32
    }
    check(&[
        case("shf.l.wrap.b32 %d, %a, %b, %c;", B32, |a, b, c| {
            ((joined(a, b) << (c & 31)) >> 32) as u64
        }),
        case("shf.l.clamp.b32 %d, %a, %b, %c;", B32, |a, b, c| {
            ((joined(a, b) << (c as u32).min(32)) >> 32) as u64
        }),
        case("shf.r.wrap.b32 %d, %a, %b, %c;", B32, |a, b, c| (joined(a, b) >> (c & 31)) as u64),
        case("shf.r.clamp.b32 %d, %a, %b, %c;", B32, |a, b, c| {
            (joined(a, b) >> (c as u32).min(32)) as u64
        }),
    ]);
}

#[test]
fn counts_and_positions() {
    check(&[
        case("popc.b32 %d, %a;", B32, |a, _, _| (a as u32).count_ones().into()),
        case("popc.b64 %d, %al;", B32, |a, _, _| a.count_ones().into()),
        case("clz.b32 %d, %a;", B32, |a, _, _| (a as u32).leading_zeros().into()),
        case("clz.b64 %d, %al;", B32, |a, _, _| a.leading_zeros().into()),
        case("brev.b32 %d, %a;", B32, |a, _, _| (a as u32).reverse_bits().into()),
        case("brev.b64 %dl, %al;", B64, |a, _, _| a.reverse_bits()),
        case("bfind.u32 %d, %a;", B32, |a, _, _| {
            (a as u32).checked_ilog2().map_or(u64::MAX, u64::from)
        }),
        case("bfind.u64 %d, %al;", B32, |a, _, _| a.checked_ilog2().map_or(u64::MAX, u64::from)),
        // Of a negative number the highest clear bit counts.
        case("bfind.s32 %d, %a;", B32, |a, _, _| {
            let a = a as i32;
            let bits = if a < 0 { !a } else { a } as u32;
            bits.checked_ilog2().map_or(u64::MAX, u64::from)
        }),
        case("bfind.shiftamt.u32 %d, %a;", B32, |a, _, _| {
            (a as u32).checked_ilog2().map_or(u64::MAX, |bit| u64::from(31 - bit))
        }),
        case("bfind.shiftamt.s64 %d, %al;", B32, |a, _, _| {
            let a = a as i64;
            let bits = if a < 0 { !a } else { a } as u64;
            bits.checked_ilog2().map_or(u64::MAX, |bit| u64::from(63 - bit))
        }),
    ]);
}

/// The pseudo-code of the PTX ISA for `bfe`, bit by bit.
fn extract(a: u64, start: u64, length: u64, width: u64, signed: bool) -> u64 {
    let (start, length) = (start & 255, length & 255);
    let bit = |at: u64| a >> at & 1;
    let sign = if signed && length > 0 { bit((start + length - 1).min(width - 1)) } else { 0 };
    (0..width).fold(0, |out, i| {
        let value = if i < length && start + i < width { bit(start + i) } else { sign };
        out | value << i
    })
}

/// The pseudo-code of the PTX ISA for `bfi`.
fn insert(a: u64, b: u64, start: u64, length: u64, width: u64) -> u64 {
    let (start, length) = (start & 255, length & 255);
    (0..width).fold(0, |out, i| {
        let inside = i >= start && i < start + length;
        out | (if inside { a >> (i - start) & 1 } else { b >> i & 1 }) << i
    })
}

#[test]
fn fields() {
    check(&[
        case("bfe.u32 %d, %a, %b, %c;", B32, |a, b, c| extract(a, b, c, 32, false)),
        case("bfe.s32 %d, %a, %b, %c;", B32, |a, b, c| extract(a, b, c, 32, true)),
        case("bfe.u64 %dl, %al, %b, %c;", B64, |a, b, c| extract(a, b, c, 64, false)),
        case("bfe.s64 %dl, %al, %b, %c;", B64, |a, b, c| extract(a, b, c, 64, true)),
        case("bfe.s32 %d, %a, 7, 9;", B32, |a, _, _| extract(a, 7, 9, 32, true)),
        case("bfi.b32 %d, %a, %b, %c, 7;", B32, |a, b, c| insert(a, b, c, 7, 32)),
        case("bfi.b32 %d, %a, %b, 3, %c;", B32, |a, b, c| insert(a, b, 3, c, 32)),
        case("bfi.b64 %dl, %al, %bl, 40, %c;", B64, |a, b, c| insert(a, b, 40, c, 64)),
        case("bmsk.clamp.b32 %d, %a, %b;", B32, |a, b, _| {
            insert(u64::MAX, 0, (a as u32).min(32).into(), (b as u32).min(32).into(), 32)
        }),
        case("bmsk.wrap.b32 %d, %a, %b;", B32, |a, b, _| insert(u64::MAX, 0, a & 31, b & 31, 32)),
        case("szext.clamp.u32 %d, %a, %b;", B32, |a, b, _| {
            extract(a, 0, (b as u32).min(32).into(), 32, false)
        }),
        case("szext.clamp.s32 %d, %a, %b;", B32, |a, b, _| {
            extract(a, 0, (b as u32).min(32).into(), 32, true)
        }),
    ]);
}

/// The pseudo-code of the PTX ISA for `fns`.
fn nth_set(mask: u64, base: u64, offset: i32) -> u64 {
    let set = |at: i32| mask >> at & 1 == 1;
    let base = base as i32;
    if offset == 0 {
        return if set(base) { base as u64 } else { u64::MAX };
    }
    let (mut at, mut count) = (base, offset.abs() - 1);
    while (0..32).contains(&at) {
        if set(at) && count == 0 {
            return at as u64;
        }
        count -= i32::from(set(at));
        at += offset.signum();
    }
    u64::MAX
}

#[test]
fn the_nth_set_bit() {
    check(&[
        case("fns.b32 %d, %a, 4, 2;", B32, |a, _, _| nth_set(a, 4, 2)),
        case("fns.b32 %d, %a, 30, -3;", B32, |a, _, _| nth_set(a, 30, -3)),
        case("and.b32 %s, %b, 31; fns.b32 %d, %a, %s, 0;", B32, |a, b, _| nth_set(a, b & 31, 0)),
    ]);
}

/// Bytes of `b:a` that four selectors name, the highest first.
fn bytes(a: u64, b: u64, selectors: [u64; 4]) -> u64 {
    let joined = u64::from(a as u32) | u64::from(b as u32) << 32;
    selectors.iter().fold(0, |out, selector| {
        let byte = joined >> (8 * (selector & 7)) & 0xff;
        let byte = if selector & 8 == 0 { byte } else { 0xff * (byte >> 7) };
        out << 8 | byte
    })
}

#[test]
fn bytes_are_permuted() {
    check(&[
        case("prmt.b32 %d, %a, %b, %c;", B32, |a, b, c| {
            bytes(a, b, [c >> 12 & 15, c >> 8 & 15, c >> 4 & 15, c & 15])
        }),
        case("prmt.b32 %d, %a, %b, 0x9F42;", B32, |a, b, _| bytes(a, b, [9, 15, 4, 2])),
        case("prmt.b32.f4e %d, %a, %b, %c;", B32, |a, b, c| {
            let c = c & 3;
            bytes(a, b, [c + 3, c + 2, c + 1, c])
        }),
        case("prmt.b32.b4e %d, %a, %b, %c;", B32, |a, b, c| {
            bytes(a, b, [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]][(c & 3) as usize])
        }),
        case("prmt.b32.rc8 %d, %a, %b, %c;", B32, |a, b, c| bytes(a, b, [c & 3; 4])),
        case("prmt.b32.ecl %d, %a, %b, %c;", B32, |a, b, c| {
            bytes(a, b, [3, 2, 1, 0].map(|byte| byte.max(c & 3)))
        }),
        case("prmt.b32.ecr %d, %a, %b, %c;", B32, |a, b, c| {
            bytes(a, b, [3, 2, 1, 0].map(|byte| byte.min(c & 3)))
        }),
        case("prmt.b32.rc16 %d, %a, %b, %c;", B32, |a, b, c| {
            let c = 2 * (c & 1);
            bytes(a, b, [c + 1, c, c + 1, c])
        }),
    ]);
}
