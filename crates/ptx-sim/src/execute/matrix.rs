//! Matrices of a whole warp (PTX ISA, `ldmatrix`, `stmatrix`, `movmatrix`, `mma`).
//!
//! All 32 threads of a warp execute such an instruction together: those that come first wait, and one that has exited
//! makes the behaviour undefined.

use super::Stopped;
use super::access::{Accesses, Instruction, Target, addresses};
use super::block::Common;
use super::machine::Machine;
use super::step::Flow;
use super::warp::{FragmentState, Frame, Warp};
use crate::alu::{LANES, Lanes, MatrixRows, collect, spread, transpose};
use crate::finding::FindingKind;
use crate::program::{Access, MatrixAccess, MatrixProductOp, Op, Order, Register, Source};
use crate::types::Space;

/// Rows of a matrix, each of 16 bytes.
const ROWS: usize = 8;
const ROW_BYTES: u8 = 16;

pub(super) fn execute(
    machine: &mut Machine<'_>,
    common: &mut Common,
    warp: &mut Warp,
    fragment: usize,
    mask: u32,
) -> Result<Flow, Stopped> {
    let at = &warp.fragments[fragment];
    let (pc, frame, whole) = (at.pc, at.frame, at.mask);
    if mask != u32::MAX {
        if warp.live != u32::MAX {
            let kind = FindingKind::PartialWarp { missing: !warp.live };
            machine.report_lanes(kind, pc, warp, mask)?;
        }
        // Lanes whose guard fails go on; the others wait here for all to come.
        if mask == whole {
            warp.fragments[fragment].state = FragmentState::Converging;
        } else {
            warp.split(fragment, mask, pc, FragmentState::Converging);
            warp.fragments[fragment].pc += 1;
        }
        return Ok(Flow::Changed);
    }
    let program = machine.program;
    match &program.code[pc as usize].op {
        Op::LoadMatrix(op) => load(&mut accesses(machine, common, warp, (pc, frame), op), op)?,
        Op::StoreMatrix(op) => store(&mut accesses(machine, common, warp, (pc, frame), op), op)?,
        Op::TransposeMatrix { d, a } => {
            let rows = collect(warp.read(&machine.constants, frame, *a));
            warp.write(frame, *d, mask, &spread(&transpose(&rows)));
        }
        Op::MatrixProduct(op) => multiply(machine, warp, frame, op),
        _ => {}
    }
    Ok(Flow::Next)
}

fn multiply(machine: &Machine<'_>, warp: &mut Warp, frame: Frame, op: &MatrixProductOp) {
    let read = |source: Source| warp.read(&machine.constants, frame, source);
    let [num_a, num_b, num_c] = op.product.registers();
    let (a, b, c) = (op.a.map(read), op.b.map(read), op.c.map(read));
    let out = op.product.compute(&a[..num_a], &b[..num_b], &c[..num_c]);
    for (d, out) in op.d.iter().zip(&out) {
        if let Some(d) = d {
            warp.write(frame, *d, u32::MAX, out);
        }
    }
}

/// A row as one access of its lane.
fn row_access(space: Space) -> &'static Access {
    const ROW: Access = Access {
        space: Space::Shared,
        bytes: ROW_BYTES / 2,
        count: 2,
        signed: false,
        order: Order::Weak,
    };
    static SHARED: Access = ROW;
    static GENERIC: Access = Access { space: Space::Generic, ..ROW };
    if space == Space::Shared { &SHARED } else { &GENERIC }
}

fn accesses<'a, 'm, T>(
    machine: &'a mut Machine<'m>,
    common: &'a mut Common,
    warp: &'a mut Warp,
    (pc, frame): (u32, Frame),
    op: &MatrixAccess<T>,
) -> Accesses<'a, 'm, 'static> {
    let addresses = addresses(warp, &machine.constants, frame, op.address);
    let access = row_access(op.space);
    let instruction =
        Instruction { pc, frame, mask: u32::MAX, access, addresses, is_collective: true };
    Accesses { machine, common, warp, instruction }
}

/// Lanes 0 to 7 address the rows of the first matrix, 8 to 15 those of the second, and so on.
fn load(this: &mut Accesses<'_, '_, '_>, op: &MatrixAccess<Register>) -> Result<(), Stopped> {
    let mut matrices: [MatrixRows; LANES / ROWS] = Default::default();
    for lane in 0..ROWS * op.registers.len() {
        let at = locate(this, lane, false)?;
        let target = Target::Shared { at };
        this.check_written(lane, target, u32::MAX)?;
        this.note(lane, target, false)?;
        let shared = &this.common.shared;
        let [low, high] = [shared.load(at, 8), shared.load(at + 8, 8)];
        matrices[lane / ROWS][lane % ROWS] = u128::from(low) | u128::from(high) << 64;
    }
    let frame = this.instruction.frame;
    for (d, rows) in op.registers.iter().zip(&matrices) {
        let out = if op.transposed { spread(&transpose(rows)) } else { spread(rows) };
        this.warp.write(frame, *d, u32::MAX, &out);
    }
    Ok(())
}

fn store(this: &mut Accesses<'_, '_, '_>, op: &MatrixAccess<Source>) -> Result<(), Stopped> {
    let frame = this.instruction.frame;
    for (index, source) in op.registers.iter().enumerate() {
        let registers: &Lanes = this.warp.read(&this.machine.constants, frame, *source);
        let rows = collect(registers);
        let rows = if op.transposed { transpose(&rows) } else { rows };
        for (row, bits) in rows.into_iter().enumerate() {
            let lane = ROWS * index + row;
            let at = locate(this, lane, true)?;
            this.note(lane, Target::Shared { at }, true)?;
            this.common.shared.write(at, &bits.to_le_bytes());
        }
    }
    Ok(())
}

/// The row that a lane addresses, which lies in shared memory.
fn locate(this: &mut Accesses<'_, '_, '_>, lane: usize, writes: bool) -> Result<usize, Stopped> {
    match this.locate(lane, writes)? {
        Target::Shared { at } => Ok(at),
        Target::Memory { .. } | Target::Local { .. } | Target::Param { .. } => {
            let (space, address) = (Space::Shared, this.instruction.addresses[lane]);
            let bytes = u32::from(ROW_BYTES);
            this.refuse(FindingKind::OutOfBounds { space, address, bytes }, lane)?;
            Err(Stopped)
        }
    }
}
