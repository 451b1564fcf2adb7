//! Accesses that must not be made.

use frazil_ptx_sim::{FindingKind, Space};

use super::{clean, found, stopped};

pub(crate) fn out_of_bounds() {
    let cases = [
        // The first byte past the end, the last byte past it, before the begin, null.
        ("st.global.u32 [%rd0+64], %r0;", Space::Global, 64, 4),
        ("st.global.v2.u32 [%rd0+64], {%r0, %r0};", Space::Global, 64, 8),
        ("st.u8 [%rd0+-1], %r0;", Space::Global, -1, 1),
        ("atom.global.add.u32 %r1, [%rd0+4096], 1;", Space::Global, 4096, 4),
    ];
    for (body, space, offset, bytes) in cases {
        let (finding, p) = stopped(body, 1);
        let address = p.wrapping_add_signed(offset);
        assert_eq!(finding.kind, FindingKind::OutOfBounds { space, address, bytes }, "{body}");
    }
    let cases = [
        ("mov.u64 %rd1, 0; ld.u32 %r1, [%rd1];", Space::Global, 0, 4),
        // The system's first kilobyte, and the end: 1024 + 512.
        ("st.shared.u32 [1020], %r0;", Space::Shared, 1020, 4),
        ("st.shared.u64 [%r10+512], %rd0;", Space::Shared, 1536, 8),
        ("cvta.shared.u64 %rd1, 1536; ld.u32 %r1, [%rd1];", Space::Shared, 1536, 4),
        ("ld.param.u32 %r1, [p+8];", Space::Param, 8, 4),
        (".local .b8 l[8]; mov.u64 %rd1, l; st.local.u32 [%rd1+64], %r0;", Space::Local, 64, 4),
        // Memory that is no constant, read as one.
        ("ld.const.u32 %r1, [4096];", Space::Const, 4096, 4),
    ];
    for (body, space, address, bytes) in cases {
        let (finding, _) = stopped(body, 1);
        // A generic or constant address that falls into no window is one of memory.
        let kind = FindingKind::OutOfBounds { space, address, bytes };
        assert_eq!(finding.kind, kind, "{body}");
    }
    clean("st.global.u32 [%rd0+60], %r0; st.shared.u32 [%r10+508], %r0;", 1);
}

#[test]
fn misaligned_accesses_are_found() {
    let (finding, p) = stopped("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+8];", 1);
    let kind = FindingKind::Misaligned { space: Space::Global, address: p + 8, bytes: 16 };
    assert_eq!(finding.kind, kind);
    let (finding, _) = stopped("ld.shared.u16 %r1, [%r10+1];", 1);
    let kind = FindingKind::Misaligned { space: Space::Shared, address: 1025, bytes: 2 };
    assert_eq!(finding.kind, kind);
    clean("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+16];", 1);
}

#[test]
fn writes_to_what_is_only_read_are_found() {
    let (finding, _) = stopped("mov.u64 %rd1, c; cvta.const.u64 %rd1, %rd1; st.u32 [%rd1], 1;", 1);
    let FindingKind::ReadOnly { space: Space::Global, .. } = finding.kind else {
        panic!("{finding}")
    };
    let (finding, _) = stopped("mov.u64 %rd1, p; cvta.param.u64 %rd1, %rd1; st.u32 [%rd1], 1;", 1);
    assert_eq!(finding.kind, FindingKind::ReadOnly { space: Space::Param, address: 0 });
    clean("mov.u64 %rd1, c; cvta.const.u64 %rd1, %rd1; ld.u32 %r1, [%rd1];", 1);
}

/// Bytes 0 to 31 of `[p]` are written, 32 to 63 are not.
#[test]
fn reads_of_what_nobody_wrote_are_found() {
    let (finding, p) = found("ld.global.u32 %r1, [%rd0+32];", 33, 0);
    let kind = FindingKind::Unwritten { space: Space::Global, address: p + 32 };
    assert_eq!((finding.kind, finding.occurrences), (kind, 33));
    // One byte of eight is missing.
    let body =
        "st.global.u32 [%rd0+32], 1; st.global.u16 [%rd0+36], %r1; st.global.u8 [%rd0+38], %r1;";
    let (finding, p) = found(&format!("{body} ld.global.u64 %rd1, [%rd0+32];"), 1, 0);
    assert_eq!(finding.kind, FindingKind::Unwritten { space: Space::Global, address: p + 39 });
    let (finding, _) = found("ld.shared.u8 %r1, [%r10+5];", 1, 0);
    assert_eq!(finding.kind, FindingKind::Unwritten { space: Space::Shared, address: 1029 });
    let (finding, _) = found("atom.shared.add.u32 %r1, [%r10], 1;", 1, 0);
    assert_eq!(finding.kind, FindingKind::Unwritten { space: Space::Shared, address: 1024 });
    let (finding, _) = found(".local .b8 l[8]; ld.local.u32 %r1, [l+4];", 1, 0);
    assert_eq!(finding.kind, FindingKind::Unwritten { space: Space::Local, address: 4 });
    clean(
        "st.shared.u32 [%r12], %r0; ld.shared.u32 %r1, [%r12]; ld.global.u32 %r1, [%rd0+28];",
        32,
    );
    // The compiler says that it does not look at the upper half.
    clean(".pragma \"used_bytes_mask 15\"; ld.global.u64 %rd1, [%rd0+24];", 1);
    let (finding, p) = found(
        ".pragma \"used_bytes_mask 0xff0\"; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+32];",
        1,
        0,
    );
    assert_eq!(finding.kind, FindingKind::Unwritten { space: Space::Global, address: p + 36 });
}
