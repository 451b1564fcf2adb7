//! Typed instructions. Decoding has checked every operand, so that execution need not.

use super::{CopyOp, MatrixAccess, MatrixProductOp};
use crate::alu::{Compare, Conversion, FloatMap, Map};
use crate::types::Space;

/// A register that is not a predicate, counted from the frame of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(pub(crate) u32);

/// A predicate register, counted from the frame of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PredicateRegister(pub(crate) u32);

/// A predicate as an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predicate {
    Register { index: PredicateRegister, negated: bool },
    Constant(bool),
}

/// A value of 32 lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Register(Register),
    Constant(u32),
    Special(Special),
}

/// Special registers that keep their value as long as a warp lives (PTX ISA 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Special {
    TidX,
    TidY,
    TidZ,
    NtidX,
    NtidY,
    NtidZ,
    CtaidX,
    CtaidY,
    CtaidZ,
    NctaidX,
    NctaidY,
    NctaidZ,
    LaneId,
    WarpId,
    NwarpId,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    ClusteridX,
    ClusteridY,
    ClusteridZ,
    NclusteridX,
    NclusteridY,
    NclusteridZ,
    ClusterCtaidX,
    ClusterCtaidY,
    ClusterCtaidZ,
    ClusterNctaidX,
    ClusterNctaidY,
    ClusterNctaidZ,
    ClusterCtarank,
    ClusterNctarank,
    DynamicSmemSize,
    TotalSmemSize,
    Zero,
}

impl Special {
    pub(crate) const COUNT: usize = Self::Zero as usize + 1;
}

/// Clocks, whose value differs from one read to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Low,
    High,
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressBase {
    /// 32 bits of a register; the sum wraps there.
    Narrow(Source),
    Wide(Source),
    /// The frame of the function in the memory of its thread.
    Frame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: AddressBase,
    pub(crate) offset: u64,
}

/// How an access orders others (PTX ISA 8.4). Scopes are not told apart yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    /// Volatile, relaxed, acquire, release and both: what threads may synchronise through.
    Strong,
}

/// What an access moves: `count` elements of `bytes` each, aligned to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) bytes: u8,
    pub(crate) count: u8,
    /// Whether a loaded element is sign-extended to its register (PTX ISA 9.4.1).
    pub(crate) signed: bool,
    pub(crate) order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

/// A comparison's result joined with a predicate.
pub(crate) type Join = Option<(BoolOp, Predicate)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot(Register),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierReduce {
    Count(Register),
    And(PredicateRegister),
    Or(PredicateRegister),
}

/// What threads do at a barrier of their block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierOp {
    pub(crate) id: Source,
    /// Threads that take part; `None` for all of the block.
    pub(crate) count: Option<Source>,
    pub(crate) aligned: bool,
    pub(crate) waits: bool,
    pub(crate) reduce: Option<(BarrierReduce, Predicate)>,
}

/// Changes an element in memory: old value and one or two operands to the new value.
pub(crate) type Modify = fn(u64, u64, u64) -> u64;

/// Bytes that a call moves between the frames of caller and callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) caller: u32,
    pub(crate) callee: u32,
    pub(crate) bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: usize,
    pub(crate) arguments: Box<[Passed]>,
    pub(crate) results: Box<[Passed]>,
}

/// `d = f(a, b, c, e)` of a carry chain (PTX ISA, "Extended-Precision Integer Arithmetic Instructions").
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarryOp {
    pub(crate) bits: u32,
    pub(crate) subtract: bool,
    pub(crate) carry_in: bool,
    pub(crate) carry_out: bool,
}

#[derive(Debug)]
pub(crate) enum Op {
    Map1 {
        f: Map<1>,
        d: Register,
        s: [Source; 1],
    },
    Map2 {
        f: Map<2>,
        d: Register,
        s: [Source; 2],
    },
    Map3 {
        f: Map<3>,
        d: Register,
        s: [Source; 3],
    },
    Map4 {
        f: Map<4>,
        d: Register,
        s: [Source; 4],
    },
    Float {
        f: FloatMap,
        d: Register,
        s: [Source; 3],
    },
    Carry {
        op: CarryOp,
        d: Register,
        a: Source,
        b: Source,
    },
    Compare {
        f: Compare,
        join: Join,
        p: Option<PredicateRegister>,
        q: Option<PredicateRegister>,
        s: [Source; 2],
    },
    /// `set`: a register gets `yes` or 0.
    Set {
        f: Compare,
        join: Join,
        d: Register,
        yes: u64,
        s: [Source; 2],
    },
    Select {
        d: Register,
        s: [Source; 2],
        p: Predicate,
    },
    PredicateSet {
        d: PredicateRegister,
        a: Predicate,
    },
    PredicateMap {
        op: BoolOp,
        d: PredicateRegister,
        a: Predicate,
        b: Predicate,
    },
    /// Parts of `bits` each become one value, the first the lowest.
    Pack {
        d: Register,
        parts: Box<[Source]>,
        bits: u32,
    },
    Unpack {
        parts: Box<[Option<Register>]>,
        a: Source,
        bits: u32,
    },
    Convert {
        conversion: Conversion,
        d: Register,
        a: Source,
    },
    /// Two values of 16 bits in one register.
    ConvertPair {
        conversion: Conversion,
        d: Register,
        high: Source,
        low: Source,
    },
    Clock {
        clock: Clock,
        d: Register,
    },
    /// Address of a local variable or of a parameter of a function.
    FrameAddress {
        d: Register,
        offset: u64,
    },
    /// Between an address of a space and a generic one.
    ConvertAddress {
        space: Space,
        to_generic: bool,
        d: Register,
        a: Source,
    },
    IsSpace {
        space: Space,
        d: PredicateRegister,
        a: Source,
    },
    /// `used` has a bit for each byte that the compiler promises to look at.
    Load {
        access: Access,
        d: Box<[Option<Register>]>,
        address: Address,
        used: u32,
    },
    Store {
        access: Access,
        s: Box<[Source]>,
        address: Address,
    },
    Atomic {
        access: Access,
        modify: Modify,
        d: Option<Register>,
        address: Address,
        b: Source,
        c: Source,
    },
    Branch {
        target: u32,
    },
    BranchIndexed {
        targets: Box<[u32]>,
        index: Source,
    },
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    /// A failed `assert` of CUDA C++: addresses of message, file and line.
    Assertion {
        message: u32,
        file: u32,
        line: u32,
    },
    Barrier(Box<BarrierOp>),
    WarpSync {
        mask: Source,
    },
    Shuffle {
        mode: ShuffleMode,
        d: Register,
        p: Option<PredicateRegister>,
        s: [Source; 3],
        mask: Source,
    },
    Vote {
        mode: VoteMode,
        d: Option<PredicateRegister>,
        a: Predicate,
        mask: Source,
    },
    Match {
        all: bool,
        bits: u32,
        d: Register,
        p: Option<PredicateRegister>,
        a: Source,
        mask: Source,
    },
    Reduce {
        f: Modify,
        d: Register,
        a: Source,
        mask: Source,
    },
    Elect {
        d: Register,
        p: PredicateRegister,
        mask: Source,
    },
    ActiveMask {
        d: Register,
    },
    LoadMatrix(Box<MatrixAccess<Register>>),
    StoreMatrix(Box<MatrixAccess<Source>>),
    /// `movmatrix`: the transposed of a matrix that is spread over the lanes.
    TransposeMatrix {
        d: Register,
        a: Source,
    },
    MatrixProduct(Box<MatrixProductOp>),
    /// Begins a copy.
    Copy(Box<CopyOp>),
    /// Makes a group of the copies that a thread has begun since its last one.
    CopyCommit,
    /// Waits until at most so many of a thread's groups are under way; `None` for all of its copies.
    CopyWait {
        pending: Option<u32>,
    },
    /// A fence: a point of the memory order.
    Fence,
    /// `griddepcontrol`: a point between grids that follow each other.
    GridDependency,
    /// A hint that changes no value.
    Hint,
}
