//! Instructions that touch registers alone.

use super::machine::Machine;
use super::step::{apply, joined};
use super::warp::{Frame, Warp};
use crate::alu::{LANES, Lane, Lanes, convert, splat};
use crate::memory::windows;
use crate::program::{CarryOp, Clock, Op, Source};

#[expect(clippy::too_many_lines, reason = "one arm for each instruction, most of one line")]
pub(super) fn execute(machine: &Machine<'_>, warp: &mut Warp, fragment: usize, mask: u32) {
    let at = &warp.fragments[fragment];
    let frame = at.frame;
    let constants = machine.constants.as_slice();
    match &machine.program.code[at.pc as usize].op {
        Op::Map1 { f, d, s: [a] } => {
            let out = f([warp.read(constants, frame, *a)]);
            warp.write(frame, *d, mask, &out);
        }
        Op::Map2 { f, d, s } => {
            let out = f(s.map(|s| warp.read(constants, frame, s)));
            warp.write(frame, *d, mask, &out);
        }
        Op::Map3 { f, d, s } => {
            let out = f(s.map(|s| warp.read(constants, frame, s)));
            warp.write(frame, *d, mask, &out);
        }
        Op::Map4 { f, d, s } => {
            let out = f(s.map(|s| warp.read(constants, frame, s)));
            warp.write(frame, *d, mask, &out);
        }
        Op::Float { f, d, s } => {
            let out = f.apply(s.map(|s| warp.read(constants, frame, s)));
            warp.write(frame, *d, mask, &out);
        }
        Op::Convert { conversion, d, a } => {
            let out = convert(*conversion, warp.read(constants, frame, *a));
            warp.write(frame, *d, mask, &out);
        }
        Op::ConvertPair { conversion, d, high, low } => {
            let [high, low] =
                [high, low].map(|s| convert(*conversion, warp.read(constants, frame, *s)));
            let out = std::array::from_fn(|lane| high[lane] << 16 | low[lane]);
            warp.write(frame, *d, mask, &out);
        }
        Op::Carry { op, d, a, b } => {
            let [a, b] = [a, b].map(|s| *warp.read(constants, frame, *s));
            let (out, carry) = carry(*op, warp.carry, &a, &b);
            if op.carry_out {
                warp.carry = (warp.carry & !mask) | (carry & mask);
            }
            warp.write(frame, *d, mask, &out);
        }
        Op::Compare { f, join, p, q, s } => {
            let bits = f(s.map(|s| warp.read(constants, frame, s)));
            let holds = joined(warp, frame, bits, *join);
            let fails = joined(warp, frame, !bits, *join);
            for (register, bits) in [(p, holds), (q, fails)] {
                if let Some(register) = register {
                    warp.write_predicate(frame, *register, mask, bits);
                }
            }
        }
        Op::Set { f, join, d, yes, s } => {
            let bits = f(s.map(|s| warp.read(constants, frame, s)));
            let bits = joined(warp, frame, bits, *join);
            let out = std::array::from_fn(|lane| if bits >> lane & 1 == 1 { *yes } else { 0 });
            warp.write(frame, *d, mask, &out);
        }
        Op::Select { d, s, p } => {
            let bits = warp.predicate(frame, *p);
            let [a, b] = s.map(|s| warp.read(constants, frame, s));
            let pick = |lane: usize| if bits >> lane & 1 == 1 { a[lane] } else { b[lane] };
            let out = std::array::from_fn(pick);
            warp.write(frame, *d, mask, &out);
        }
        Op::PredicateSet { d, a } => {
            let bits = warp.predicate(frame, *a);
            warp.write_predicate(frame, *d, mask, bits);
        }
        Op::PredicateMap { op, d, a, b } => {
            let bits = apply(*op, warp.predicate(frame, *a), warp.predicate(frame, *b));
            warp.write_predicate(frame, *d, mask, bits);
        }
        Op::Pack { d, parts, bits } => {
            let out = pack(warp, constants, frame, parts, *bits);
            warp.write(frame, *d, mask, &out);
        }
        Op::Unpack { parts, a, bits } => {
            let value = *warp.read(constants, frame, *a);
            let mut shift = 0;
            for part in parts {
                if let Some(d) = part {
                    let out = value.map(|value| value >> shift & ((1 << bits) - 1));
                    warp.write(frame, *d, mask, &out);
                }
                shift += bits;
            }
        }
        Op::Clock { clock, d } => {
            // One instruction, one tick.
            let now = machine.warp_instructions;
            let value = match clock {
                Clock::Low => u64::from(u32::read(now)),
                Clock::High => now >> 32,
                Clock::Full => now,
            };
            warp.write(frame, *d, mask, &splat(value));
        }
        Op::FrameAddress { d, offset } => {
            let address = offset.wrapping_add(frame.local.into());
            warp.write(frame, *d, mask, &splat(address));
        }
        Op::ConvertAddress { space, to_generic, d, a } => {
            let a = warp.read(constants, frame, *a);
            let out = a.map(|address| windows::convert(*space, *to_generic, address));
            warp.write(frame, *d, mask, &out);
        }
        Op::IsSpace { space, d, a } => {
            let a = *warp.read(constants, frame, *a);
            let is_in = |lane: usize| windows::is_in(*space, a[lane]);
            let bits = (0..LANES).fold(0, |bits, lane| bits | u32::from(is_in(lane)) << lane);
            warp.write_predicate(frame, *d, mask, bits);
        }
        Op::ActiveMask { d } => warp.write(frame, *d, mask, &splat(mask.into())),
        // Grids follow each other, memory is the same for all warps at once, and hints change nothing:
        // each is a point that later models hang on.
        _ => {}
    }
}

fn carry(op: CarryOp, carry_in: u32, a: &Lanes, b: &Lanes) -> (Lanes, u32) {
    let mut out = [0; LANES];
    let mut carry_out = 0;
    let limit = if op.bits == 32 { u128::from(u32::MAX) } else { u128::from(u64::MAX) };
    for lane in 0..LANES {
        let (a, b) = (u128::from(a[lane]) & limit, u128::from(b[lane]) & limit);
        let extra = u128::from(op.carry_in && carry_in >> lane & 1 == 1);
        // A difference borrows where it would be negative; the flag says so with a 1.
        let value = if op.subtract { a.wrapping_sub(b + extra) } else { a + b + extra };
        #[expect(clippy::cast_possible_truncation, reason = "the result is the low bits")]
        let low = (value & limit) as u64;
        out[lane] = low;
        carry_out |= u32::from(value > limit) << lane;
    }
    (out, carry_out)
}

fn pack(warp: &Warp, constants: &[Lanes], frame: Frame, parts: &[Source], bits: u32) -> Lanes {
    let mut out = [0; LANES];
    let mut shift = 0;
    for part in parts {
        let values = warp.read(constants, frame, *part);
        for lane in 0..LANES {
            out[lane] |= (values[lane] & ((1 << bits) - 1)) << shift;
        }
        shift += bits;
    }
    out
}
