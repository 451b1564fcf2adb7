//! Calls: frames of registers and of local memory (PTX ISA 7.1).

use super::Stopped;
use super::machine::Machine;
use super::warp::{FragmentState, Frame, Return, Warp, lanes};
use crate::finding::FindingKind;
use crate::program::{Call, Op, Passed, Program};

/// Frames begin at multiples of this many bytes, which no local variable's alignment exceeds in
/// effect: accesses have at most 32 bytes.
const FRAME_ALIGN: u32 = 64;

/// Bytes of a thread's local memory: what the deepest calls need, or `limit` where calls recur.
pub(super) fn stack_bytes(program: &Program, function: usize, limit: u32) -> u32 {
    let mut depth = vec![Depth::Unknown; program.functions.len()];
    let bytes = deepest(program, function, &mut depth);
    bytes.unwrap_or(limit).max(1).next_multiple_of(FRAME_ALIGN)
}

#[derive(Clone, Copy)]
enum Depth {
    Unknown,
    /// A call of it here is a recursion.
    Open,
    Known(u32),
}

/// `None` for calls that recur. The walk keeps its own stack, since a text decides how deep calls are.
fn deepest(program: &Program, root: usize, depth: &mut [Depth]) -> Option<u32> {
    let callees = callees(program);
    let mut path = vec![(root, 0)];
    depth[root] = Depth::Open;
    loop {
        let (function, next) = path.last_mut()?;
        let function = *function;
        if let Some(callee) = callees[function].get(*next) {
            *next += 1;
            match depth[*callee] {
                Depth::Known(_) => {}
                Depth::Open => return None,
                Depth::Unknown => {
                    depth[*callee] = Depth::Open;
                    path.push((*callee, 0));
                }
            }
            continue;
        }
        let below = callees[function].iter().filter_map(|callee| match depth[*callee] {
            Depth::Known(bytes) => Some(bytes),
            Depth::Unknown | Depth::Open => None,
        });
        let own = program.functions[function].frame_bytes.next_multiple_of(FRAME_ALIGN);
        let bytes = own.saturating_add(below.max().unwrap_or(0)).min(1 << 20);
        depth[function] = Depth::Known(bytes);
        path.pop();
        if path.is_empty() {
            return Some(bytes);
        }
    }
}

/// Functions that each function calls.
fn callees(program: &Program) -> Vec<Vec<usize>> {
    let begins: Vec<_> = program.functions.iter().map(|function| function.begin).collect();
    let mut callees = vec![Vec::new(); begins.len()];
    for (pc, instruction) in program.code.iter().enumerate() {
        if let Op::Call(call) = &instruction.op {
            // Functions stand in the code in their order; a declaration has no instructions, so the
            // last one that begins here or before is meant.
            let after = begins.partition_point(|begin| *begin as usize <= pc);
            let list: &mut Vec<usize> = &mut callees[after.saturating_sub(1)];
            if !list.contains(&call.function) {
                list.push(call.function);
            }
        }
    }
    callees
}

/// Lanes of a fragment enter a function. All lanes of the fragment must take part.
pub(super) fn enter(
    machine: &mut Machine<'_>,
    warp: &mut Warp,
    fragment: usize,
    call: &Call,
) -> Result<(), Stopped> {
    let program = machine.program;
    let at = &warp.fragments[fragment];
    let (pc, mask, frame) = (at.pc, at.mask, at.frame);
    let caller = &program.functions[frame.function];
    let callee = &program.functions[call.function];
    let inside = Frame {
        function: call.function,
        registers: frame.registers + caller.num_registers,
        predicates: frame.predicates + caller.num_predicates,
        local: frame.local + caller.frame_bytes.next_multiple_of(FRAME_ALIGN),
    };
    if inside.local + callee.frame_bytes > machine.stack_bytes || at.stack.len() > 1 << 14 {
        let limit = machine.stack_bytes;
        return machine.report_lanes(FindingKind::StackOverflow { limit }, pc, warp, mask);
    }
    let junk = [machine.random.next(); crate::alu::LANES];
    let registers = (inside.registers + callee.num_registers) as usize;
    if warp.registers.len() < registers {
        warp.registers.resize(registers, junk);
    }
    let predicates = (inside.predicates + callee.num_predicates) as usize;
    if warp.predicates.len() < predicates {
        warp.predicates.resize(predicates, 0);
    }
    let stride = machine.stack_bytes as usize;
    for lane in lanes(mask) {
        let begin = lane * stride + inside.local as usize;
        warp.local.mark(begin, callee.frame_bytes as usize, false);
    }
    pass(warp, mask, stride, &call.arguments, |passed| {
        (frame.local + passed.caller, inside.local + passed.callee)
    });
    let at = &mut warp.fragments[fragment];
    at.stack.push(Return { call: pc, frame });
    at.frame = inside;
    at.pc = callee.begin;
    Ok(())
}

/// Lanes return to the caller, or exit where there is none.
pub(super) fn leave(machine: &Machine<'_>, warp: &mut Warp, fragment: usize, mask: u32) {
    let at = &mut warp.fragments[fragment];
    let Some(Return { call, frame }) = at.stack.last().copied() else {
        warp.exit(mask);
        return;
    };
    let inside = at.frame;
    if at.mask == mask {
        at.stack.pop();
        (at.pc, at.frame) = (call + 1, frame);
    } else {
        warp.split(fragment, mask, call + 1, FragmentState::Ready);
        if let Some(split) = warp.fragments.last_mut() {
            split.stack.pop();
            split.frame = frame;
        }
    }
    if let Op::Call(call) = &machine.program.code[call as usize].op {
        let stride = machine.stack_bytes as usize;
        pass(warp, mask, stride, &call.results, |passed| {
            (inside.local + passed.callee, frame.local + passed.caller)
        });
    }
}

/// Copies parameters between frames, with what is known of each byte.
fn pass(
    warp: &mut Warp,
    mask: u32,
    stride: usize,
    list: &[Passed],
    from_to: impl Fn(&Passed) -> (u32, u32),
) {
    for lane in lanes(mask) {
        for passed in list {
            let (from, to) = from_to(passed);
            let (from, to) = (lane * stride + from as usize, lane * stride + to as usize);
            warp.local.copy_within(from, to, passed.bytes as usize);
        }
    }
}
