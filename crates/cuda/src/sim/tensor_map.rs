//! Tensor maps of simulated devices: the driver's rules, and an encoding of our own.
//!
//! NVIDIA does not document its encoding. Ours, which the simulator's tensor copies read, is
//! sixteen 64-bit words, little-endian in memory:
//!
//! | word | content |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | address of the first element |
//! | 2 | bits 0-7 `CUtensorMapDataType`, 8-15 number of axes, 16-23 `CUtensorMapSwizzle`, 24-31 `CUtensorMapL2promotion` |
//! | 3 to 7 | extents of axes 0 to 4, in elements; 0 for axes that are not there |
//! | 8 to 11 | strides of axes 1 to 4, in bytes; 0 for axes that are not there |
//! | 12 | extents of the box along axes 0 to 3, in elements, 16 bits each from the lowest |
//! | 13 | extent of the box along axis 4 |
//! | 14, 15 | 0 |
//!
//! The rules are those of `cuTensorMapEncodeTiled` for maps without interleaving and with element
//! strides of 1.

use super::code::{Code, Outcome};
use crate::{Swizzle, TensorMap, TensorMapElement, TensorMapSpec};

/// First word of every map: `frz tmap` in ASCII, the first letter in the lowest byte.
const MAGIC: u64 = u64::from_le_bytes(*b"frz tmap");

const MAX_AXES: usize = 5;
const MAX_EXTENT: u64 = 1 << 32;
const STRIDE_END: u64 = 1 << 40;
const MAX_BOX_EXTENT: u32 = 256;
/// What addresses, strides and a row of the box are multiples of.
const CHUNK_BYTES: u64 = 16;

pub(super) fn encode(spec: &TensorMapSpec<'_>) -> Outcome<TensorMap> {
    check(spec)?;
    let mut words = [0; 16];
    words[0] = MAGIC;
    words[1] = spec.address;
    words[2] = spec.element as u64
        | (spec.extents.len() as u64) << 8
        | (spec.swizzle as u64) << 16
        | (spec.l2_promotion as u64) << 24;
    words[3..].iter_mut().zip(spec.extents).for_each(|(word, &extent)| *word = extent);
    words[8..].iter_mut().zip(spec.strides_bytes).for_each(|(word, &stride)| *word = stride);
    for (axis, &extent) in spec.box_extents.iter().enumerate() {
        words[12 + axis / 4] |= u64::from(extent) << (16 * (axis % 4));
    }
    Ok(TensorMap(words))
}

pub(super) fn replace_address(map: &mut TensorMap, address: u64) -> Outcome<()> {
    if map.0[0] != MAGIC || !address.is_multiple_of(CHUNK_BYTES) {
        return Err(Code::INVALID_VALUE);
    }
    map.0[1] = address;
    Ok(())
}

fn check(spec: &TensorMapSpec<'_>) -> Outcome<()> {
    let axes = spec.extents.len();
    let row_bytes = spec
        .box_extents
        .first()
        .map_or(0, |&extent| u64::from(extent) * element_bytes(spec.element));
    let is_served = (1..=MAX_AXES).contains(&axes)
        && spec.strides_bytes.len() == axes - 1
        && spec.box_extents.len() == axes
        && spec.address.is_multiple_of(CHUNK_BYTES)
        && spec.extents.iter().all(|extent| (1..=MAX_EXTENT).contains(extent))
        && spec
            .strides_bytes
            .iter()
            .all(|&stride| stride.is_multiple_of(CHUNK_BYTES) && stride < STRIDE_END)
        && spec.box_extents.iter().all(|extent| (1..=MAX_BOX_EXTENT).contains(extent))
        && row_bytes.is_multiple_of(CHUNK_BYTES)
        && span_bytes(spec.swizzle).is_none_or(|span| row_bytes <= span);
    if is_served { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn element_bytes(element: TensorMapElement) -> u64 {
    match element {
        TensorMapElement::U8 => 1,
        TensorMapElement::F16 | TensorMapElement::Bf16 => 2,
        TensorMapElement::I32 | TensorMapElement::F32 => 4,
    }
}

fn span_bytes(swizzle: Swizzle) -> Option<u64> {
    match swizzle {
        Swizzle::None => None,
        Swizzle::Bytes32 => Some(32),
        Swizzle::Bytes64 => Some(64),
        Swizzle::Bytes128 => Some(128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::L2Promotion;

    #[test]
    fn the_words_of_a_map_are_those_of_the_table() {
        let spec = TensorMapSpec {
            element: TensorMapElement::Bf16,
            address: 0x1234_5670,
            extents: &[64, 1000, 8, 3, 2],
            strides_bytes: &[128, 128_000, 1_024_000, 3_072_000],
            box_extents: &[64, 128, 1, 256, 5],
            swizzle: Swizzle::Bytes128,
            l2_promotion: L2Promotion::Bytes256,
        };
        let mut map = encode(&spec).unwrap();
        let expected = [
            0x7061_6d74_207a_7266,
            0x1234_5670,
            0x0303_0509,
            64,
            1000,
            8,
            3,
            2,
            128,
            128_000,
            1_024_000,
            3_072_000,
            0x0100_0001_0080_0040,
            5,
            0,
            0,
        ];
        assert_eq!(map.0, expected);
        replace_address(&mut map, 0x40).unwrap();
        assert_eq!(map.0[1], 0x40);
        assert_eq!(replace_address(&mut map, 0x48), Err(Code::INVALID_VALUE));
        assert_eq!(replace_address(&mut TensorMap([0; 16]), 0x40), Err(Code::INVALID_VALUE));
    }
}
