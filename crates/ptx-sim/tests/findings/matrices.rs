//! Instructions that a warp executes as a whole.

use frazil_ptx_sim::{FindingKind, Space};

use super::{clean, found, run, stopped};

/// Every lane has written 16 bytes, and addresses its own.
const ROWS: &str = "shl.b32 %r13, %r0, 4; and.b32 %r13, %r13, 0x1f0; add.s32 %r13, %r13, %r10;
    st.shared.v4.b32 [%r13], {%r0, %r0, %r0, %r0}; bar.warp.sync -1;";
const LOAD: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r13];";
const STORE: &str = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r13], {%r1};";
const MULTIPLY: &str = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4},
    {%r0, %r0}, {%r0}, {%r0, %r0, %r0, %r0};";

#[test]
fn a_row_that_is_not_aligned_is_found_at_the_lane_that_addresses_it() {
    let body = |lane: u32, offset: u32| {
        format!("{ROWS} setp.eq.u32 %p0, %r0, {lane}; @%p0 add.s32 %r13, %r13, {offset}; {LOAD}")
    };
    let (finding, _) = stopped(&body(9, 8), 32);
    let address = 1024 + 9 * 16 + 8;
    let kind = FindingKind::Misaligned { space: Space::Shared, address, bytes: 16 };
    assert_eq!((finding.kind, finding.thread.thread), (kind, [9, 0, 0]));
    let (finding, _) = stopped(&body(31, 16), 32);
    let kind = FindingKind::OutOfBounds { space: Space::Shared, address: 1536, bytes: 16 };
    assert_eq!((finding.kind, finding.thread.thread), (kind, [31, 0, 0]));
    clean(&body(9, 16), 32);
    // Addresses of lanes past the matrices are not looked at.
    let one = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r13];";
    clean(&body(9, 8).replace(LOAD, one), 32);
}

#[test]
fn a_row_outside_of_shared_memory_is_found() {
    let (finding, p) = stopped("ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%rd0];", 32);
    let kind = FindingKind::OutOfBounds { space: Space::Shared, address: p, bytes: 16 };
    assert_eq!(finding.kind, kind);
}

#[test]
fn a_row_that_nobody_wrote_is_found() {
    let rows = "add.s32 %r13, %r10, 496; setp.ne.u32 %p0, %r0, 5; @%p0 st.shared.v4.b32 [%r10], {%r0, %r0, %r0, %r0};
        @%p0 mov.u32 %r13, %r10; bar.warp.sync -1;";
    let (finding, _) = found(&format!("{rows} {LOAD}"), 32, 0);
    let kind = FindingKind::Unwritten { space: Space::Shared, address: 1024 + 496 };
    assert_eq!((finding.kind, finding.thread.thread), (kind, [5, 0, 0]));
}

#[test]
fn matrices_race_with_the_accesses_of_other_warps() {
    // Warp 0 has written; each warp loads from or stores to what warp 0 wrote.
    let body = |between: &str, access: &str| {
        format!(
            "and.b32 %r14, %r0, 31; shl.b32 %r13, %r14, 4; add.s32 %r13, %r13, %r10;
             setp.lt.u32 %p0, %r0, 32; @%p0 st.shared.v4.b32 [%r13], {{%r0, %r0, %r0, %r0}}; {between}
             @!%p0 bra.uni OTHER; ret; OTHER: {access}"
        )
    };
    for (access, writes) in [(LOAD, false), (STORE, true)] {
        clean(&body("bar.sync 0;", access), 64);
        for seed in 0..10 {
            let report = run(&body("", access), 64, seed).0.unwrap();
            let race = report.findings.iter().find_map(|finding| match finding.kind {
                FindingKind::SharedRace { writes, .. } => Some(writes),
                _ => None,
            });
            let expected = [[true, writes], [writes, true]];
            assert!(race.is_some_and(|race| expected.contains(&race)), "{access}: {race:?}");
        }
    }
}

/// The rows of a matrix are read and written by all lanes, whoever addresses them.
#[test]
fn matrices_race_with_the_lanes_of_their_own_warp() {
    let sync = "bar.warp.sync -1;";
    let read = "ld.shared.u32 %r2, [%r13];";
    clean(&format!("{ROWS} {LOAD} {STORE} {sync} {read}"), 32);
    let cases = [
        (ROWS.replace(sync, ""), LOAD, [true, false]),
        (ROWS.replace(sync, ""), STORE, [true, true]),
        (format!("{ROWS} {read}"), STORE, [false, true]),
        (format!("{ROWS} {STORE}"), read, [true, false]),
        (format!("{ROWS} {STORE}"), LOAD, [true, false]),
    ];
    for (before, access, expected) in cases {
        let (finding, _) = found(&format!("{before} {access}"), 32, 0);
        let FindingKind::SharedRace { writes, .. } = finding.kind else { panic!("{finding}") };
        assert_eq!(writes, expected, "{before} {access}");
    }
}

#[test]
fn lanes_that_do_not_come_are_found() {
    for access in [LOAD, STORE, MULTIPLY] {
        let half = format!(
            "{ROWS} setp.lt.u32 %p0, %r0, 16; @!%p0 bra L; {access} ret; L: bar.warp.sync 0xffff0000;"
        );
        // The upper half has exited when the lower one is looked at, or stands elsewhere.
        let (finding, _) = stopped(&half, 32);
        let missing = 0xffff_0000;
        assert_eq!(finding.kind, FindingKind::PartialWarp { missing }, "{access}");
        let (finding, _) = stopped(
            &format!("{ROWS} setp.lt.u32 %p0, %r0, 16; @!%p0 bra L; {access} L: bar.sync 0;"),
            32,
        );
        let FindingKind::Divergence { waiting: 0xffff, missing: 0xffff_0000, .. } = finding.kind
        else {
            panic!("{finding}")
        };
        // A loop that lanes leave one after the other; they meet again.
        clean(
            &format!(
                "{ROWS} mov.u32 %r1, 0; A: add.s32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r0; @%p0 bra A; {access}"
            ),
            32,
        );
    }
    let (finding, _) = stopped(&format!("{MULTIPLY} "), 20);
    assert_eq!(finding.kind, FindingKind::PartialWarp { missing: 0xfff0_0000 });
}
