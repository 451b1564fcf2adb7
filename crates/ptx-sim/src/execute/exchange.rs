//! Exchanges between the lanes of a warp (PTX ISA, `shfl.sync`, `vote.sync`, `match.sync`,
//! `redux.sync`, `elect.sync`, `bar.warp.sync`).
//!
//! The threads that a mask names execute an exchange together: those that come first wait for the others, which have
//! not exited, at the same instruction.

use super::Stopped;
use super::machine::Machine;
use super::step::Flow;
use super::warp::{FragmentState, Frame, Warp, lanes};
use crate::alu::{LANES, Lane, Lanes, splat};
use crate::finding::FindingKind;
use crate::program::{Modify, Op, PredicateRegister, Register, ShuffleMode, Source, VoteMode};

pub(super) fn execute(
    machine: &mut Machine<'_>,
    warp: &mut Warp,
    fragment: usize,
    mask: u32,
) -> Result<Flow, Stopped> {
    let at = &warp.fragments[fragment];
    let (pc, frame, whole) = (at.pc, at.frame, at.mask);
    let program = machine.program;
    let op = &program.code[pc as usize].op;
    let Some(members) = members(op) else { return Ok(Flow::Next) };
    let members = warp.read(&machine.constants, frame, members).map(u32::read);
    let outside = lanes(mask).filter(|lane| members[*lane] >> lane & 1 == 0);
    let outside = outside.fold(0, |bits, lane| bits | 1 << lane);
    if outside != 0 {
        machine.report_lanes(FindingKind::NotMember { lanes: outside }, pc, warp, outside)?;
    }
    if let Op::WarpSync { .. } = op {
        return Ok(warp_sync(warp, fragment, mask, &members));
    }
    // Lanes whose members, as far as they live, are all here with the same mask.
    let mut together = 0;
    let mut groups = Vec::new();
    let mut left = mask;
    while left != 0 {
        let group = members[left.trailing_zeros() as usize];
        let same = lanes(mask).filter(|lane| members[*lane] == group);
        let same = same.fold(0, |bits, lane| bits | 1 << lane);
        left &= !same;
        if group & warp.live == same {
            together |= same;
            groups.push(same);
        }
    }
    for group in groups {
        exchange(machine, warp, frame, pc, group)?;
    }
    if together == mask {
        return Ok(Flow::Next);
    }
    // The rest waits here; the others go on.
    let waiting = mask & !together;
    if whole != waiting {
        warp.split(fragment, waiting, pc, FragmentState::Converging);
        warp.fragments[fragment].pc += 1;
    } else {
        warp.fragments[fragment].state = FragmentState::Converging;
    }
    Ok(Flow::Changed)
}

fn members(op: &Op) -> Option<Source> {
    match op {
        Op::WarpSync { mask }
        | Op::Shuffle { mask, .. }
        | Op::Vote { mask, .. }
        | Op::Match { mask, .. }
        | Op::Reduce { mask, .. }
        | Op::Elect { mask, .. } => Some(*mask),
        _ => None,
    }
}

/// `bar.warp.sync` may be reached at different instructions, so lanes wait until all members wait.
fn warp_sync(warp: &mut Warp, fragment: usize, mask: u32, members: &[u32; LANES]) -> Flow {
    let pc = warp.fragments[fragment].pc;
    let first = members[mask.trailing_zeros() as usize];
    let uniform = lanes(mask).all(|lane| members[lane] == first);
    if uniform && first & warp.live == mask {
        warp.syncs += 1;
        return Flow::Next;
    }
    let mut left = mask;
    while left != 0 {
        let group = members[left.trailing_zeros() as usize];
        let same = lanes(left).filter(|lane| members[*lane] == group);
        let same = same.fold(0, |bits, lane| bits | 1 << lane);
        left &= !same;
        warp.split(fragment, same, pc + 1, FragmentState::AtWarpSync(group));
    }
    warp.fragments[fragment].pc += 1;
    let _done = complete_warp_sync(warp);
    Flow::Changed
}

/// Lets lanes go whose members all wait; whether there were any.
pub(super) fn complete_warp_sync(warp: &mut Warp) -> bool {
    let mut any = false;
    for index in 0..warp.fragments.len() {
        let FragmentState::AtWarpSync(members) = warp.fragments[index].state else { continue };
        let waiting = |fragment: &&super::warp::Fragment| {
            fragment.state == FragmentState::AtWarpSync(members)
        };
        let come = warp.fragments.iter().filter(waiting).fold(0, |bits, f| bits | f.mask);
        if members & warp.live & !come == 0 {
            for fragment in &mut warp.fragments {
                if fragment.state == FragmentState::AtWarpSync(members) {
                    fragment.state = FragmentState::Ready;
                    any = true;
                }
            }
        }
    }
    warp.syncs += u32::from(any);
    any
}

fn exchange(
    machine: &mut Machine<'_>,
    warp: &mut Warp,
    frame: Frame,
    pc: u32,
    group: u32,
) -> Result<(), Stopped> {
    let program = machine.program;
    match &program.code[pc as usize].op {
        Op::Shuffle { mode, d, p, s, .. } => {
            let s = s.map(|s| *warp.read(&machine.constants, frame, s));
            shuffle(machine, warp, (frame, pc, group), *mode, (*d, *p), &s)
        }
        Op::Vote { mode, d, a, .. } => {
            let holds = warp.predicate(frame, *a) & group;
            let all = |value: bool| if value { u32::MAX } else { 0 };
            let bits = match mode {
                VoteMode::Ballot(d) => {
                    warp.write(frame, *d, group, &splat(holds.into()));
                    return Ok(());
                }
                VoteMode::All => all(holds == group),
                VoteMode::Any => all(holds != 0),
                VoteMode::Uniform => all(holds == group || holds == 0),
            };
            if let Some(d) = d {
                warp.write_predicate(frame, *d, group, bits);
            }
            Ok(())
        }
        Op::Match { all, bits, d, p, a, .. } => {
            let values = *warp.read(&machine.constants, frame, *a);
            let low = |value: u64| if *bits == 32 { u64::from(u32::read(value)) } else { value };
            matching(warp, (frame, group), *all, (*d, *p), &values.map(low));
            Ok(())
        }
        Op::Reduce { f, d, a, .. } => {
            let values = *warp.read(&machine.constants, frame, *a);
            warp.write(frame, *d, group, &splat(reduce(*f, &values, group)));
            Ok(())
        }
        Op::Elect { d, p, .. } => {
            // Any lane may be elected, but always the same for one mask.
            let leader = group.trailing_zeros();
            warp.write(frame, *d, group, &splat(leader.into()));
            warp.write_predicate(frame, *p, group, 1 << leader);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn shuffle(
    machine: &mut Machine<'_>,
    warp: &mut Warp,
    (frame, pc, group): (Frame, u32, u32),
    mode: ShuffleMode,
    (d, p): (Register, Option<PredicateRegister>),
    [a, b, c]: &[Lanes; 3],
) -> Result<(), Stopped> {
    let mut out = [0; LANES];
    let mut holds = 0;
    for lane in lanes(group) {
        let (source, inside) = source_lane(lane, mode, u32::read(b[lane]), u32::read(c[lane]));
        if group >> source & 1 == 0 {
            let number = u32::try_from(source).unwrap_or(u32::MAX);
            let kind = FindingKind::InactiveLane { lane: number };
            machine.report_lanes(kind, pc, warp, 1 << lane)?;
        }
        out[lane] = a[source];
        holds |= u32::from(inside) << lane;
    }
    warp.write(frame, d, group, &out);
    if let Some(p) = p {
        warp.write_predicate(frame, p, group, holds);
    }
    Ok(())
}

/// The lane that a lane reads, and whether it lies in its segment (PTX ISA, `shfl.sync`).
fn source_lane(lane: usize, mode: ShuffleMode, b: u32, c: u32) -> (usize, bool) {
    let lane = u32::try_from(lane).unwrap_or(0);
    let b = b & 31;
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let highest = (lane & segment) | (clamp & !segment);
    let (source, inside) = match mode {
        ShuffleMode::Up => {
            let source = lane.wrapping_sub(b);
            (source, source.cast_signed() >= highest.cast_signed())
        }
        ShuffleMode::Down => (lane + b, lane + b <= highest),
        ShuffleMode::Butterfly => (lane ^ b, lane ^ b <= highest),
        ShuffleMode::Index => {
            let source = (lane & segment) | (b & !segment);
            (source, source <= highest)
        }
    };
    (if inside { source } else { lane } as usize % LANES, inside)
}

fn matching(
    warp: &mut Warp,
    (frame, group): (Frame, u32),
    all: bool,
    (d, p): (Register, Option<PredicateRegister>),
    values: &Lanes,
) {
    let same_as = |lane: usize| {
        let same = lanes(group).filter(|other| values[*other] == values[lane]);
        same.fold(0_u32, |bits, lane| bits | 1 << lane)
    };
    let mut out = [0; LANES];
    for lane in lanes(group) {
        let same = same_as(lane);
        out[lane] = u64::from(if all && same != group { 0 } else { same });
    }
    warp.write(frame, d, group, &out);
    if let Some(p) = p {
        let agree = same_as(group.trailing_zeros() as usize) == group;
        warp.write_predicate(frame, p, group, if agree { u32::MAX } else { 0 });
    }
}

fn reduce(f: Modify, values: &Lanes, group: u32) -> u64 {
    let mut members = lanes(group);
    let first = members.next().map_or(0, |lane| values[lane]);
    members.fold(first, |sum, lane| f(sum, values[lane], 0))
}
