//! Extents and strides: where the elements of a tensor lie.

use std::fmt;

/// Most axes a tensor may have.
pub const MAX_RANK: usize = 4;

/// Largest extent of one axis: device integers that count rows are int32.
pub const MAX_EXTENT: u64 = i32::MAX as u64;

/// Extents and strides of a tensor, in elements. Plain data, no heap.
///
/// A value of this type is addressable: every extent fits an int32, and the offset of every
/// element, in bytes, fits an i64. A stride of 0 repeats elements; the stride of an axis of
/// extent 1 has no effect on anything (producers put noise there).
#[derive(Clone, Copy)]
pub struct Geometry {
    rank: u8,
    extents: [u64; MAX_RANK],
    strides: [u64; MAX_RANK],
}

/// Why extents and strides do not describe a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// More axes than any operation has, or none.
    #[error("rank {rank} is outside 1..={MAX_RANK}")]
    Rank {
        /// Number of extents given.
        rank: usize,
    },
    /// One stride per extent is needed.
    #[error("{strides} strides for {extents} extents")]
    StrideCount {
        /// Number of extents given.
        extents: usize,
        /// Number of strides given.
        strides: usize,
    },
    /// An extent below zero.
    #[error("extent {value} of axis {axis} is negative")]
    NegativeExtent {
        /// Position of the axis.
        axis: usize,
        /// What was given.
        value: i64,
    },
    /// An extent that an int32 cannot count.
    #[error("extent {value} of axis {axis} is above the limit {MAX_EXTENT}")]
    HugeExtent {
        /// Position of the axis.
        axis: usize,
        /// What was given.
        value: i64,
    },
    /// A stride below zero.
    #[error("stride {value} of axis {axis} is negative")]
    NegativeStride {
        /// Position of the axis.
        axis: usize,
        /// What was given.
        value: i64,
    },
    /// The last element lies beyond what 63 bits of bytes can address.
    #[error(
        "axis {axis} with extent {extent} and stride {stride} reaches past the limit of 2^63 bytes"
    )]
    Overflow {
        /// Axis at which the running span overflowed.
        axis: usize,
        /// Its extent.
        extent: u64,
        /// Its stride, in elements.
        stride: u64,
    },
}

impl Geometry {
    /// Extents with row-major strides: the last axis has stride 1.
    ///
    /// # Errors
    ///
    /// As [`Geometry::strided`].
    pub fn contiguous(extents: &[i64]) -> Result<Self, GeometryError> {
        let mut strides = [0_i64; MAX_RANK];
        if extents.len() > MAX_RANK {
            return Err(GeometryError::Rank { rank: extents.len() });
        }
        let mut next = 1_i64;
        for axis in (0..extents.len()).rev() {
            strides[axis] = next;
            // An empty axis still gets strides that a filled one would have, so that a plan for
            // zero rows and one for some rows agree. Saturation is caught as an overflow below.
            next = next.saturating_mul(extents[axis].max(1));
        }
        Self::strided(extents, &strides[..extents.len()])
    }

    /// Extents with the strides given, both in elements.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] names the axis, what came and the limit.
    pub fn strided(extents: &[i64], strides: &[i64]) -> Result<Self, GeometryError> {
        if extents.is_empty() || extents.len() > MAX_RANK {
            return Err(GeometryError::Rank { rank: extents.len() });
        }
        if extents.len() != strides.len() {
            return Err(GeometryError::StrideCount {
                extents: extents.len(),
                strides: strides.len(),
            });
        }
        #[expect(clippy::cast_possible_truncation, reason = "rank is at most MAX_RANK")]
        let rank = extents.len() as u8;
        let mut geometry = Self { rank, extents: [1; MAX_RANK], strides: [0; MAX_RANK] };
        for (axis, (&value, &stride)) in extents.iter().zip(strides).enumerate() {
            let extent =
                u64::try_from(value).map_err(|_| GeometryError::NegativeExtent { axis, value })?;
            if extent > MAX_EXTENT {
                return Err(GeometryError::HugeExtent { axis, value });
            }
            geometry.extents[axis] = extent;
            geometry.strides[axis] = u64::try_from(stride)
                .map_err(|_| GeometryError::NegativeStride { axis, value: stride })?;
        }
        geometry.check_span()?;
        Ok(geometry)
    }

    /// Refuses spans whose bytes, at the widest element, pass `i64::MAX`.
    fn check_span(&self) -> Result<(), GeometryError> {
        const MAX_ELEMENTS: u64 = i64::MAX as u64 / 8;
        let mut last = 0_u64;
        for axis in 0..self.rank() {
            let (extent, stride) = (self.extents[axis], self.strides[axis]);
            let reach = extent
                .saturating_sub(1)
                .checked_mul(if extent > 1 { stride } else { 0 })
                .and_then(|reach| last.checked_add(reach))
                .filter(|&reach| reach < MAX_ELEMENTS);
            last = reach.ok_or(GeometryError::Overflow { axis, extent, stride })?;
        }
        Ok(())
    }

    /// Number of axes.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Extents, outermost axis first.
    pub fn extents(&self) -> &[u64] {
        &self.extents[..self.rank()]
    }

    /// Strides in elements, as given (noise on axes of extent 1 included).
    pub fn strides(&self) -> &[u64] {
        &self.strides[..self.rank()]
    }

    /// Extent of one axis.
    ///
    /// # Panics
    ///
    /// If `axis >= rank`.
    pub fn extent(&self, axis: usize) -> u64 {
        self.extents()[axis]
    }

    /// Stride of one axis in elements; 0 where the extent is at most 1, since it then never
    /// multiplies anything but 0.
    ///
    /// # Panics
    ///
    /// If `axis >= rank`.
    pub fn stride(&self, axis: usize) -> u64 {
        if self.extents()[axis] > 1 { self.strides[axis] } else { 0 }
    }

    /// Number of elements. Saturates: a broadcast tensor may count more than its span.
    pub fn num_elements(&self) -> u64 {
        self.extents().iter().fold(1, |count: u64, &extent| count.saturating_mul(extent))
    }

    /// Elements from the first to one past the last: 0 for an empty tensor.
    pub fn span(&self) -> u64 {
        if self.extents().contains(&0) {
            return 0;
        }
        1 + (0..self.rank()).map(|axis| (self.extent(axis) - 1) * self.stride(axis)).sum::<u64>()
    }

    /// Axes of extent above 1 as (stride, extent), smallest stride first.
    pub(crate) fn ordered_axes(&self) -> ([(u64, u64); MAX_RANK], usize) {
        let mut axes = [(0, 0); MAX_RANK];
        let mut count = 0;
        for axis in 0..self.rank() {
            if self.extent(axis) > 1 {
                axes[count] = (self.stride(axis), self.extent(axis));
                count += 1;
            }
        }
        axes[..count].sort_unstable();
        (axes, count)
    }

    /// Whether two indices can name one element.
    ///
    /// Sorted by stride, each axis must step over all that the smaller ones reach. Layouts that are
    /// injective without that property (strides 2 and 3, extents 3 and 2) are not recognised;
    /// no producer of attention tensors makes them.
    pub fn may_overlap_itself(&self) -> bool {
        if self.span() == 0 {
            return false;
        }
        let (axes, count) = self.ordered_axes();
        let mut reach = 1;
        for &(stride, extent) in &axes[..count] {
            if stride < reach {
                return true;
            }
            reach += (extent - 1) * stride;
        }
        false
    }
}

/// Equal when they address the same elements: strides of axes of extent 1 do not count.
impl PartialEq for Geometry {
    fn eq(&self, other: &Self) -> bool {
        self.extents() == other.extents()
            && (0..self.rank()).all(|axis| self.stride(axis) == other.stride(axis))
    }
}

impl Eq for Geometry {}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `[2, 8, 128, 64] strides [65536, 8192, 64, 1]`.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} strides {:?}", self.extents(), self.strides())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ignores_strides_of_extents_of_one() {
        let noisy = Geometry::strided(&[1, 3, 1, 8], &[99_990_001, 8, i64::MAX, 1]).unwrap();
        assert_eq!(noisy.span(), 24);
        assert_eq!(noisy, Geometry::contiguous(&[1, 3, 1, 8]).unwrap());
    }

    #[test]
    fn an_empty_tensor_spans_nothing() {
        assert_eq!(Geometry::contiguous(&[4, 0, 8]).unwrap().span(), 0);
        assert_eq!(Geometry::contiguous(&[4, 0, 8]).unwrap().strides(), [8, 8, 1]);
    }

    #[test]
    fn bad_geometry_names_axis_and_value() {
        use GeometryError as E;
        let cases: [(&[i64], &[i64], E); 8] = [
            (&[], &[], E::Rank { rank: 0 }),
            (&[1; 5], &[1; 5], E::Rank { rank: 5 }),
            (&[1, 2], &[1], E::StrideCount { extents: 2, strides: 1 }),
            (&[2, -1], &[1, 1], E::NegativeExtent { axis: 1, value: -1 }),
            (&[1 << 31], &[1], E::HugeExtent { axis: 0, value: 1 << 31 }),
            (&[2, 2], &[-4, 1], E::NegativeStride { axis: 0, value: -4 }),
            (&[3, 2], &[i64::MAX, 1], E::Overflow { axis: 0, extent: 3, stride: i64::MAX as u64 }),
            (&[2, 2], &[1 << 59, 1 << 59], E::Overflow { axis: 1, extent: 2, stride: 1 << 59 }),
        ];
        for (extents, strides, expected) in cases {
            assert_eq!(Geometry::strided(extents, strides), Err(expected));
        }
    }

    #[test]
    fn self_overlap_is_seen() {
        let overlaps = |extents: &[i64], strides: &[i64]| {
            Geometry::strided(extents, strides).unwrap().may_overlap_itself()
        };
        assert!(!overlaps(&[2, 3, 4], &[12, 4, 1]));
        assert!(!overlaps(&[2, 3, 4], &[4, 8, 1]), "any order of axes");
        assert!(!overlaps(&[2, 3, 4], &[100, 10, 2]), "gaps and an element stride");
        assert!(overlaps(&[2, 3, 4], &[12, 3, 1]));
        assert!(overlaps(&[2, 3, 4], &[0, 4, 1]), "a broadcast axis");
        assert!(!overlaps(&[1, 3, 4], &[0, 4, 1]), "an extent of 1 repeats nothing");
        assert!(!overlaps(&[2, 0, 4], &[0, 0, 0]), "nothing overlaps in an empty tensor");
    }
}
