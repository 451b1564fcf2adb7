//! Instructions of a whole warp over matrices.

use super::{Address, Register, Source};
use crate::alu::MatrixProduct;
use crate::types::Space;

/// `ldmatrix` and `stmatrix`: one, two or four matrices of 8 x 8 elements of 16 bits.
#[derive(Debug)]
pub(crate) struct MatrixAccess<T> {
    /// Shared or generic.
    pub(crate) space: Space,
    /// Of each lane: those of a matrix are the addresses of its rows.
    pub(crate) address: Address,
    pub(crate) transposed: bool,
    /// A register for each matrix.
    pub(crate) registers: Box<[T]>,
}

/// `mma`: as many of each as the form has.
#[derive(Debug)]
pub(crate) struct MatrixProductOp {
    pub(crate) product: MatrixProduct,
    pub(crate) d: [Option<Register>; 4],
    pub(crate) a: [Source; 4],
    pub(crate) b: [Source; 2],
    pub(crate) c: [Source; 4],
}
