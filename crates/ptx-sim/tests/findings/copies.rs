//! Asynchronous copies that are met too early. Whatever the time at which a seed makes them, they are found.

use frazil_ptx_sim::{FindingKind, Memory, Module, Space};

use super::{clean, kernel, run, stopped};

/// Each lane copies the first word of `[p]` to its own word of `s`.
const COPY: &str = "cp.async.ca.shared.global [%r12], [%rd0], 4;";
const COMMIT: &str = "cp.async.commit_group;";
const WAIT: &str = "cp.async.wait_group 0;";
const READ_OWN: &str = "ld.shared.u32 %r1, [%r12];";
/// The word of the neighbouring lane.
const READ_LANE: &str =
    "xor.b32 %r13, %r11, 4; add.s32 %r13, %r10, %r13; ld.shared.u32 %r1, [%r13];";
/// The word of the same lane of the neighbouring warp.
const READ_WARP: &str =
    "xor.b32 %r13, %r11, 128; add.s32 %r13, %r10, %r13; ld.shared.u32 %r1, [%r13];";
/// Sixteen bytes that each of 32 lanes copies, and loads as a row of a matrix.
const COPY_ROW: &str = "shl.b32 %r13, %r0, 4; and.b32 %r13, %r13, 0x1f0; add.s32 %r13, %r13, %r10;
    cp.async.cg.shared.global [%r13], [%rd0], 16;";
const LOAD_ROW: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r13];";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    UnderWay { writes: bool },
    Race { writes: [bool; 2] },
    Source,
}

/// The kinds that every seed finds at least one of; none finds another.
fn finds(body: &str, threads: u32, kinds: &[Kind]) {
    for seed in 0..12 {
        let report = run(body, threads, seed).0.unwrap_or_else(|fault| panic!("{body}: {fault}"));
        assert!(!report.findings.is_empty(), "{body} with seed {seed}");
        for finding in &report.findings {
            let kind = match &finding.kind {
                FindingKind::CopyUnderWay { writes, copy, .. } => {
                    assert!(copy.instruction.starts_with("cp.async"), "{finding}");
                    assert_eq!(copy.source.as_ref().map(|source| source.line), Some(42));
                    Kind::UnderWay { writes: *writes }
                }
                FindingKind::SharedRace { writes, .. } => Kind::Race { writes: *writes },
                FindingKind::CopySource { .. } => Kind::Source,
                _ => panic!("{body} with seed {seed}: {finding}"),
            };
            assert!(kinds.contains(&kind), "{body} with seed {seed}: {finding}");
        }
    }
}

const READ_UNDER_WAY: Kind = Kind::UnderWay { writes: false };
const READ_RACE: Kind = Kind::Race { writes: [true, false] };

#[test]
fn a_read_before_the_wait_is_found() {
    clean(&format!("{COPY} {COMMIT} {WAIT} {READ_OWN}"), 32);
    clean(&format!("{COPY} cp.async.wait_all; {READ_OWN}"), 32);
    let missing = format!("{COPY} {COMMIT} {READ_OWN}");
    finds(&missing, 32, &[READ_UNDER_WAY]);
    let late = format!("{COPY} {COMMIT} {READ_OWN} {WAIT}");
    finds(&late, 32, &[READ_UNDER_WAY]);
    // A copy that belongs to no group is not waited for.
    let uncommitted = format!("{COPY} {WAIT} {READ_OWN}");
    finds(&uncommitted, 32, &[READ_UNDER_WAY]);
    let one_pending = format!("{COPY} {COMMIT} cp.async.wait_group 1; {READ_OWN}");
    finds(&one_pending, 32, &[READ_UNDER_WAY]);
    // Only half of the lanes wait.
    let half = format!("{COPY} {COMMIT} setp.lt.u32 %p0, %r0, 16; @%p0 {WAIT} {READ_OWN}");
    finds(&half, 32, &[READ_UNDER_WAY]);
    // A byte of it is enough.
    finds(&format!("{COPY} {COMMIT} ld.shared.u8 %r1, [%r12+3];"), 32, &[READ_UNDER_WAY]);
    finds(&format!("{COPY_ROW} {COMMIT} {LOAD_ROW}"), 32, &[READ_UNDER_WAY]);
}

#[test]
fn a_wait_is_for_the_thread_that_waits_alone() {
    // Lanes of one warp.
    clean(&format!("{COPY} {COMMIT} {WAIT} bar.warp.sync -1; {READ_LANE}"), 32);
    clean(&format!("{COPY} {COMMIT} {WAIT} bar.sync 0; {READ_LANE}"), 32);
    finds(&format!("{COPY} {COMMIT} {WAIT} {READ_LANE}"), 32, &[READ_RACE]);
    finds(&format!("{COPY} {COMMIT} bar.warp.sync -1; {WAIT} {READ_LANE}"), 32, &[READ_RACE]);
    clean(&format!("{COPY_ROW} {COMMIT} {WAIT} bar.warp.sync -1; {LOAD_ROW}"), 32);
    finds(&format!("{COPY_ROW} {COMMIT} {WAIT} {LOAD_ROW}"), 32, &[READ_RACE]);
    // Warps of one block. Which of the two is met depends on the order.
    let either = [READ_RACE, READ_UNDER_WAY, Kind::Race { writes: [false, true] }];
    clean(&format!("{COPY} {COMMIT} {WAIT} bar.sync 0; {READ_WARP}"), 64);
    let unwritten = "st.shared.u32 [%r12], 0; bar.sync 0;";
    finds(&format!("{unwritten} {COPY} {COMMIT} {WAIT} {READ_WARP}"), 64, &either);
    let before = format!("{COPY} {COMMIT} bar.sync 0; {WAIT} {READ_WARP}");
    finds(&before, 64, &either);
    // The reader comes long after the wait, which nothing orders before it.
    let late = |after_wait: &str| {
        format!(
            "setp.lt.u32 %p0, %r0, 32; @!%p0 bra.uni READER; {COPY} {COMMIT} bar.sync 1, 64; {WAIT} {after_wait} ret;
             READER: bar.sync 1, 64; {after_wait} mov.u32 %r2, 0;
             L: add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 1000; @%p1 bra L; {READ_WARP}"
        )
    };
    clean(&late("bar.sync 2, 64;"), 64);
    finds(&late(""), 64, &[READ_RACE]);
    let one_pending = format!("{COPY} {COMMIT} cp.async.wait_group 1; bar.sync 0; {READ_WARP}");
    finds(&one_pending, 64, &[READ_UNDER_WAY]);
}

#[test]
fn a_write_into_a_copy_under_way_is_found() {
    let under_way = [Kind::UnderWay { writes: true }];
    finds(&format!("{COPY} {COMMIT} st.shared.u32 [%r12], 0; {WAIT}"), 32, &under_way);
    finds(&format!("{COPY} {COMMIT} {COPY} {COMMIT} {WAIT}"), 32, &under_way);
    // All lanes of one instruction to one place.
    finds("cp.async.ca.shared.global [%r10], [%rd0], 4; cp.async.wait_all;", 32, &under_way);
    finds(
        &format!("{COPY_ROW} {COMMIT} stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r13], {{%r0}};"),
        32,
        &under_way,
    );
    clean(&format!("{COPY} {COMMIT} {WAIT} {COPY} {COMMIT} {WAIT} st.shared.u32 [%r12], 0;"), 32);
    // Another lane waits for nobody's copies.
    let other = "xor.b32 %r13, %r11, 4; add.s32 %r13, %r10, %r13; cp.async.ca.shared.global [%r13], [%rd0], 4;";
    finds(&format!("{COPY} {WAIT} {other} {WAIT}"), 32, &under_way);
    let unsynchronised = [Kind::Race { writes: [true, true] }];
    finds(&format!("{COPY} cp.async.wait_all; {other} cp.async.wait_all;"), 32, &unsynchronised);
}

/// What another warp still reads is copied over.
#[test]
fn a_copy_into_what_is_still_read_is_found() {
    let fill = "st.shared.u32 [%r12], 0; bar.sync 0;";
    clean(&format!("{fill} {READ_WARP} bar.sync 0; {COPY} {COMMIT} {WAIT}"), 64);
    let missing = format!("{fill} {READ_WARP} {COPY} {COMMIT} {WAIT}");
    finds(&missing, 64, &[Kind::Race { writes: [false, true] }, READ_UNDER_WAY, READ_RACE]);
}

#[test]
fn a_write_to_the_source_of_a_copy_under_way_is_found() {
    let store = "setp.eq.u32 %p0, %r0, 0; @%p0 st.global.u8 [%rd0+3], 7;";
    finds(&format!("{COPY} {COMMIT} {store} {WAIT}"), 32, &[Kind::Source]);
    finds(
        &format!("{COPY} {COMMIT} atom.global.add.u32 %r1, [%rd0], 1; {WAIT}"),
        1,
        &[Kind::Source],
    );
    clean(
        &format!("{COPY} {COMMIT} st.global.u32 [%rd0+4], 7; {WAIT} st.global.u32 [%rd0], 7;"),
        1,
    );
}

#[test]
fn copies_that_cannot_be_made_are_found() {
    let cases = [
        ("cp.async.cg.shared.global [%r10+8], [%rd0], 16;", Space::Shared, 1024 + 8, 16),
        ("cp.async.ca.shared.global [%r10+2], [%rd0], 4;", Space::Shared, 1024 + 2, 4),
        (
            "mov.u64 %rd1, 1028; cp.async.ca.shared.global [%r10], [%rd1], 8;",
            Space::Global,
            1028,
            8,
        ),
        // Also where nothing is read.
        (
            "mov.u64 %rd1, 1028; cp.async.ca.shared.global [%r10], [%rd1], 8, 0;",
            Space::Global,
            1028,
            8,
        ),
    ];
    for (body, space, address, bytes) in cases {
        let (finding, _) = stopped(body, 1);
        assert_eq!(finding.kind, FindingKind::Misaligned { space, address, bytes }, "{body}");
    }
    let (finding, p) = stopped("cp.async.ca.shared.global [%r10], [%rd0+64], 4;", 1);
    let kind = FindingKind::OutOfBounds { space: Space::Global, address: p + 64, bytes: 4 };
    assert_eq!(finding.kind, kind);
    let (finding, _) = stopped("cp.async.ca.shared.global [%r10+512], [%rd0], 4;", 1);
    let kind = FindingKind::OutOfBounds { space: Space::Shared, address: 1024 + 512, bytes: 4 };
    assert_eq!(finding.kind, kind);
    let found = |body: &str| {
        let (report, p) = run(body, 1, 0);
        (report.unwrap().findings.first().unwrap().kind.clone(), p)
    };
    let (kind, _) = found("cp.async.ca.shared.global [%r10], [%rd0], 4, 5;");
    assert_eq!(kind, FindingKind::CopySize { read: 5, bytes: 4 });
    // Nobody has written the second half of `[p]`.
    let (kind, p) = found("cp.async.cg.shared.global [%r10], [%rd0+32], 16, 1;");
    assert_eq!(kind, FindingKind::Unwritten { space: Space::Global, address: p + 32 });
}

/// The ISA asks for a wait where the bytes are used, and nowhere else.
#[test]
fn a_copy_whose_bytes_nobody_uses_needs_no_wait() {
    clean(&format!("{COPY} {COMMIT}"), 64);
}

/// What is read too early is the old value or the new one, and a source that is changed gives either: seeds show both.
#[test]
fn seeds_make_copies_at_different_times() {
    let values = |body: &str| {
        let module =
            Module::parse(&kernel(&format!("{body} st.global.u32 [%rd0+8], %r1;"))).unwrap();
        let value = |seed: u64| {
            let mut memory = Memory::new(1 << 20);
            let image = module.load(&mut memory).unwrap();
            let p = memory.alloc(64, 64).unwrap();
            memory.fill(p, 64, 1).unwrap();
            let params = p.to_le_bytes();
            let launch = frazil_ptx_sim::Launch {
                seed,
                ..frazil_ptx_sim::Launch::new([1; 3], [1; 3], &params)
            };
            image.kernel("k").unwrap().run(&mut memory, &launch).unwrap();
            let mut bytes = [0; 4];
            memory.read(p + 8, &mut bytes).unwrap();
            u32::from_le_bytes(bytes)
        };
        let mut values: Vec<_> = (0..30).map(value).collect();
        assert_eq!(values, (0..30).map(value).collect::<Vec<_>>(), "{body}");
        values.sort_unstable();
        values.dedup();
        values
    };
    let early = format!("st.shared.u32 [%r12], 5; {COPY} {COMMIT} {READ_OWN}");
    assert_eq!(values(&early), [5, 0x0101_0101]);
    let changed = format!("{COPY} {COMMIT} st.global.u32 [%rd0], 9; {WAIT} {READ_OWN}");
    assert_eq!(values(&changed), [9, 0x0101_0101]);
    assert_eq!(values(&format!("{COPY} {COMMIT} {WAIT} {READ_OWN}")), [0x0101_0101]);
}
