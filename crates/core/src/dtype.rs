//! Element types.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Type of a tensor's elements.
///
/// Naming a type here does not promise an engine for it: an engine that lacks it answers
/// [`Unsupported::DType`](crate::Unsupported::DType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: 8 exponent bits, 7 fraction bits.
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// 8-bit float, 4 exponent and 3 fraction bits, no infinity (OCP 8-bit Floating Point, 2023).
    F8E4m3,
    /// 8-bit float, 5 exponent and 2 fraction bits (OCP 8-bit Floating Point, 2023).
    F8E5m2,
    /// Power-of-two scale of a microscaling block (OCP Microscaling Formats, 2023).
    E8m0,
    /// Unsigned byte: packed bits of a block mask.
    U8,
    /// 32-bit signed integer: lengths, prefixes, starts, page tables.
    I32,
    /// 64-bit signed integer: a dropout seed and offset. Never a length.
    I64,
}

impl DType {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F8E4m3 | Self::F8E5m2 | Self::E8m0 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// The name used in case files, on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F8E4m3 => "f8_e4m3",
            Self::F8E5m2 => "f8_e5m2",
            Self::E8m0 => "e8m0",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "what cannot be named cannot be implemented")]
    pub trait Sealed {}
}

/// A Rust type whose slices can be bound as a tensor.
///
/// Sealed: every implementor is plain bytes with no padding and no invalid bit pattern, which is
/// what makes [`Buffer::from_slice`](crate::Buffer::from_slice) safe.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The element type as data.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() as u64 == DType::$dtype.bytes());
    )*};
}

element! {
    half::f16 => F16,
    half::bf16 => Bf16,
    f32 => F32,
    u8 => U8,
    i32 => I32,
    i64 => I64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_serde_name() {
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, StrDeserializer};
        for dtype in [
            DType::F16,
            DType::Bf16,
            DType::F32,
            DType::F8E4m3,
            DType::F8E5m2,
            DType::E8m0,
            DType::U8,
            DType::I32,
            DType::I64,
        ] {
            let name: StrDeserializer<'_, Error> = dtype.name().into_deserializer();
            assert_eq!(DType::deserialize(name), Ok(dtype));
        }
    }
}
