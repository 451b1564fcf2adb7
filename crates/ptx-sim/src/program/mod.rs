//! What decoding makes and execution runs: typed instructions over numbered registers.

mod copy;
mod matrix;
mod op;
mod place;

pub(crate) use copy::{CopyOp, CopyRead};
pub(crate) use matrix::{MatrixAccess, MatrixProductOp};
pub(crate) use op::*;
pub(crate) use place::{Location, PlaceTable};
pub use place::{Place, SourceLine};

use crate::types::Space;

/// A decoded module. Instructions of all functions stand in one array.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<Instruction>,
    pub(crate) places: PlaceTable,
    pub(crate) functions: Vec<Function>,
    /// Variables of the global, const and shared spaces.
    pub(crate) variables: Vec<Variable>,
    pub(crate) constants: Vec<Constant>,
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) guard: Option<Predicate>,
    pub(crate) op: Op,
}

/// What a call of the function needs to know; a kernel is one too.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) begin: u32,
    pub(crate) num_registers: u32,
    pub(crate) num_predicates: u32,
    /// Bytes of a frame in the memory of a thread: local variables, and parameters of calls.
    pub(crate) frame_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) align: u32,
    /// `None` for shared memory whose extent the launch gives.
    pub(crate) bytes: Option<u64>,
    /// Bytes that the module gives; the rest of a global or constant variable is zero.
    pub(crate) init: Vec<u8>,
    /// Addresses of other variables inside `init`.
    pub(crate) relocations: Vec<Relocation>,
}

#[derive(Debug)]
pub(crate) struct Relocation {
    /// Byte of the variable at which eight bytes hold the address.
    pub(crate) at: usize,
    pub(crate) variable: usize,
    pub(crate) offset: u64,
}

/// A value that is the same for all threads of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Value(u64),
    /// Address of a variable in its own space.
    Variable {
        index: usize,
        offset: u64,
    },
}
