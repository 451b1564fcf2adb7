//! Tensor maps: what the tensor memory accelerator needs to know of a tensor.

/// A `CUtensorMap`, opaque. 128 bytes, aligned to 128, which every version of the driver and
/// `ld.param` of a `__grid_constant__` parameter accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct TensorMap(pub [u64; 16]);

// SAFETY: 128 bytes of integers, aligned to 128: no padding, nothing that is undefined, `Copy`.
unsafe impl bytemuck::NoUninit for TensorMap {}

/// A tiled tensor map: `cuTensorMapEncodeTiled`, with element strides of 1.
///
/// Axes run from the fastest: axis 0 has stride one element. PTX ISA, "Tensors".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMapSpec<'a> {
    /// Type of an element.
    pub element: TensorMapElement,
    /// Address of the first element, a multiple of 16.
    pub address: u64,
    /// Extents, in elements; 1 to 5 axes, each 1 to 2^31.
    pub extents: &'a [u64],
    /// Strides of the axes after the first, in bytes: multiples of 16, below 2^40.
    pub strides_bytes: &'a [u64],
    /// Extents of a copied box, in elements, 1 to 256 each.
    pub box_extents: &'a [u32],
    /// How rows are permuted in shared memory.
    pub swizzle: Swizzle,
    /// How much the second-level cache fetches at a time.
    pub l2_promotion: L2Promotion,
}

/// Types of elements: `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TensorMapElement {
    /// Bytes.
    U8 = 0,
    /// 32-bit integers.
    I32 = 3,
    /// `half`.
    F16 = 6,
    /// `float`.
    F32 = 7,
    /// `bfloat16`.
    Bf16 = 9,
}

/// `CUtensorMapSwizzle`: the span, in bytes, within which 16-byte chunks are permuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Swizzle {
    /// As they come.
    None = 0,
    /// 32 bytes.
    Bytes32 = 1,
    /// 64 bytes.
    Bytes64 = 2,
    /// 128 bytes.
    Bytes128 = 3,
}

/// `CUtensorMapL2promotion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum L2Promotion {
    /// None.
    None = 0,
    /// 64 bytes.
    Bytes64 = 1,
    /// 128 bytes.
    Bytes128 = 2,
    /// 256 bytes.
    Bytes256 = 3,
}
