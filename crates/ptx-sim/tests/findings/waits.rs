//! Threads that wait for what does not come, and exchanges with threads that are not there.

use frazil_ptx_sim::FindingKind;

use super::{clean, found, stopped};

#[test]
fn a_barrier_that_some_lanes_pass_by_is_found() {
    let (finding, _) =
        stopped("setp.lt.u32 %p0, %r0, 7; @%p0 bra.uni L; bar.sync 0; L: bar.sync 1;", 32);
    let FindingKind::Divergence { waiting, missing, stands_at } = &finding.kind else {
        panic!("{finding}")
    };
    // Seven lanes wait at the one, the rest at the other.
    assert_eq!((waiting ^ missing, waiting & missing), (u32::MAX, 0));
    assert!([0x7f, !0x7f].contains(waiting));
    assert_eq!(stands_at.instruction, "bar.sync");
    clean("setp.lt.u32 %p0, %r0, 32; @%p0 bra L; bar.sync 0; L: bar.sync 0;", 32);
    // Lanes that have exited are not waited for.
    clean("setp.lt.u32 %p0, %r0, 7; @%p0 exit; bar.sync 0;", 64);
}

/// Not aligned, a barrier may be reached at different instructions (PTX ISA, `barrier`).
#[test]
fn barriers_that_are_not_aligned_may_be_reached_apart() {
    clean("setp.lt.u32 %p0, %r0, 7; @%p0 bra L; barrier.sync 2; ret; L: barrier.sync 2;", 64);
}

#[test]
fn a_deadlock_is_found() {
    let (finding, _) = stopped(
        "setp.lt.u32 %p0, %r0, 32; @%p0 bra L; bar.sync 1, 64; ret; L: bar.sync 2, 64;",
        64,
    );
    let FindingKind::Deadlock { barrier: 1 | 2, arrived: 32, expected: 64 } = finding.kind else {
        panic!("{finding}")
    };
    assert_eq!(finding.place.instruction, "bar.sync");
}

#[test]
fn barriers_whose_operands_contradict_are_found() {
    let cases = [
        ("bar.sync 16;", "its number is not below 16"),
        ("bar.sync %r0;", "its number differs among lanes"),
        ("bar.sync 0, 40;", "its count of threads is no multiple of 32"),
        ("bar.sync 0, 128;", "its count is more than the block has threads"),
        (
            "setp.lt.u32 %p0, %r0, 32; @%p0 bra L; bar.sync 1, 96; ret; L: bar.sync 1, 64;",
            "its count differs among warps",
        ),
    ];
    for (body, expected) in cases {
        let (finding, _) = stopped(body, 96);
        let FindingKind::Barrier { why, .. } = finding.kind else { panic!("{body}: {finding}") };
        assert_eq!(why, expected, "{body}");
    }
}

#[test]
fn exchanges_wait_for_their_members() {
    // Half of the warp is named and never comes.
    let (finding, _) = stopped(
        "setp.lt.u32 %p0, %r0, 16; @!%p0 bra L; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; L: bar.sync 0;",
        32,
    );
    let FindingKind::Divergence { waiting: 0xffff, missing: 0xffff_0000, .. } = finding.kind else {
        panic!("{finding}")
    };
    let (finding, _) = stopped("vote.sync.any.pred %p1, %p0, 0xf;", 32);
    assert_eq!(finding.kind, FindingKind::NotMember { lanes: !0xf });
    // The lanes of a loop come to it one after the other, and wait for one another.
    clean(
        "mov.u32 %r1, 0; L: add.s32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r0; @%p0 bra L;
         shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; bar.warp.sync -1;",
        32,
    );
    // `bar.warp.sync` may be reached at different instructions.
    clean("setp.lt.u32 %p0, %r0, 7; @%p0 bra L; bar.warp.sync -1; ret; L: bar.warp.sync -1;", 32);
}

#[test]
fn a_lane_that_does_not_take_part_has_no_value() {
    let body = |lane: u32| {
        format!("setp.lt.u32 %p0, %r0, 16; @%p0 shfl.sync.idx.b32 %r1, %r0, {lane}, 31, 0xffff;")
    };
    let (finding, _) = found(&body(20), 32, 0);
    assert_eq!((finding.kind, finding.occurrences), (FindingKind::InactiveLane { lane: 20 }, 16));
    clean(&body(12), 32);
}

#[test]
fn a_loop_without_end_runs_out_of_instructions() {
    let (finding, _) = stopped("L: bra L;", 1);
    assert_eq!(finding.kind, FindingKind::Budget { limit: 100_000 });
}

/// Lanes that have passed a barrier of the warp, but wait there for its members, stay behind a lane
/// that is no member and comes to the instruction after it by itself.
#[test]
fn a_lane_that_goes_around_a_barrier_of_the_warp_frees_nobody() {
    clean(
        "mov.u32 %r1, 0; setp.eq.u32 %p0, %r0, 31; @%p0 bra LATE;
         setp.lt.u32 %p1, %r0, 7; @%p1 bra L;
         SLOW: add.s32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 2000; @%p2 bra SLOW;
         st.shared.u32 [%r12], %r0;
         L: bar.warp.sync 0x7fffffff;
         AFTER: @%p0 bra END; ld.shared.u32 %r2, [%r10+40]; bra END;
         LATE: add.s32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 30; @%p2 bra LATE; bra AFTER;
         END: ",
        32,
    );
}

/// A lane that waits for another one of its warp in a loop does not keep it from running.
#[test]
fn lanes_that_wait_in_a_loop_let_the_others_run() {
    clean(
        "st.volatile.shared.u32 [%r10], 0; bar.sync 0; setp.eq.u32 %p0, %r0, 31; @%p0 bra SET;
         WAITS: ld.volatile.shared.u32 %r1, [%r10]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAITS; ret;
         SET: st.volatile.shared.u32 [%r10], 1;",
        32,
    );
}

#[test]
fn a_branch_outside_of_its_list_is_found() {
    let (finding, _) = stopped("T: .branchtargets A, B; brx.idx %r0, T; A: ret; B: ret;", 3);
    assert_eq!(finding.kind, FindingKind::BranchIndex { index: 2, targets: 2 });
    clean("T: .branchtargets A, B; brx.idx %r0, T; A: ret; B: ret;", 2);
}
