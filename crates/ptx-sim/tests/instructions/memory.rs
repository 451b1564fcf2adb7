//! Loads, stores and atomics in every space, with registers wider than the types (PTX ISA 9.4.1).

use super::Out::{B16, B32, B64};
use super::{case, check};

/// Stored narrow, loaded signed and unsigned into registers of each width.
#[test]
fn loads_extend_and_stores_cut() {
    check(&[
        case(
            ".local .align 8 .b8 l[16]; st.local.u8 [l+3], %a; ld.local.s8 %d, [l+3];",
            B32,
            |a, _, _| a as i8 as u64,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u8 [l+3], %a; ld.local.u8 %d, [l+3];",
            B32,
            |a, _, _| a & 0xff,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u8 [l], %al; ld.local.s8 %dl, [l];",
            B64,
            |a, _, _| a as i8 as u64,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.b8 [l], %ah; ld.local.s8 %dh, [l];",
            B16,
            |a, _, _| a as i8 as u64,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u16 [l], %a; ld.local.s16 %d, [l];",
            B32,
            |a, _, _| a as i16 as u64,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u16 [l], %al; ld.local.s16 %dl, [l];",
            B64,
            |a, _, _| a as i16 as u64,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u16 [l], %al; ld.local.u16 %dl, [l];",
            B64,
            |a, _, _| a & 0xffff,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u32 [l+4], %al; ld.local.s32 %dl, [l+4];",
            B64,
            |a, _, _| a as i32 as u64,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.u32 [l+4], %al; ld.local.u32 %dl, [l+4];",
            B64,
            |a, _, _| a & 0xffff_ffff,
        ),
        case(
            ".local .align 8 .b8 l[16]; st.local.b32 [l+4], %a; ld.local.b32 %dl, [l+4];",
            B64,
            |a, _, _| a & 0xffff_ffff,
        ),
        // Of memory, where operands lie: `%at` is the address of a.
        case("ld.global.s32 %dl, [%at];", B64, |a, _, _| a as i32 as u64),
        case("ld.global.nc.s8 %dl, [%at+8];", B64, |_, b, _| b as i8 as u64),
        case("ld.global.s16 %d, [%at+16];", B32, |_, _, c| c as i16 as u64),
    ]);
}

#[test]
fn vectors_are_stored_and_loaded_in_every_space() {
    check(&[
        case(
            ".local .align 16 .b8 l[32]; st.local.v2.u64 [l+16], {%al, %bl}; ld.local.v4.u32 {_, _, %d, _}, [l+16];",
            B32,
            |_, b, _| b,
        ),
        case(
            ".local .align 16 .b8 l[32]; st.local.v4.u16 [l+8], {%ah, %bh, %ch, %ah}; ld.local.u64 %dl, [l+8];",
            B64,
            |a, b, c| {
                let [a, b, c] = [a, b, c].map(|x| x & 0xffff);
                a | b << 16 | c << 32 | a << 48
            },
        ),
        case(
            ".local .align 4 .b8 l[4]; st.local.v4.u8 [l], {%a, %b, %c, %a}; ld.local.v2.u16 {%sh, %dh}, [l];",
            B16,
            |a, _, c| (c & 0xff) | (a & 0xff) << 8,
        ),
        case("ld.v2.u32 {%s, %d}, [%at];", B32, |a, _, _| a >> 32),
        // 64 threads of a block, 16 bytes each.
        case(
            ".shared .align 16 .b8 s[1024]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 4; mov.u32 %d, s; add.s32 %s, %s, %d;
             st.shared.v4.b32 [%s], {%a, %b, %c, %a}; ld.shared.v2.b64 {%sl, %dl}, [%s];",
            B64,
            |a, _, c| c & 0xffff_ffff | a << 32,
        ),
        case(
            ".shared .align 16 .b8 s[1024]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 4; mov.u64 %sl, s; cvt.u64.u32 %dl, %s;
             add.s64 %sl, %sl, %dl; cvta.shared.u64 %sl, %sl; st.u64 [%sl+8], %bl; ld.u64 %dl, [%sl+8];",
            B64,
            |_, b, _| b,
        ),
        case(
            ".local .align 8 .b8 l[16]; mov.u64 %sl, l; cvta.local.u64 %sl, %sl; st.u64 [%sl+8], %al; ld.local.u64 %dl, [l+8];",
            B64,
            |a, _, _| a,
        ),
    ]);
}

macro_rules! atomics {
    ($(($op:literal, |$a:ident, $b:ident, $c:ident| $new:expr)),+) => {
        check(&[$(
            // The new value is in memory, and the old one is returned.
            case(
                concat!(".shared .align 8 .b8 s[1024]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 3; mov.u32 %d, s; add.s32 %s, %s, %d;
                    st.shared.u64 [%s], %al; atom.shared.", $op, "; ld.shared.u32 %d, [%s];"),
                B32,
                |$a, $b, $c| $new,
            ),
            case(
                concat!(".shared .align 8 .b8 s[1024]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 3; mov.u32 %d, s; add.s32 %s, %s, %d;
                    st.shared.u64 [%s], %al; atom.shared.", $op, ";"),
                B32,
                |a, _, _| a,
            )
        ),+]);
    };
}

#[test]
fn atomics_change_memory_and_return_what_was_there() {
    atomics!(
        ("add.u32 %d, [%s], %b", |a, b, _c| a.wrapping_add(b)),
        ("and.b32 %d, [%s], %b", |a, b, _c| a & b),
        ("or.b32 %d, [%s], %b", |a, b, _c| a | b),
        ("xor.b32 %d, [%s], %b", |a, b, _c| a ^ b),
        ("exch.b32 %d, [%s], %b", |_a, b, _c| b),
        ("cas.b32 %d, [%s], %b, %c", |a, b, c| if a as u32 == b as u32 { c } else { a }),
        ("min.s32 %d, [%s], %b", |a, b, _c| (a as i32).min(b as i32) as u64),
        ("max.s32 %d, [%s], %b", |a, b, _c| (a as i32).max(b as i32) as u64),
        ("min.u32 %d, [%s], %b", |a, b, _c| u64::from((a as u32).min(b as u32))),
        ("max.u32 %d, [%s], %b", |a, b, _c| u64::from((a as u32).max(b as u32))),
        ("inc.u32 %d, [%s], %b", |a, b, _c| { if a as u32 >= b as u32 { 0 } else { a + 1 } }),
        ("dec.u32 %d, [%s], %b", |a, b, _c| {
            if a as u32 == 0 || a as u32 > b as u32 { b } else { a - 1 }
        })
    );
    check(&[
        case(
            ".shared .align 8 .b8 s[512]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 3; mov.u32 %d, s; add.s32 %s, %s, %d;
             st.shared.u64 [%s], %al; atom.shared.max.s64 %sl, [%s], %bl; ld.shared.u64 %dl, [%s];",
            B64,
            |a, b, _| (a as i64).max(b as i64) as u64,
        ),
        case(
            ".shared .align 8 .b8 s[512]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 3; mov.u32 %d, s; add.s32 %s, %s, %d;
             st.shared.u64 [%s], %al; red.shared.add.u64 [%s], %bl; ld.shared.u64 %dl, [%s];",
            B64,
            |a, b, _| a.wrapping_add(b),
        ),
        case(
            ".shared .align 8 .b8 s[512]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 3; mov.u32 %d, s; add.s32 %s, %s, %d;
             st.shared.u64 [%s], %al; atom.shared.cas.b64 %dl, [%s], %bl, %cl; ld.shared.u64 %dl, [%s];",
            B64,
            |a, b, c| if a == b { c } else { a },
        ),
        case(
            ".shared .align 8 .b8 s[512]; mov.u32 %s, %tid.x; shl.b32 %s, %s, 3; mov.u32 %d, s; add.s32 %s, %s, %d;
             st.shared.f32 [%s], 0f3FC00000; red.shared.add.f32 [%s], 0f40200000; ld.shared.f32 %d, [%s];",
            B32,
            |_, _, _| 4.0_f32.to_bits().into(),
        ),
    ]);
}
