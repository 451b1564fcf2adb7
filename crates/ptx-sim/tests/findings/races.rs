//! Races of warps on shared memory. They are found in every order, so each seed must find them.

use frazil_ptx_sim::FindingKind;

use super::{clean, run};

/// The kinds of race that some seed meets; each seed must meet one.
fn races(body: &str, threads: u32) -> Vec<[bool; 2]> {
    let mut kinds = Vec::new();
    for seed in 0..20 {
        let report = run(body, threads, seed).0.unwrap_or_else(|fault| panic!("{body}: {fault}"));
        let races = report.findings.iter().filter_map(|finding| match &finding.kind {
            FindingKind::SharedRace { writes, .. } => Some(*writes),
            _ => None,
        });
        let before = kinds.len();
        kinds.extend(races);
        assert!(kinds.len() > before, "{body} with seed {seed}: {:?}", report.findings);
    }
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

const WRITE_OWN: &str = "st.shared.u32 [%r12], %r0;";
const READ_OTHER: &str =
    "xor.b32 %r13, %r11, 128; add.s32 %r13, %r10, %r13; ld.shared.u32 %r1, [%r13];";

#[test]
fn a_missing_barrier_is_a_race() {
    let kinds = races(&format!("{WRITE_OWN} {READ_OTHER}"), 64);
    // Whichever comes first.
    assert_eq!(kinds, [[false, true], [true, false]]);
    clean(&format!("{WRITE_OWN} bar.sync 0; {READ_OTHER}"), 64);
    clean(&format!("{WRITE_OWN} bar.sync 3, 64; {READ_OTHER}"), 64);
    clean(&format!("{WRITE_OWN} bar.sync 0; {READ_OTHER} bar.sync 0; {WRITE_OWN}"), 64);
}

#[test]
fn a_missing_second_barrier_is_a_race() {
    let kinds = races(&format!("{WRITE_OWN} bar.sync 0; {READ_OTHER} {WRITE_OWN}"), 64);
    assert_eq!(kinds, [[false, true], [true, false]]);
}

/// Lanes of a warp need not run in lock step, so each order must have a barrier of the warp or of the block.
#[test]
fn lanes_of_one_warp_race_without_a_barrier() {
    const READ_LANE: &str =
        "xor.b32 %r13, %r11, 4; add.s32 %r13, %r10, %r13; ld.shared.u32 %r1, [%r13];";
    let races = |body: &str, kind: [bool; 2]| assert_eq!(races(body, 32), [kind], "{body}");
    let (read_after, write_after, both) = ([true, false], [false, true], [true, true]);
    races(&format!("{WRITE_OWN} {READ_LANE}"), read_after);
    for barrier in ["bar.warp.sync -1;", "bar.sync 0;"] {
        clean(&format!("{WRITE_OWN} {barrier} {READ_LANE}"), 32);
        races(&format!("{WRITE_OWN} {barrier} {READ_LANE} {WRITE_OWN}"), write_after);
        clean(&format!("{WRITE_OWN} {barrier} {READ_LANE} {barrier} {WRITE_OWN}"), 32);
    }
    // An exchange orders nothing in memory.
    let exchange = "shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;";
    races(&format!("{WRITE_OWN} {exchange} {READ_LANE}"), read_after);
    races(
        "st.shared.u32 [%r12], 1; add.s32 %r1, %r10, 124; sub.s32 %r1, %r1, %r11; st.shared.u32 [%r1], 2;",
        both,
    );
    // Of one instruction any lane comes last, and a lane is in order with itself.
    clean(&format!("st.shared.u32 [%r10], %r0; {WRITE_OWN}").replace("[%r12]", "[%r12+128]"), 32);
    clean(&format!("{WRITE_OWN} ld.shared.u32 %r1, [%r12]; {WRITE_OWN}"), 32);
    let volatile = format!("{WRITE_OWN} {READ_LANE}").replace(".shared", ".volatile.shared");
    clean(&volatile, 32);
}

#[test]
fn two_writes_are_a_race() {
    assert_eq!(races("st.shared.u8 [%r10], %r0;", 64), [[true, true]]);
    clean("add.s32 %r1, %r10, %r0; st.shared.u8 [%r1], %r0;", 64);
}

/// Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2; all write, and read the next warp's.
#[test]
fn a_barrier_orders_those_that_come_to_it_alone() {
    let body = |read: &str| {
        format!(
            "{WRITE_OWN} shr.u32 %r2, %r0, 6; add.s32 %r2, %r2, 1; bar.sync %r2, 64; xor.b32 %r13, %r11, {read};
             add.s32 %r13, %r10, %r13; ld.shared.u32 %r1, [%r13];"
        )
    };
    clean(&body("128"), 128);
    races(&body("256"), 128);
}

/// A warp that arrives at a barrier and goes on has ordered what it did before, not what it does after.
#[test]
fn an_arrival_orders_what_was_before_it() {
    let body = |before: &str, after: &str| {
        format!(
            "setp.lt.u32 %p0, %r0, 32; @!%p0 bra WAITS; {before} bar.arrive 1, 64; {after} ret;
             WAITS: bar.sync 1, 64; {READ_OTHER}"
        )
    };
    clean(&body(WRITE_OWN, ""), 64);
    races(&body(WRITE_OWN, WRITE_OWN), 64);
}

#[test]
fn atomics_race_with_plain_accesses_and_not_with_one_another() {
    let zero = "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [%r10], 0;";
    let add = "atom.shared.add.u32 %r1, [%r10], 1;";
    let read = "ld.shared.u32 %r2, [%r10];";
    races(&format!("{zero} bar.sync 0; {add} {read}"), 64);
    clean(&format!("{zero} bar.sync 0; {add} bar.sync 0; {read}"), 64);
}

/// A flag in memory orders, as fences around it would have it.
#[test]
fn a_flag_orders_what_was_written_before_it() {
    let body = |flag_store: &str, flag_load: &str| {
        format!(
            "setp.lt.u32 %p0, %r0, 32; @!%p0 bra WAITS; {WRITE_OWN} membar.cta; {flag_store} ret;
             WAITS: {flag_load} setp.ne.u32 %p1, %r3, 77; @%p1 bra WAITS; membar.cta; {READ_OTHER}"
        )
    };
    clean(
        &body("st.release.cta.global.u32 [%rd0], 77;", "ld.acquire.cta.global.u32 %r3, [%rd0];"),
        64,
    );
    races(&body("st.global.u32 [%rd0], 77;", "ld.global.u32 %r3, [%rd0];"), 64);
}
