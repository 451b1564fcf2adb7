//! What is refused when a text is read, and launches that cannot begin.

use frazil_ptx_sim::{Fault, Launch, LaunchError, Limits, LoadError, Memory, Module};

fn kernel(body: &str) -> String {
    format!(
        ".version 9.5 .target sm_90a .address_size 64
.visible .entry k(.param .u64 p) .maxntid 64, 2, 1 {{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<4>; .reg .b16 %rs<9>;
{body}
ret; }}"
    )
}

fn refusal(body: &str) -> LoadError {
    Module::parse(&kernel(body)).map(|_| ()).expect_err(body)
}

/// The body's lines begin at line 4.
#[test]
fn every_instruction_without_a_model_is_named_with_its_line() {
    let body = "add.s32 %r1, %r2, %r3;
wgmma.fence.sync.aligned;
mov.u32 %r1, %tid.x;
cp.async.bulk.commit_group;
cp.async.mbarrier.arrive.shared.b64 [%r1];
fence.proxy.async;
add.f32x2 %rd1, %rd2, %rd3;";
    let LoadError::Unmodelled(list) = refusal(body) else { panic!("{}", refusal(body)) };
    let named: Vec<_> = list.iter().map(|entry| (entry.instruction.as_str(), entry.line)).collect();
    let expected = [
        ("wgmma.fence.sync.aligned", 5),
        ("cp.async.bulk.commit_group", 7),
        ("cp.async.mbarrier.arrive.shared.b64", 8),
        ("fence.proxy.async", 9),
        ("add.f32x2", 10),
    ];
    assert_eq!(named, expected);
}

/// A modifier that changes what an instruction means must not be passed over.
#[test]
fn a_modifier_without_a_model_is_named() {
    let cases = [
        ("mul.lo.sat.s32 %r1, %r2, %r3;", "modifier `.sat`"),
        ("ld.global.multimem.u32 %r1, [%rd1];", "modifier `.multimem`"),
        ("cvt.rn.satfinite.f32.s32 %f1, %r1;", "modifier `.satfinite`"),
        ("shl.wrap.b32 %r1, %r2, %r3;", "modifier `.wrap`"),
        ("bar.sync.cluster 0;", "modifier `.cluster`"),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;", "type `.e4m3x2`"),
        ("cvt.rn.satfinite.bf16x2.f32 %r1, %f1, %f2;", "modifier `.satfinite`"),
        ("red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};", "more elements than one"),
        ("cp.async.mbarrier.arrive.b64 [%rd1];", "an arrival of copies at an `mbarrier`"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2},
             {%f1, %f2, %f3, %f4};",
            "k16 of types f32, f16, bf16, f32",
        ),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3];", "no such shape and type"),
        ("ex2.f32 %f1, %f2;", "without `.approx`"),
        ("div.rz.f32 %f1, %f2, %f3;", "no form for type F32"),
        ("ld.shared::cluster.u32 %r1, [%r2];", "shared memory of a cluster"),
        ("atom.global.add.s16 %rs1, [%rd1], %rs2;", "`.add` of type S16"),
    ];
    for (body, expected) in cases {
        let LoadError::Unmodelled(list) = refusal(body) else { panic!("{}", refusal(body)) };
        assert_eq!((list.len(), list[0].why.as_str()), (1, expected), "{body}");
    }
}

#[test]
fn contradictions_are_refused_with_their_line() {
    let cases = [
        ("add.s32 %r1, %r2, %rd3;", "`%rd3` has 64 bits where 32 are needed"),
        ("st.global.u64 [%rd1], %r1;", "`%r1` has 32 bits where 64 are needed"),
        ("ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];", "3 registers for 2 elements"),
        ("mov.u32 %r1, %r9;", "`%r9` is not known"),
        ("mov.u32 %r1, nothing;", "`nothing` is not known"),
        ("@%r1 ret;", "`%r1` is no predicate"),
        ("cvt.s32.f32 %r1, %f1;", "no rounding to an integer"),
        ("cvt.f32.s32 %f1, %r1;", "no rounding"),
        ("add.s32 %r1, %r2;", "2 operands"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 8;", "8 bytes, where `.cg` has 16"),
        ("cp.async.ca.shared.global [%r1], [%rd1], 12;", "12 bytes"),
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r3];",
            "2 registers where 4 are needed",
        ),
        ("ld.shared.u32 %r1, [p];", "`p` lies in the param space, not in the shared space"),
    ];
    for (body, expected) in cases {
        let LoadError::Invalid { line: 4, what } = refusal(body) else {
            panic!("{body}: {}", refusal(body))
        };
        assert!(what.ends_with(expected), "{body}: {what}");
    }
    let LoadError::Invalid { what, .. } = refusal("bra nowhere;") else { panic!() };
    assert_eq!(what, "`nowhere` is no label here");
    let LoadError::Invalid { what, .. } = refusal(".reg .b32 %x<2000000>;") else { panic!() };
    assert_eq!(what, "more than 1048576 registers");
    let LoadError::Invalid { what, .. } = refusal(".local .b8 x[4294967296];") else { panic!() };
    assert_eq!(what, "`x` is too large");
}

#[test]
fn launches_that_cannot_begin_say_why() {
    let module = Module::parse(&kernel(".shared .align 8 .b8 s[100];\nmov.u32 %r1, s;")).unwrap();
    let entry = module.entry("k").unwrap();
    assert_eq!(entry.static_shared_bytes(), 100);
    assert_eq!((entry.parameter_bytes(), entry.max_threads()), (8, Some([64, 2, 1])));
    assert!(module.entry("l").is_none());
    let mut memory = Memory::new(1 << 20);
    let image = module.load(&mut memory).unwrap();
    let mut refused = |launch: Launch<'_>| {
        let fault = image.kernel("k").unwrap().run(&mut memory, &launch).unwrap_err();
        let Fault::Refused(error) = fault else { panic!("{fault}") };
        error
    };
    let params = [0; 8];
    let good = Launch::new([4, 1, 1], [128, 1, 1], &params);
    let grid = Launch { grid: [1, 0, 1], ..good.clone() };
    assert_eq!(refused(grid), LaunchError::Grid([1, 0, 1]));
    let block = Launch { block: [1025, 1, 1], ..good.clone() };
    assert_eq!(refused(block), LaunchError::Block([1025, 1, 1]));
    let block = Launch { block: [160, 1, 1], ..good.clone() };
    let expected = LaunchError::Directive { block: [160, 1, 1], allowed: [64, 2, 1] };
    assert_eq!(refused(block), expected);
    let cluster = Launch { cluster: [3, 1, 1], ..good.clone() };
    assert_eq!(refused(cluster), LaunchError::Cluster([3, 1, 1]));
    let few = Launch { params: &params[..7], ..good.clone() };
    assert_eq!(refused(few), LaunchError::Parameters { given: 7, expected: 8 });
    let limits = Limits { shared_bytes: 1024, ..Limits::default() };
    let shared = Launch { dynamic_shared_bytes: 1000, limits, ..good.clone() };
    assert_eq!(refused(shared), LaunchError::SharedMemory { needed: 1112, limit: 1024 });
    image.kernel("k").unwrap().run(&mut memory, &good).unwrap();
}

/// Any prefix of a text, and any text with one byte changed, is read or refused, and does not panic.
#[test]
fn broken_texts_are_refused_without_a_panic() {
    for text in [
        include_str!("fixtures/calls.compute_80.ptx"),
        include_str!("fixtures/warp_ops.compute_100a.ptx"),
    ] {
        for end in (0..text.len()).step_by(37) {
            let _refused_or_not = Module::parse(&text[..end]);
        }
        for at in (0..text.len()).step_by(11) {
            for byte in ["{", ".", "9", "%", ";", "\"", "["] {
                let mut broken = text.to_owned();
                broken.replace_range(at..=at, byte);
                let _refused_or_not = Module::parse(&broken);
            }
        }
    }
    let nested = kernel(&"{".repeat(100_000));
    assert!(Module::parse(&nested).is_err());
}
