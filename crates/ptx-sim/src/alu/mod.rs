//! What instructions compute: functions of 32 lanes at once.
//!
//! A lane is a `u64` whatever the width of its register. A function reads as many low bits as its type has and
//! nothing above them; a signed result is written sign-extended to 64 bits, every other result zero-extended. An
//! operand in a register wider than the type of its instruction (PTX ISA 9.4.1) is then right by construction.

mod atomic;
mod bits;
mod compare;
mod convert;
mod float;
mod half;
mod integer;
mod integer_wide;
mod matrix;

pub(crate) use atomic::{modify, reduce, splat};
pub(crate) use bits::bit_map;
pub(crate) use bits::{byte_permute, logic, logic3, shift, shift_funnel};
pub(crate) use compare::{Compare, compare};
pub(crate) use convert::{Conversion, Rounding, convert, to_tf32};
pub(crate) use float::{FloatMap, FloatModifiers, float_map};
pub(crate) use integer::{int1, int2, int3};
pub(crate) use integer_wide::{multiply_add_24, multiply_hi, multiply_wide};
pub(crate) use matrix::{
    Accumulator, MatrixElement, MatrixProduct, MatrixRows, collect, spread, transpose,
};

pub(crate) const LANES: usize = 32;

pub(crate) type Lanes = [u64; LANES];

/// A function of N operands, lane by lane.
pub(crate) type Map<const N: usize> = fn([&Lanes; N]) -> Lanes;

/// A value that a lane can hold.
pub(crate) trait Lane: Copy {
    fn read(bits: u64) -> Self;
    fn write(self) -> u64;
}

macro_rules! integer_lanes {
    ($($ty:ty => $wide:ty),+) => {$(
        impl Lane for $ty {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an operand is the low bits of its register"
            )]
            #[inline(always)]
            fn read(bits: u64) -> Self {
                bits as $ty
            }

            #[inline(always)]
            fn write(self) -> u64 {
                self as $wide as u64
            }
        }
    )+};
}

integer_lanes!(u8 => u64, u16 => u64, u32 => u64, i8 => i64, i16 => i64, i32 => i64);

impl Lane for u64 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        bits
    }

    #[inline(always)]
    fn write(self) -> u64 {
        self
    }
}

impl Lane for i64 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        bits.cast_signed()
    }

    #[inline(always)]
    fn write(self) -> u64 {
        self.cast_unsigned()
    }
}

impl Lane for f32 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        Self::from_bits(u32::read(bits))
    }

    #[inline(always)]
    fn write(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Lane for f64 {
    #[inline(always)]
    fn read(bits: u64) -> Self {
        Self::from_bits(bits)
    }

    #[inline(always)]
    fn write(self) -> u64 {
        self.to_bits()
    }
}

/// A `Map` from an expression of one lane; each operand names its type.
macro_rules! map {
    (|$($x:ident: $t:ty),+| $value:expr) => {{
        fn apply([$($x),+]: [&$crate::alu::Lanes; [$(stringify!($x)),+].len()]) -> $crate::alu::Lanes {
            let mut out = [0; $crate::alu::LANES];
            for lane in 0..$crate::alu::LANES {
                $(let $x = <$t as $crate::alu::Lane>::read($x[lane]);)+
                out[lane] = $crate::alu::Lane::write($value);
            }
            out
        }
        apply
    }};
}
pub(crate) use map;

/// A `Map` for each integer type of 16 to 64 bits; `T` is the type in the expression.
macro_rules! map_integers {
    ($ty:expr, |$($x:ident),+| $value:expr) => {{
        use $crate::types::ScalarType as S;
        Some(match $ty {
            S::U16 | S::B16 => { type T = u16; $crate::alu::map!(|$($x: T),+| $value) }
            S::U32 | S::B32 => { type T = u32; $crate::alu::map!(|$($x: T),+| $value) }
            S::U64 | S::B64 => { type T = u64; $crate::alu::map!(|$($x: T),+| $value) }
            S::S16 => { type T = i16; $crate::alu::map!(|$($x: T),+| $value) }
            S::S32 => { type T = i32; $crate::alu::map!(|$($x: T),+| $value) }
            S::S64 => { type T = i64; $crate::alu::map!(|$($x: T),+| $value) }
            _ => return None,
        })
    }};
}
pub(crate) use map_integers;
