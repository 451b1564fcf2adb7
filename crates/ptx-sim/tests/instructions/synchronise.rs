//! Accesses that are volatile, ordered or hinted, fences, reductions in memory and over a block, in the forms that NVRTC
//! emits and that kernels write by hand. One thread or one block sees what it would see without the order.

use super::Out::{B32, B64};
use super::{case, check, run};

#[test]
fn ordered_and_hinted_accesses_move_the_same_bytes() {
    check(&[
        case("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%s, %d}, [%at];", B32, |a, _, _| {
            a >> 32
        }),
        case("ld.global.nc.L1::no_allocate.L2::256B.u64 %dl, [%at+8];", B64, |_, b, _| b),
        case("ld.global.L1::evict_last.u64 %dl, [%at+16];", B64, |_, _, c| c),
        case(
            "createpolicy.fractional.L2::evict_last.b64 %sl, 1.0; ld.global.L2::cache_hint.u64 %dl, [%at], %sl;",
            B64,
            |a, _, _| a,
        ),
        case("ld.volatile.global.u32 %d, [%at];", B32, |a, _, _| a),
        case("ld.relaxed.gpu.global.u64 %dl, [%at+8];", B64, |_, b, _| b),
        case("ld.acquire.sys.global.s32 %d, [%at+16];", B32, |_, _, c| c),
        case("ld.acquire.cta.u32 %d, [%at+16];", B32, |_, _, c| c),
        // The slot of the operands of the thread itself.
        case("st.release.gpu.global.u32 [%at], %b; ld.global.u32 %d, [%at];", B32, |_, b, _| b),
        case("st.relaxed.sys.global.u64 [%at], %cl; ld.global.u64 %dl, [%at];", B64, |_, _, c| c),
        case("st.volatile.global.u32 [%at+4], %b; ld.global.u64 %dl, [%at];", B64, |a, b, _| {
            a & 0xffff_ffff | b << 32
        }),
        case(
            "mov.u64 %sl, 0; st.global.L1::no_allocate.L2::cache_hint.v2.b32 [%at], {%b, %c}, %sl; ld.global.u64 %dl, [%at];",
            B64,
            |_, b, c| b & 0xffff_ffff | c << 32,
        ),
        case(
            "fence.acq_rel.gpu; fence.sc.sys; membar.cta; membar.gl; membar.sys; mov.u32 %d, %a;",
            B32,
            |a, _, _| a,
        ),
        case("fence.acquire.gpu; fence.release.cta; mov.u32 %d, %a;", B32, |a, _, _| a),
        case(
            "prefetch.global.L2 [%at]; prefetchu.L1 [%at]; nanosleep.u32 20; mov.u32 %d, %a;",
            B32,
            |a, _, _| a,
        ),
        // A grid whose predecessors have ended.
        case(
            "griddepcontrol.wait; griddepcontrol.launch_dependents; mov.u32 %d, %a;",
            B32,
            |a, _, _| a,
        ),
    ]);
}

#[test]
fn memory_is_changed_by_one_thread_after_another() {
    check(&[
        case("red.global.add.u32 [%at], %b; ld.global.u32 %d, [%at];", B32, |a, b, _| {
            a.wrapping_add(b)
        }),
        case(
            "red.relaxed.gpu.global.or.b32 [%at], %b; ld.global.u32 %d, [%at];",
            B32,
            |a, b, _| a | b,
        ),
        case(
            "red.release.gpu.global.max.s32 [%at], %b; ld.global.u32 %d, [%at];",
            B32,
            |a, b, _| (a as i32).max(b as i32) as u64,
        ),
        case("red.global.add.u64 [%at], %bl; ld.global.u64 %dl, [%at];", B64, |a, b, _| {
            a.wrapping_add(b)
        }),
        case("atom.add.acq_rel.gpu.global.u32 %d, [%at], %b;", B32, |a, _, _| a),
        case("atom.global.add.u64 %sl, [%at], %bl; ld.global.u64 %dl, [%at];", B64, |a, b, _| {
            a.wrapping_add(b)
        }),
        case("atom.global.exch.b64 %dl, [%at], %bl;", B64, |a, _, _| a),
        case(
            "st.global.f32 [%at], 0f3FC00000; atom.global.add.f32 %s, [%at], 0f40200000; ld.global.f32 %d, [%at];",
            B32,
            |_, _, _| 4.0_f32.to_bits().into(),
        ),
        case(
            "st.global.f32 [%at], 0f3FC00000; red.global.add.f32 [%at], 0f40200000; ld.global.f32 %d, [%at];",
            B32,
            |_, _, _| 4.0_f32.to_bits().into(),
        ),
        case(
            "mov.u32 %s, 0x40003C00; st.global.b32 [%at], %s; red.global.add.noftz.f16x2 [%at], %s; ld.global.b32 %d, [%at];",
            B32,
            // 1 + 1 and 2 + 2.
            |_, _, _| 0x4400_4000,
        ),
    ]);
}

/// Of a block of 64 threads, the odd ones from the eleventh on.
#[test]
fn a_block_and_a_warp_agree_on_predicates() {
    let triples: Vec<_> = (0..64).map(|thread| [thread, thread * thread % 97, 0]).collect();
    let holds = |thread: usize| thread > 10 && thread % 2 == 1;
    let prologue = "setp.gt.u32 %q, %a, 10; and.b32 %s, %a, 1; setp.ne.and.u32 %q, %s, 0, %q;";
    let count = (0..64).filter(|thread| holds(*thread)).count() as u64;
    let ballot = |warp: usize| {
        (0..32).fold(0, |bits, lane| bits | u64::from(holds(32 * warp + lane)) << lane)
    };
    let warp_values =
        |warp: usize| (32 * warp..32 * warp + 32).map(|thread| (thread * thread % 97) as u64);
    type Expected<'a> = &'a dyn Fn(usize) -> u64;
    let cases: [(&str, Expected<'_>); 13] = [
        ("bar.red.popc.u32 %d, 0, %q;", &|_| count),
        ("bar.red.popc.u32 %d, 1, 64, !%q;", &|_| 64 - count),
        ("bar.red.and.pred %p, 0, %q; selp.u32 %d, 1, 0, %p;", &|_| 0),
        ("bar.red.or.pred %p, 0, %q; selp.u32 %d, 1, 0, %p;", &|_| 1),
        ("barrier.sync 0; barrier.cta.red.or.pred %p, 0, %q; selp.u32 %d, 1, 0, %p;", &|_| 1),
        ("vote.sync.ballot.b32 %d, %q, -1;", &|warp| ballot(warp)),
        ("vote.sync.any.pred %p, %q, -1; selp.u32 %d, 1, 0, %p;", &|_| 1),
        ("vote.sync.all.pred %p, %q, -1; selp.u32 %d, 1, 0, %p;", &|_| 0),
        ("vote.sync.uni.pred %p, %q, -1; selp.u32 %d, 1, 0, %p;", &|_| 0),
        ("redux.sync.add.u32 %d, %b, -1;", &|warp| warp_values(warp).sum()),
        ("redux.sync.max.s32 %d, %b, -1;", &|warp| warp_values(warp).max().unwrap()),
        ("redux.sync.min.u32 %d, %b, -1;", &|warp| warp_values(warp).min().unwrap()),
        ("redux.sync.xor.b32 %d, %b, -1;", &|warp| warp_values(warp).fold(0, |a, b| a ^ b)),
    ];
    for (text, expected) in cases {
        for (thread, result) in run(&format!("{prologue} {text}"), &triples).iter().enumerate() {
            assert_eq!(result[0], expected(thread / 32), "{text} thread {thread}");
        }
    }
}
