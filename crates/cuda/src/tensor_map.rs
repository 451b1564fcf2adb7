//! Tensor maps made on the host, their rules looked at first.
//!
//! The driver answers every mistake with `CUDA_ERROR_INVALID_VALUE`; which rule was broken stands
//! here. Rules: CUDA Driver API, `cuTensorMapEncodeTiled`.

use crate::{
    Current, DriverCalls, DriverError, Swizzle, TensorMap, TensorMapElement, TensorMapSpec,
};

/// Why a tensor map could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// The driver refused or failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The number of axes.
    #[error("a tensor map has 1 to 5 axes, not {found}")]
    Rank {
        /// Axes given.
        found: usize,
    },
    /// Axes of the box, or strides, do not go with the tensor's axes.
    #[error(
        "a tensor map of {rank} axes has {rank} box extents and one stride less, not {boxes} and {strides}"
    )]
    Lengths {
        /// Axes of the tensor.
        rank: usize,
        /// Box extents given.
        boxes: usize,
        /// Strides given.
        strides: usize,
    },
    /// The address is not a multiple of 16.
    #[error("a tensor map starts at a multiple of 16 bytes, not at {found:#x}")]
    Address {
        /// Address given.
        found: u64,
    },
    /// An extent is 0, or past 2^31.
    #[error("axis {axis} of a tensor map has 1 to 2^31 elements, not {found}")]
    Extent {
        /// Position of the axis, from the fastest.
        axis: usize,
        /// Extent given.
        found: u64,
    },
    /// A stride is not a multiple of 16 bytes, or is 2^40 or more.
    #[error(
        "the stride of axis {axis} of a tensor map is a multiple of 16 bytes below 2^40, not {found}"
    )]
    Stride {
        /// Position of the axis, from the fastest.
        axis: usize,
        /// Stride given, in bytes.
        found: u64,
    },
    /// An extent of the box is 0, or past 256.
    #[error("axis {axis} of a tensor map's box has 1 to 256 elements, not {found}")]
    BoxExtent {
        /// Position of the axis, from the fastest.
        axis: usize,
        /// Extent given.
        found: u32,
    },
    /// A row of the box is not a multiple of 16 bytes.
    #[error("a row of a tensor map's box is a multiple of 16 bytes, not {found}")]
    BoxRow {
        /// Bytes of a row.
        found: u32,
    },
    /// A row of the box is longer than the span within which it is permuted.
    #[error("a row of a tensor map's box is at most the {span} bytes of its swizzle, not {found}")]
    SwizzleSpan {
        /// Bytes of a row.
        found: u32,
        /// Bytes of the span.
        span: u32,
    },
}

impl From<TensorMapError> for frazil_core::Error {
    fn from(error: TensorMapError) -> Self {
        match error {
            TensorMapError::Driver(error) => error.into(),
            other => Self::Kernel { kernel: "a tensor map".into(), message: other.to_string() },
        }
    }
}

impl TensorMap {
    /// The map of a tensor of the device that is current: without a context the driver answers
    /// `CUDA_ERROR_INVALID_CONTEXT`. About 100 ns on the host, and no heap.
    ///
    /// # Errors
    ///
    /// [`TensorMapError`] naming the rule and the value; nothing is asked of the driver then.
    pub fn encode(current: &Current<'_>, spec: &TensorMapSpec<'_>) -> Result<Self, TensorMapError> {
        check(spec)?;
        Ok(current.device().driver().tensor_map_encode_tiled(spec)?)
    }

    /// Points the map at another address, leaving the rest. About a fifth of making it anew.
    ///
    /// # Errors
    ///
    /// [`TensorMapError::Address`] for one that is not a multiple of 16.
    pub fn replace_address(
        &mut self,
        current: &Current<'_>,
        address: u64,
    ) -> Result<(), TensorMapError> {
        check_address(address)?;
        Ok(current.device().driver().tensor_map_replace_address(self, address)?)
    }
}

/// The rules, those of the whole first. An address of 0 is taken: such a map is never used.
fn check(spec: &TensorMapSpec<'_>) -> Result<(), TensorMapError> {
    let rank = spec.extents.len();
    if !(1..=5).contains(&rank) {
        return Err(TensorMapError::Rank { found: rank });
    }
    let (boxes, strides) = (spec.box_extents.len(), spec.strides_bytes.len());
    if boxes != rank || strides != rank - 1 {
        return Err(TensorMapError::Lengths { rank, boxes, strides });
    }
    check_address(spec.address)?;
    for (axis, &found) in spec.extents.iter().enumerate() {
        // Coordinates are signed 32-bit numbers; the guide of CUDA 12 still said 2^32.
        if !(1..=1 << 31).contains(&found) {
            return Err(TensorMapError::Extent { axis, found });
        }
    }
    for (&found, axis) in spec.strides_bytes.iter().zip(1..) {
        if !found.is_multiple_of(16) || found >= 1 << 40 {
            return Err(TensorMapError::Stride { axis, found });
        }
    }
    for (axis, &found) in spec.box_extents.iter().enumerate() {
        if !(1..=256).contains(&found) {
            return Err(TensorMapError::BoxExtent { axis, found });
        }
    }
    let row = spec.box_extents[0] * spec.element.bytes();
    if !row.is_multiple_of(16) {
        return Err(TensorMapError::BoxRow { found: row });
    }
    match spec.swizzle.span_bytes() {
        Some(span) if row > span => Err(TensorMapError::SwizzleSpan { found: row, span }),
        _ => Ok(()),
    }
}

fn check_address(found: u64) -> Result<(), TensorMapError> {
    if found.is_multiple_of(16) { Ok(()) } else { Err(TensorMapError::Address { found }) }
}

impl TensorMapElement {
    /// Size of an element, in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
        }
    }
}

impl Swizzle {
    /// The span within which chunks are permuted, in bytes; `None` where they are not.
    pub const fn span_bytes(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            Self::Bytes128 => Some(128),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CudaDevice;
    use crate::L2Promotion;
    use crate::driver::fake::Fake;

    const GOOD: TensorMapSpec<'static> = TensorMapSpec {
        element: TensorMapElement::Bf16,
        address: 0x10_0000,
        extents: &[128, 1000, 8],
        strides_bytes: &[2048, 256],
        box_extents: &[64, 128, 1],
        swizzle: Swizzle::Bytes128,
        l2_promotion: L2Promotion::Bytes256,
    };

    #[test]
    fn a_broken_rule_is_named_with_its_value() {
        for (spec, expected) in [
            (GOOD, None),
            (TensorMapSpec { address: 0, ..GOOD }, None),
            // The map of a ragged tensor, whose strides overlap.
            (
                TensorMapSpec {
                    extents: &[128, 1 << 30, 4, 0x7fff_0000, 0x7fff_0000],
                    strides_bytes: &[1024, 256, (1 << 34) - 1024, 1024],
                    box_extents: &[64, 128, 1, 1, 1],
                    ..GOOD
                },
                None,
            ),
            (
                TensorMapSpec { extents: &[], strides_bytes: &[], box_extents: &[], ..GOOD },
                Some(TensorMapError::Rank { found: 0 }),
            ),
            (TensorMapSpec { extents: &[1; 6], ..GOOD }, Some(TensorMapError::Rank { found: 6 })),
            (
                TensorMapSpec { strides_bytes: &[2048], ..GOOD },
                Some(TensorMapError::Lengths { rank: 3, boxes: 3, strides: 1 }),
            ),
            (
                TensorMapSpec { box_extents: &[64, 128], ..GOOD },
                Some(TensorMapError::Lengths { rank: 3, boxes: 2, strides: 2 }),
            ),
            (
                TensorMapSpec { address: 0x10_0008, ..GOOD },
                Some(TensorMapError::Address { found: 0x10_0008 }),
            ),
            (
                TensorMapSpec { extents: &[128, 0, 8], ..GOOD },
                Some(TensorMapError::Extent { axis: 1, found: 0 }),
            ),
            (
                TensorMapSpec { extents: &[128, 1000, (1 << 31) + 1], ..GOOD },
                Some(TensorMapError::Extent { axis: 2, found: (1 << 31) + 1 }),
            ),
            (
                TensorMapSpec { strides_bytes: &[2048, 264], ..GOOD },
                Some(TensorMapError::Stride { axis: 2, found: 264 }),
            ),
            (
                TensorMapSpec { strides_bytes: &[1 << 40, 256], ..GOOD },
                Some(TensorMapError::Stride { axis: 1, found: 1 << 40 }),
            ),
            (
                TensorMapSpec { box_extents: &[64, 257, 1], ..GOOD },
                Some(TensorMapError::BoxExtent { axis: 1, found: 257 }),
            ),
            (
                TensorMapSpec { box_extents: &[64, 128, 0], ..GOOD },
                Some(TensorMapError::BoxExtent { axis: 2, found: 0 }),
            ),
            (
                TensorMapSpec { box_extents: &[60, 128, 1], ..GOOD },
                Some(TensorMapError::BoxRow { found: 120 }),
            ),
            (
                TensorMapSpec { box_extents: &[128, 128, 1], ..GOOD },
                Some(TensorMapError::SwizzleSpan { found: 256, span: 128 }),
            ),
            (TensorMapSpec { box_extents: &[128, 128, 1], swizzle: Swizzle::None, ..GOOD }, None),
            (
                TensorMapSpec { element: TensorMapElement::F32, ..GOOD },
                Some(TensorMapError::SwizzleSpan { found: 256, span: 128 }),
            ),
        ] {
            assert_eq!(check(&spec).err(), expected, "{spec:?}");
        }
    }

    #[test]
    fn another_address_is_looked_at_before_it_is_written() {
        let fake = Fake::start();
        let device = CudaDevice::open(fake.driver(), 0, None).unwrap();
        let (current, mut map) = (device.make_current().unwrap(), TensorMap([0; 16]));
        map.replace_address(&current, 0x7000).unwrap();
        let error = map.replace_address(&current, 0x7004).unwrap_err();
        assert_eq!(error, TensorMapError::Address { found: 0x7004 });
        assert_eq!(map.0[0], 0x7000);
        assert_eq!(fake.count("cuTensorMapReplaceAddress"), 1);
    }
}
