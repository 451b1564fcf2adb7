//! Bits: logic, shifts, fields, counts, bytes (PTX ISA, "Logic and Shift Instructions"; `popc` to `bmsk`;
//! `prmt`).

use super::{Lane, Map, map, map_integers};
use crate::types::ScalarType as S;

/// `and`, `or`, `xor`; `not` and `cnot` take their operand twice.
pub(crate) fn logic(name: &str, ty: S) -> Option<Map<2>> {
    if !matches!(ty, S::B16 | S::B32 | S::B64) {
        return None;
    }
    match name {
        "and" => map_integers!(ty, |a, b| a & b),
        "or" => map_integers!(ty, |a, b| a | b),
        "xor" => map_integers!(ty, |a, b| a ^ b),
        "not" => map_integers!(ty, |a, _b| !a),
        "cnot" => map_integers!(ty, |a, _b| T::from(a == 0)),
        _ => None,
    }
}

/// `lop3`: bit `4a + 2b + c` of the table, for each bit of the operands.
pub(crate) fn logic3() -> Map<4> {
    map!(|a: u32, b: u32, c: u32, table: u32| {
        let mut out = 0;
        for row in 0..8 {
            let wants = |bits: u32, place: u32| if row & place == 0 { !bits } else { bits };
            let rows = wants(a, 4) & wants(b, 2) & wants(c, 1);
            out |= rows & 0_u32.wrapping_sub((table >> row) & 1);
        }
        out
    })
}

/// `shl`, `shr`. The amount is 32 bits wide and clamped to the width of the type.
pub(crate) fn shift(name: &str, ty: S) -> Option<Map<2>> {
    Some(match (name, ty) {
        ("shl", S::B16) => map!(|a: u16, n: u32| a.checked_shl(n).unwrap_or(0)),
        ("shl", S::B32) => map!(|a: u32, n: u32| a.checked_shl(n).unwrap_or(0)),
        ("shl", S::B64) => map!(|a: u64, n: u32| a.checked_shl(n).unwrap_or(0)),
        ("shr", S::B16 | S::U16) => map!(|a: u16, n: u32| a.checked_shr(n).unwrap_or(0)),
        ("shr", S::B32 | S::U32) => map!(|a: u32, n: u32| a.checked_shr(n).unwrap_or(0)),
        ("shr", S::B64 | S::U64) => map!(|a: u64, n: u32| a.checked_shr(n).unwrap_or(0)),
        ("shr", S::S16) => map!(|a: i16, n: u32| a >> n.min(15)),
        ("shr", S::S32) => map!(|a: i32, n: u32| a >> n.min(31)),
        ("shr", S::S64) => map!(|a: i64, n: u32| a >> n.min(63)),
        _ => return None,
    })
}

/// `shf`: 32 bits of `b:a` shifted; `clamp` limits the amount to 32, else it wraps there.
pub(crate) fn shift_funnel(left: bool, clamp: bool) -> Map<3> {
    match (left, clamp) {
        (true, true) => map!(|a: u32, b: u32, n: u32| funnel_left(a, b, n.min(32))),
        (true, false) => map!(|a: u32, b: u32, n: u32| funnel_left(a, b, n & 31)),
        (false, true) => map!(|a: u32, b: u32, n: u32| funnel_right(a, b, n.min(32))),
        (false, false) => map!(|a: u32, b: u32, n: u32| funnel_right(a, b, n & 31)),
    }
}

fn joined(a: u32, b: u32) -> u64 {
    u64::from(b) << 32 | u64::from(a)
}

fn funnel_left(a: u32, b: u32, amount: u32) -> u32 {
    u32::read((joined(a, b) << amount) >> 32)
}

fn funnel_right(a: u32, b: u32, amount: u32) -> u32 {
    u32::read(joined(a, b) >> amount)
}

/// Instructions over bits, by name with what changes their meaning. Operands that a form lacks are
/// given twice.
pub(crate) fn bit_map(name: &str, ty: S) -> Option<Map<4>> {
    Some(match (name, ty) {
        ("popc", S::B32) => map!(|a: u32, _b: u32, _c: u32, _d: u32| a.count_ones()),
        ("popc", S::B64) => map!(|a: u64, _b: u32, _c: u32, _d: u32| a.count_ones()),
        ("clz", S::B32) => map!(|a: u32, _b: u32, _c: u32, _d: u32| a.leading_zeros()),
        ("clz", S::B64) => map!(|a: u64, _b: u32, _c: u32, _d: u32| a.leading_zeros()),
        ("brev", S::B32) => map!(|a: u32, _b: u32, _c: u32, _d: u32| a.reverse_bits()),
        ("brev", S::B64) => map!(|a: u64, _b: u32, _c: u32, _d: u32| a.reverse_bits()),
        ("bfind", S::U32) => map!(|a: u32, _b: u32, _c: u32, _d: u32| top_bit(u64::from(a))),
        ("bfind", S::U64) => map!(|a: u64, _b: u32, _c: u32, _d: u32| top_bit(a)),
        ("bfind", S::S32) => {
            map!(|a: i32, _b: u32, _c: u32, _d: u32| top_bit(u64::read((a ^ (a >> 31)).write())))
        }
        ("bfind", S::S64) => {
            map!(|a: i64, _b: u32, _c: u32, _d: u32| top_bit((a ^ (a >> 63)).cast_unsigned()))
        }
        ("bfind.shiftamt", S::U32) => {
            map!(|a: u32, _b: u32, _c: u32, _d: u32| shift_amount(top_bit(u64::from(a)), 31))
        }
        ("bfind.shiftamt", S::U64) => {
            map!(|a: u64, _b: u32, _c: u32, _d: u32| shift_amount(top_bit(a), 63))
        }
        ("bfind.shiftamt", S::S32) => map!(|a: i32, _b: u32, _c: u32, _d: u32| {
            shift_amount(top_bit((a ^ (a >> 31)).write()), 31)
        }),
        ("bfind.shiftamt", S::S64) => map!(|a: i64, _b: u32, _c: u32, _d: u32| {
            shift_amount(top_bit((a ^ (a >> 63)).write()), 63)
        }),
        ("bfe", S::U32) => {
            map!(|a: u32, start: u32, length: u32, _d: u32| u32::read(field(
                u64::from(a),
                start,
                length
            )))
        }
        ("bfe", S::U64) => map!(|a: u64, start: u32, length: u32, _d: u32| field(a, start, length)),
        ("bfe", S::S32) => map!(|a: i32, start: u32, length: u32, _d: u32| {
            <i32 as Lane>::read(field_signed(a.into(), start, length, 32).cast_unsigned())
        }),
        ("bfe", S::S64) => {
            map!(|a: i64, start: u32, length: u32, _d: u32| field_signed(a, start, length, 64))
        }
        ("bfi", S::B32) => map!(|a: u32, b: u32, start: u32, length: u32| {
            u32::read(insert(u64::from(a), u64::from(b), start, length))
        }),
        ("bfi", S::B64) => {
            map!(|a: u64, b: u64, start: u32, length: u32| insert(a, b, start, length))
        }
        ("bmsk.clamp", S::B32) => map!(|a: u32, b: u32, _c: u32, _d: u32| {
            u32::read(low_bits(b.min(32)).checked_shl(a).unwrap_or(0))
        }),
        ("bmsk.wrap", S::B32) => {
            map!(|a: u32, b: u32, _c: u32, _d: u32| u32::read(low_bits(b & 31) << (a & 31)))
        }
        ("szext.clamp", S::U32) => {
            map!(|a: u32, b: u32, _c: u32, _d: u32| u32::read(u64::from(a) & low_bits(b.min(32))))
        }
        ("szext.clamp", S::S32) => map!(|a: i32, b: u32, _c: u32, _d: u32| match b {
            0 => 0,
            1..32 => (a << (32 - b)) >> (32 - b),
            _ => a,
        }),
        ("fns", S::B32) => map!(|mask: u32, base: u32, nth: i32, _d: u32| nth_set(mask, base, nth)),
        _ => return None,
    })
}

/// Index of the highest set bit, or all ones for none.
fn top_bit(value: u64) -> u32 {
    63_u32.wrapping_sub(value.leading_zeros())
}

/// How far left the bit must go to reach the top; all ones stay.
fn shift_amount(bit: u32, top: u32) -> u32 {
    if bit == u32::MAX { bit } else { top - bit }
}

fn low_bits(count: u32) -> u64 {
    1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}

/// Start and length of fields are taken modulo 256.
fn field(a: u64, start: u32, length: u32) -> u64 {
    a.checked_shr(start & 255).unwrap_or(0) & low_bits(length & 255)
}

/// The sign bit fills what lies above the field, and above the value.
fn field_signed(a: i64, start: u32, length: u32, width: u32) -> i64 {
    let (start, length) = (start & 255, length & 255);
    if length == 0 {
        return 0;
    }
    let moved = a >> start.min(width - 1);
    if length >= width { moved } else { (moved << (64 - length)) >> (64 - length) }
}

fn insert(a: u64, b: u64, start: u32, length: u32) -> u64 {
    let mask = low_bits(length & 255).checked_shl(start & 255).unwrap_or(0);
    let moved = a.checked_shl(start & 255).unwrap_or(0);
    (b & !mask) | (moved & mask)
}

/// The `nth` set bit of `mask` from `base` upwards, or downwards if negative; all ones for none.
fn nth_set(mask: u32, base: u32, nth: i32) -> u32 {
    let base = base & 31;
    if nth == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = nth.unsigned_abs();
    let mut bit = i64::from(base);
    while (0..32).contains(&bit) {
        left -= mask >> bit & 1;
        if left == 0 {
            return u32::read(bit.write());
        }
        bit += i64::from(nth.signum());
    }
    u32::MAX
}

/// `prmt` by its mode; the default mode is the empty name.
pub(crate) fn byte_permute(mode: &str) -> Option<Map<3>> {
    Some(match mode {
        "" => map!(|a: u32, b: u32, c: u32| permute(a, b, c)),
        "f4e" => map!(|a: u32, b: u32, c: u32| permute(a, b, 0x3210 + 0x1111 * (c & 3))),
        // Backwards from byte n: n, n-1, n-2, n-3, counted in eight bytes.
        "b4e" => map!(|a: u32, b: u32, c: u32| {
            permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][(c & 3) as usize])
        }),
        "rc8" => map!(|a: u32, b: u32, c: u32| permute(a, b, 0x1111 * (c & 3))),
        "ecl" => map!(|a: u32, b: u32, c: u32| {
            permute(a, b, [0x3210, 0x3211, 0x3222, 0x3333][(c & 3) as usize])
        }),
        "ecr" => map!(|a: u32, b: u32, c: u32| {
            permute(a, b, [0x0000, 0x1110, 0x2210, 0x3210][(c & 3) as usize])
        }),
        "rc16" => map!(|a: u32, b: u32, c: u32| {
            permute(a, b, if c & 1 == 0 { 0x1010 } else { 0x3232 })
        }),
        _ => return None,
    })
}

/// Four selectors of four bits: which byte, and whether its sign is replicated instead.
fn permute(a: u32, b: u32, selectors: u32) -> u32 {
    let bytes = joined(a, b).to_le_bytes();
    u32::from_le_bytes([0, 4, 8, 12].map(|shift| {
        let selector = selectors >> shift;
        let byte = bytes[(selector & 7) as usize];
        if selector & 8 == 0 { byte } else { 0_u8.wrapping_sub(byte >> 7) }
    }))
}
