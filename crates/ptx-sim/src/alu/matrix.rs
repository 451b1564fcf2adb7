//! Products of matrices whose elements are spread over the lanes of a warp (PTX ISA, `mma`, `ldmatrix`).
//!
//! A product of two elements is exact. The products of one element of D are added to that of C one after the other, in
//! the order of k, each sum rounded to f32, to the nearest; D of f16 is rounded once more, at the end. The ISA asks for
//! at least the precision of the accumulator and leaves order, rounding and subnormal numbers open (PTX ISA,
//! "Multiply-and-Accumulate Instruction: mma", floating-point operations): a GPU's last bits may differ.

use super::half::{self, Rounding};
use super::{LANES, Lane, Lanes};

/// Rows of A, C and D, and columns of B, C and D: the shapes are `m16n8`.
const ROWS: usize = 16;
const COLUMNS: usize = 8;
/// Most elements of a row of A.
const MAX_DEPTH: usize = 16;

/// What A and B hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixElement {
    F16,
    BF16,
    /// An f32 whose lower 13 bits are not looked at.
    TF32,
}

/// What C and D hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    F32,
    /// Two in each register.
    F16,
}

/// The form of an `mma`: m is 16 and n is 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixProduct {
    pub(crate) element: MatrixElement,
    pub(crate) accumulator: Accumulator,
    pub(crate) k: usize,
}

impl MatrixElement {
    /// Elements of one register.
    fn packed(self) -> usize {
        if self == Self::TF32 { 1 } else { 2 }
    }
}

impl MatrixProduct {
    /// Registers of A, of B, and of C or D.
    pub(crate) fn registers(self) -> [usize; 3] {
        let of_b = self.k / (4 * self.element.packed());
        let of_d = if self.accumulator == Accumulator::F16 { 2 } else { 4 };
        [2 * of_b, of_b, of_d]
    }

    /// D = A B + C, each by its registers.
    pub(crate) fn compute(self, a: &[&Lanes], b: &[&Lanes], c: &[&Lanes]) -> [Lanes; 4] {
        let half = |register: u64, index: usize| u16::read(register >> (16 * index));
        let (rows, columns) = match self.element {
            MatrixElement::F16 => factors::<2>(a, b, |x, i| half::f16_to_f32(half(x, i))),
            MatrixElement::BF16 => factors::<2>(a, b, |x, i| half::bf16_to_f32(half(x, i))),
            MatrixElement::TF32 => factors::<1>(a, b, |x, _| f32::read(x & 0xffff_e000)),
        };
        let mut sums = self.gather(c);
        for (sums, row) in sums.iter_mut().zip(&rows) {
            // A copy, so that eight sums stay in registers.
            let mut of_row = *sums;
            for (factor, column) in row.iter().zip(&columns).take(self.k) {
                for (sum, value) in of_row.iter_mut().zip(column) {
                    *sum += factor * value;
                }
            }
            *sums = of_row;
        }
        self.scatter(&sums)
    }

    /// C from its registers: a lane holds two neighbours of one row, and two of the row eight below.
    fn gather(self, c: &[&Lanes]) -> [[f32; COLUMNS]; ROWS] {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        for lane in 0..LANES {
            for half in 0..2 {
                let row = &mut sums[lane / 4 + 8 * half];
                for index in 0..2 {
                    row[2 * (lane % 4) + index] = match self.accumulator {
                        Accumulator::F32 => f32::read(c[2 * half + index][lane]),
                        Accumulator::F16 => {
                            half::f16_to_f32(u16::read(c[half][lane] >> (16 * index)))
                        }
                    };
                }
            }
        }
        sums
    }

    fn scatter(self, sums: &[[f32; COLUMNS]; ROWS]) -> [Lanes; 4] {
        let mut d = [[0; LANES]; 4];
        for lane in 0..LANES {
            for half in 0..2 {
                for index in 0..2 {
                    let sum = sums[lane / 4 + 8 * half][2 * (lane % 4) + index];
                    match self.accumulator {
                        Accumulator::F32 => d[2 * half + index][lane] = canonical(sum),
                        Accumulator::F16 => {
                            let bits = half::round(sum.into(), half::F16, Rounding::Nearest);
                            d[half][lane] |= u64::from(bits) << (16 * index);
                        }
                    }
                }
            }
        }
        d
    }
}

type Rows = [[f32; MAX_DEPTH]; ROWS];
type Columns = [[f32; COLUMNS]; MAX_DEPTH];

/// A and B from their registers, each of `PACKED` elements. Four lanes in a row hold neighbours along k; every eighth
/// row of A and every further part of k is in a register of its own.
#[inline(always)]
fn factors<const PACKED: usize>(
    a: &[&Lanes],
    b: &[&Lanes],
    read: impl Fn(u64, usize) -> f32,
) -> (Rows, Columns) {
    let depth = |lane: usize, part: usize, index: usize| PACKED * (4 * part + lane % 4) + index;
    let mut rows = [[0.0; MAX_DEPTH]; ROWS];
    let mut columns = [[0.0; COLUMNS]; MAX_DEPTH];
    for (register, values) in a.iter().enumerate() {
        for (lane, value) in values.iter().enumerate() {
            for index in 0..PACKED {
                let row = lane / 4 + 8 * (register % 2);
                rows[row][depth(lane, register / 2, index)] = read(*value, index);
            }
        }
    }
    for (register, values) in b.iter().enumerate() {
        for (lane, value) in values.iter().enumerate() {
            for index in 0..PACKED {
                columns[depth(lane, register, index)][lane / 4] = read(*value, index);
            }
        }
    }
    (rows, columns)
}

/// The f32 that GPUs give for what is no number.
fn canonical(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.write() }
}

/// Eight rows of eight elements of 16 bits, each row as its bytes, the lowest first.
pub(crate) type MatrixRows = [u128; 8];

/// What the lanes hold of a matrix: lane `l` has elements `2 (l % 4)` and the next of row `l / 4`.
pub(crate) fn spread(rows: &MatrixRows) -> Lanes {
    let mut out = [0; LANES];
    for (lane, out) in out.iter_mut().enumerate() {
        *out = word(rows[lane / 4] >> (32 * (lane % 4)));
    }
    out
}

/// The other way.
pub(crate) fn collect(registers: &Lanes) -> MatrixRows {
    let mut rows = [0; 8];
    for (lane, bits) in registers.iter().enumerate() {
        rows[lane / 4] |= u128::from(u32::read(*bits)) << (32 * (lane % 4));
    }
    rows
}

pub(crate) fn transpose(rows: &MatrixRows) -> MatrixRows {
    let mut out = [0; 8];
    for (row, bits) in rows.iter().enumerate() {
        for (column, out) in out.iter_mut().enumerate() {
            *out |= (bits >> (16 * column) & 0xffff) << (16 * row);
        }
    }
    out
}

#[expect(clippy::cast_possible_truncation, reason = "it takes the low word")]
fn word(bits: u128) -> u64 {
    u64::from(bits as u32)
}
