//! Every detector, seen red on a program with one violation, and green on the same program without it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod copies;
mod matrices;
mod memory;
mod races;
mod waits;

use frazil_ptx_sim::{Fault, Finding, FindingKind, Launch, Limits, Memory, Module, Report};

/// A kernel over `[p]`, 64 bytes of which the first 32 are written, and a shared array `s` of 512 bytes.
pub(crate) fn kernel(body: &str) -> String {
    format!(
        ".version 9.5 .target sm_90a .address_size 64
.file 1 \"k.cu\"
.const .align 4 .u32 c = 7;
.shared .align 16 .b8 s[512];
.visible .entry k(.param .u64 p) {{
.reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r10, s; shl.b32 %r11, %r0, 2; add.s32 %r12, %r10, %r11;
ld.param.u64 %rd0, [p];
.loc 1 42 3
{body}
ret; }}"
    )
}

/// Runs the kernel with one block, and gives its address of `[p]` as well.
pub(crate) fn run(body: &str, threads: u32, seed: u64) -> (Result<Report, Fault>, u64) {
    let module = Module::parse(&kernel(body)).unwrap_or_else(|error| panic!("{body}: {error}"));
    let mut memory = Memory::new(1 << 20);
    let image = module.load(&mut memory).unwrap();
    let p = memory.alloc(64, 64).unwrap();
    memory.fill(p, 32, 1).unwrap();
    let params = p.to_le_bytes();
    let limits = Limits { instructions: 100_000, ..Limits::default() };
    let launch = Launch { seed, limits, ..Launch::new([1; 3], [threads, 1, 1], &params) };
    (image.kernel("k").unwrap().run(&mut memory, &launch), p)
}

/// What ended the launch.
pub(crate) fn stopped(body: &str, threads: u32) -> (Finding, u64) {
    match run(body, threads, 1) {
        (Err(Fault::Stopped { finding, .. }), p) => (*finding, p),
        (other, _) => panic!("{body}: {other:?}"),
    }
}

/// The only finding of a launch that came to its end.
pub(crate) fn found(body: &str, threads: u32, seed: u64) -> (Finding, u64) {
    match run(body, threads, seed) {
        (Ok(report), p) if report.findings.len() == 1 => (report.findings[0].clone(), p),
        (other, _) => panic!("{body}: {other:?}"),
    }
}

pub(crate) fn clean(body: &str, threads: u32) {
    for seed in 0..20 {
        let report = run(body, threads, seed).0.unwrap_or_else(|fault| panic!("{body}: {fault}"));
        assert_eq!(report.findings, [], "{body}");
    }
}

#[test]
fn accesses_out_of_bounds_are_found() {
    memory::out_of_bounds();
}

#[test]
fn a_finding_names_its_instruction_line_and_thread() {
    let (finding, _) = stopped("setp.eq.s32 %p0, %r0, 37;\n@%p0 trap;", 64);
    assert_eq!(finding.kind, FindingKind::Trap);
    assert_eq!((finding.place.instruction.as_str(), finding.place.ptx_line), ("trap", 11));
    let source = finding.place.source.unwrap();
    assert_eq!((source.file.as_str(), source.line), ("k.cu", 42));
    assert_eq!((finding.thread.block, finding.thread.thread), ([0; 3], [37, 0, 0]));
}
