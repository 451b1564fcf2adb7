//! The syntax tree. Names borrow from the text.

use crate::types::{ScalarType, Space};

pub(crate) use super::number::Number;

#[derive(Debug, Default)]
pub(crate) struct Module<'a> {
    /// `sm_90a`, without options that follow it.
    pub(crate) target: &'a str,
    /// Index and path of each `.file`.
    pub(crate) files: Vec<(u32, &'a str)>,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
}

/// A variable of any space, or a formal parameter.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: u32,
    pub(crate) space: Space,
    pub(crate) align: u32,
    pub(crate) element: ScalarType,
    /// `None` for an array without extent, whose size the launch gives.
    pub(crate) bytes: Option<u64>,
    pub(crate) init: Vec<Initializer<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Initializer<'a> {
    Number(Number),
    Address { name: &'a str, offset: u64 },
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: u32,
    pub(crate) is_entry: bool,
    pub(crate) returns: Vec<Variable<'a>>,
    pub(crate) params: Vec<Variable<'a>>,
    pub(crate) directives: Directives,
    /// `None` for a declaration.
    pub(crate) body: Option<Vec<Statement<'a>>>,
}

/// What a kernel says about its launches (PTX ISA 11.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Directives {
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) required_cluster: Option<[u32; 3]>,
}

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Block(Vec<Statement<'a>>),
    Label(&'a str, u32),
    /// `%r<12>` declares `%r0` to `%r11`; without a count, `name` alone.
    Registers {
        name: &'a str,
        element: ScalarType,
        count: Option<u32>,
        line: u32,
    },
    Variable(Variable<'a>),
    BranchTargets {
        name: &'a str,
        labels: Vec<&'a str>,
    },
    Location(Location<'a>),
    Pragma(&'a str),
    Instruction(Instruction<'a>),
}

/// `.loc` (PTX ISA 11.5.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Location<'a> {
    pub(crate) file: u32,
    pub(crate) line: u32,
    /// File and line of the call that was inlined.
    pub(crate) inlined_at: Option<(u32, u32)>,
    pub(crate) function: Option<&'a str>,
}

#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) line: u32,
    pub(crate) guard: Option<Guard<'a>>,
    /// With all modifiers: `ld.global.v2.u32`.
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) predicate: &'a str,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    /// A register, a variable, a label, a function, or `_`.
    Name(&'a str),
    Number(Number),
    /// `variable+8`
    Offset(&'a str, u64),
    /// `!%p`
    Not(&'a str),
    /// `%r|%p`
    Pair(&'a str, &'a str),
    Vector(Vec<Operand<'a>>),
    /// `(a, b)` of a call.
    Group(Vec<Operand<'a>>),
    Address(Address<'a>),
}

#[derive(Clone, Debug)]
pub(crate) struct Address<'a> {
    /// `None` where the address is a constant.
    pub(crate) base: Option<&'a str>,
    pub(crate) offset: u64,
    /// The coordinates of a tensor address, `[map, {x, y}]`.
    pub(crate) coordinates: Vec<Operand<'a>>,
}
