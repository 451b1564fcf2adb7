//! Moves, selections, special registers, addresses between spaces.

use super::Out::{B16, B32, B64};
use super::{case, check, run};

#[test]
fn values_are_moved_packed_and_unpacked() {
    check(&[
        case("mov.b32 %d, %a;", B32, |a, _, _| a),
        case("mov.u64 %dl, %al;", B64, |a, _, _| a),
        case("mov.b16 %dh, %ah;", B16, |a, _, _| a),
        case("mov.f32 %d, 0f3FC00000;", B32, |_, _, _| 0x3fc0_0000),
        case("mov.f64 %dl, 0d3FF8000000000000;", B64, |_, _, _| 1.5_f64.to_bits()),
        case("mov.b64 %dl, {%a, %b};", B64, |a, b, _| a & 0xffff_ffff | b << 32),
        case("mov.b32 %d, {%ah, %bh};", B32, |a, b, _| a & 0xffff | (b & 0xffff) << 16),
        case("mov.b64 {%s, %d}, %al;", B32, |a, _, _| a >> 32),
        case("mov.b64 {%d, _}, %al;", B32, |a, _, _| a),
        case("mov.b32 {%sh, %dh}, %a;", B16, |a, _, _| a >> 16),
        case("mov.b64 %dl, {%ah, %bh, %ch, %ah};", B64, |a, b, c| {
            let [a, b, c] = [a, b, c].map(|x| x & 0xffff);
            a | b << 16 | c << 32 | a << 48
        }),
        case("selp.b32 %d, %a, %b, %p;", B32, |a, b, c| if c & 1 == 1 { a } else { b }),
        case(
            "selp.b64 %dl, %al, -7, !%p;",
            B64,
            |a, _, c| {
                if c & 1 == 0 { a } else { -7_i64 as u64 }
            },
        ),
        case("selp.b16 %dh, %ah, %bh, %p;", B16, |a, b, c| if c & 1 == 1 { a } else { b }),
    ]);
}

/// Of 128 threads in two blocks of 64.
#[test]
fn special_registers_say_where_a_thread_is() {
    type OfThread = fn(u64) -> u64;
    let cases: [(&str, OfThread); 22] = [
        ("%tid.x", |t| t % 64),
        ("%tid.y", |_| 0),
        ("%ntid.x", |_| 64),
        ("%ntid.z", |_| 1),
        ("%ctaid.x", |t| t / 64),
        ("%nctaid.x", |_| 2),
        ("%laneid", |t| t % 32),
        ("%warpid", |t| t % 64 / 32),
        ("%nwarpid", |_| 2),
        ("%lanemask_eq", |t| 1 << (t % 32)),
        ("%lanemask_lt", |t| (1 << (t % 32)) - 1),
        ("%lanemask_le", |t| (2 << (t % 32)) - 1),
        ("%lanemask_gt", |t| u64::from(u32::MAX) & !((2 << (t % 32)) - 1)),
        ("%lanemask_ge", |t| u64::from(u32::MAX) & !((1 << (t % 32)) - 1)),
        ("%clusterid.x", |t| t / 64),
        ("%nclusterid.x", |_| 2),
        ("%cluster_ctaid.x", |_| 0),
        ("%cluster_nctaid.x", |_| 1),
        ("%cluster_ctarank", |_| 0),
        ("%cluster_nctarank", |_| 1),
        ("%dynamic_smem_size", |_| 0),
        ("WARP_SZ", |_| 32),
    ];
    for (name, expected) in cases {
        let results = run(&format!("mov.u32 %d, {name};"), &[[0; 3]; 128]);
        for (thread, result) in results.iter().enumerate() {
            assert_eq!(result[0], expected(thread as u64), "{name} of thread {thread}");
        }
    }
    let clock =
        "mov.u64 %sl, %clock64; mov.u32 %s, %clock; mov.u64 %dl, %clock64; sub.s64 %dl, %dl, %sl;";
    assert!(run(clock, &[[0; 3]; 64]).iter().all(|result| result[1] > 0));
}

#[test]
fn addresses_go_to_their_window_and_back() {
    check(&[
        case("cvta.shared.u64 %dl, 1024; cvta.to.shared.u64 %dl, %dl;", B64, |_, _, _| 1024),
        case("cvta.global.u64 %dl, %at; sub.s64 %dl, %dl, %at;", B64, |_, _, _| 0),
        case(
            "cvta.shared.u64 %sl, 1024; isspacep.shared %q, %sl; selp.u32 %d, 1, 0, %q;
             isspacep.global %q, %sl; selp.u32 %s, 2, 0, %q; or.b32 %d, %d, %s;
             isspacep.global %q, %at; selp.u32 %s, 4, 0, %q; or.b32 %d, %d, %s;
             cvta.local.u64 %sl, 0; isspacep.local %q, %sl; selp.u32 %s, 8, 0, %q; or.b32 %d, %d, %s;",
            B32,
            |_, _, _| 1 | 4 | 8,
        ),
    ]);
}
