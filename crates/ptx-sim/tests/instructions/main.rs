//! Every form of every instruction that computes, against the same computed in Rust.
//!
//! A case is the text of one or more instructions over registers that a frame of PTX around it loads, and a function of
//! the same operands. Threads take all triples of the operands below, so that signs, wraps and limits are met.

#![expect(clippy::cast_possible_truncation, reason = "low bits are what is compared")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod bits;
mod convert;
mod copy;
mod exchange;
mod float;
mod integer;
mod matrix;
mod memory;
mod mov;
mod packed;
mod synchronise;
mod vectors;
mod warp;

use frazil_ptx_sim::{Launch, Memory, Module};

/// Values that lie at the limits of all widths, and some that lie nowhere in particular.
const OPERANDS: [u64; 12] = [
    0,
    1,
    3,
    31,
    0x0000_0000_0000_0080,
    0x0000_0000_0000_8001,
    0x0000_0000_8000_0000,
    0x0000_0001_7fff_ffff,
    0xffff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x0123_4567_89ab_cdef,
    0xfedc_ba98_7654_3210,
];

/// The width of the register that holds the result.
#[derive(Clone, Copy, Debug)]
enum Out {
    /// `%d`
    B32,
    /// `%dl`
    B64,
    /// `%dh`
    B16,
}

struct Case {
    /// Operands: `%a %b %c` of 32 bits, `%al %bl %cl` of 64, `%ah %bh %ch` of 16, `%p` set where c is odd. Results: `%d`,
    /// `%dl`, `%dh`. Free: `%q`, `%s`, `%sl`, `%sh`.
    text: &'static str,
    out: Out,
    expect: fn(u64, u64, u64) -> u64,
}

fn case(text: &'static str, out: Out, expect: fn(u64, u64, u64) -> u64) -> Case {
    Case { text, out, expect }
}

fn frame(text: &str) -> String {
    format!(
        "
.version 9.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 operands, .param .u64 results)
{{
    .reg .pred %p, %q;
    .reg .b16 %ah, %bh, %ch, %dh, %sh;
    .reg .b32 %a, %b, %c, %d, %s, %thread;
    .reg .b64 %al, %bl, %cl, %dl, %sl, %at;
    mov.u32 %thread, %ctaid.x;
    mad.lo.s32 %thread, %thread, 64, 0;
    mov.u32 %s, %tid.x;
    add.s32 %thread, %thread, %s;
    ld.param.u64 %at, [operands];
    mul.wide.u32 %al, %thread, 24;
    add.s64 %at, %at, %al;
    ld.global.u64 %al, [%at];
    ld.global.u64 %bl, [%at+8];
    ld.global.u64 %cl, [%at+16];
    cvt.u32.u64 %a, %al;
    cvt.u32.u64 %b, %bl;
    cvt.u32.u64 %c, %cl;
    cvt.u16.u64 %ah, %al;
    cvt.u16.u64 %bh, %bl;
    cvt.u16.u64 %ch, %cl;
    and.b32 %s, %c, 1;
    setp.ne.u32 %p, %s, 0;
    mov.u32 %d, 0;
    mov.u64 %dl, 0;
    mov.u16 %dh, 0;
    ld.param.u64 %at, [operands];
    mul.wide.u32 %sl, %thread, 24;
    add.s64 %at, %at, %sl;
    {text}
    ld.param.u64 %at, [results];
    mul.wide.u32 %sl, %thread, 24;
    add.s64 %at, %at, %sl;
    st.global.u32 [%at], %d;
    st.global.u64 [%at+8], %dl;
    st.global.u16 [%at+16], %dh;
    ret;
}}"
    )
}

/// Results of 32, 64 and 16 bits for each triple of operands.
fn run(text: &str, triples: &[[u64; 3]]) -> Vec<[u64; 3]> {
    let module = Module::parse(&frame(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = Memory::new(1 << 24);
    let blocks = triples.len().div_ceil(64);
    let mut bytes: Vec<u8> = triples.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    bytes.resize(blocks * 64 * 24, 0);
    let operands = memory.alloc(bytes.len() as u64, 16).unwrap();
    memory.write(operands, &bytes).unwrap();
    let results = memory.alloc(bytes.len() as u64, 16).unwrap();
    let params = [operands, results].map(u64::to_le_bytes).concat();
    let image = module.load(&mut memory).unwrap();
    let launch = Launch::new([blocks as u32, 1, 1], [64, 1, 1], &params);
    let report = image.kernel("k").unwrap().run(&mut memory, &launch);
    let report = report.unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert_eq!(report.findings, [], "{text}");
    memory.read(results, &mut bytes).unwrap();
    let word = |at: usize, len: usize| {
        let mut word = [0; 8];
        word[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(word)
    };
    let threads = 0..triples.len();
    threads.map(|t| [word(24 * t, 4), word(24 * t + 8, 8), word(24 * t + 16, 2)]).collect()
}

fn triples(operands: &[u64]) -> Vec<[u64; 3]> {
    let pairs = operands.iter().flat_map(|a| operands.iter().map(move |b| (*a, *b)));
    pairs.flat_map(|(a, b)| operands.iter().map(move |c| [a, b, *c])).collect()
}

fn check_over(cases: &[Case], operands: &[u64]) {
    let triples = triples(operands);
    for case in cases {
        let results = run(case.text, &triples);
        for ([a, b, c], result) in triples.iter().zip(results) {
            let (got, mask) = match case.out {
                Out::B32 => (result[0], u64::from(u32::MAX)),
                Out::B64 => (result[1], u64::MAX),
                Out::B16 => (result[2], u64::from(u16::MAX)),
            };
            let expected = (case.expect)(*a, *b, *c) & mask;
            let text = case.text;
            assert_eq!(got, expected, "{text} {a:#x} {b:#x} {c:#x}: {got:#x}, not {expected:#x}");
        }
    }
}

fn check(cases: &[Case]) {
    check_over(cases, &OPERANDS);
}
