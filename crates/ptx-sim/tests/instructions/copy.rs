//! Asynchronous copies: how many bytes, from where, and what becomes zero.

use super::warp::run_warp;

struct Case {
    /// Copies from `[%in]` to `[%s0]`; `%s1` is the lane modulo 17.
    text: &'static str,
    /// Bytes that are written.
    bytes: usize,
    /// How many of them are those of the source, by lane.
    read: fn(usize) -> usize,
}

const CASES: [Case; 14] = [
    Case { text: "cp.async.ca.shared.global [%s0], [%in], 4;", bytes: 4, read: |_| 4 },
    Case { text: "cp.async.ca.shared.global [%s0], [%in], 8;", bytes: 8, read: |_| 8 },
    Case { text: "cp.async.ca.shared.global [%s0], [%in], 16;", bytes: 16, read: |_| 16 },
    Case { text: "cp.async.cg.shared.global [%s0], [%in], 16;", bytes: 16, read: |_| 16 },
    Case { text: "cp.async.cg.shared::cta.global [%s0], [%in], 16;", bytes: 16, read: |_| 16 },
    Case { text: "cp.async.cg.shared.global.L2::128B [%s0], [%in], 16;", bytes: 16, read: |_| 16 },
    Case {
        text: "mov.u64 %at, 0x14F0000000000000;
               cp.async.cg.shared.global.L2::cache_hint.L2::256B [%s0], [%in], 16, %at;",
        bytes: 16,
        read: |_| 16,
    },
    Case {
        text: "mov.u64 %at, 0x14F0000000000000;
               cp.async.cg.shared.global.L2::cache_hint [%s0], [%in], 16, %s1, %at;",
        bytes: 16,
        read: |lane| lane % 17,
    },
    Case {
        text: "cp.async.cg.shared.global [%s0], [%in], 16, %s1;",
        bytes: 16,
        read: |lane| lane % 17,
    },
    Case { text: "cp.async.ca.shared.global [%s0], [%in], 8, 5;", bytes: 8, read: |_| 5 },
    Case { text: "cp.async.ca.shared.global [%s0], [%in], 4, 0;", bytes: 4, read: |_| 0 },
    // Where nothing is read, the source may lie anywhere.
    Case {
        text: "setp.lt.u32 %p, %s1, 9; selp.b32 %s1, 16, 0, %p; selp.b64 %at, %in, 0, %p;
               cp.async.cg.shared.global [%s0], [%at], 16, %s1;",
        bytes: 16,
        read: |lane| if lane % 17 < 9 { 16 } else { 0 },
    },
    Case {
        text: "setp.lt.u32 %p, %s1, 9; cp.async.cg.shared.global [%s0], [%in], 16, %p;",
        bytes: 16,
        read: |lane| if lane % 17 < 9 { 0 } else { 16 },
    },
    // A guard leaves the destination as it was.
    Case {
        text: "setp.lt.u32 %p, %s1, 40; @!%p cp.async.ca.shared.global [%s0], [%in], 16;",
        bytes: 0,
        read: |_| 0,
    },
];

/// Bytes that are all different among neighbours.
fn source(lane: usize) -> Vec<u8> {
    (0..16).map(|byte| (17 * lane + 3 * byte + 1) as u8).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn copies_write_what_they_read_and_zeros_after_it() {
    let inputs: Vec<_> = (0..32).map(|lane| words(&source(lane))).collect();
    for case in &CASES {
        for wait in ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"] {
            let text = format!(
                "shl.b32 %s0, %lane, 4; mov.u32 %s2, s; add.s32 %s0, %s0, %s2;
                 mov.u32 %s3, -1; st.shared.v4.b32 [%s0], {{%s3, %s3, %s3, %s3}}; rem.u32 %s1, %lane, 17;
                 {} {wait} ld.shared.v4.b32 {{%o0, %o1, %o2, %o3}}, [%s0];",
                case.text
            );
            for (lane, got) in run_warp(&text, &inputs, 4).iter().enumerate() {
                let mut expected = vec![0xff; 16];
                expected[..case.bytes].fill(0);
                let read = (case.read)(lane);
                expected[..read].copy_from_slice(&source(lane)[..read]);
                assert_eq!(*got, words(&expected), "{text} lane {lane}");
            }
        }
    }
}

/// Three groups of copies; waits cover all but the last ones. A group may be empty, and lanes count theirs apart.
#[test]
fn a_wait_covers_all_but_the_last_groups() {
    let begin = |index: u32| {
        format!(
            "cp.async.ca.shared.global [%s0+{}], [%in+{}], 4; cp.async.commit_group;",
            4 * index,
            4 * index
        )
    };
    let prologue = "shl.b32 %s0, %lane, 4; mov.u32 %s2, s; add.s32 %s0, %s0, %s2;";
    let inputs: Vec<_> = (0..32).map(|lane| words(&source(lane))).collect();
    let all = format!(
        "{prologue} {} {} {}
         cp.async.wait_group 2; ld.shared.u32 %o0, [%s0];
         cp.async.wait_group 1; ld.shared.u32 %o1, [%s0+4];
         cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %o2, [%s0+8];",
        begin(0),
        begin(1),
        begin(2)
    );
    for (got, input) in run_warp(&all, &inputs, 3).iter().zip(&inputs) {
        assert_eq!(got[..], input[..3]);
    }
    // Odd lanes make one group more, after the one that is read.
    let apart = format!(
        "{prologue} {} and.b32 %s1, %lane, 1; setp.eq.u32 %p, %s1, 1; @!%p bra EVEN; {} cp.async.wait_group 1; bra JOIN;
         EVEN: cp.async.wait_group 0; JOIN: ld.shared.u32 %o0, [%s0];",
        begin(0),
        begin(1)
    );
    for (got, input) in run_warp(&apart, &inputs, 1).iter().zip(&inputs) {
        assert_eq!(got[0], input[0]);
    }
}
