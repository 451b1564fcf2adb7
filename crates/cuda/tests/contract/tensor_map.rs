//! The rules of `cuTensorMapEncodeTiled`, one by one.

use std::sync::Arc;

use frazil_cuda::{
    DeviceAttribute, Driver, DriverCalls, L2Promotion, Swizzle, TensorMapElement, TensorMapSpec,
};

use super::{Differences, code};

/// A map that is served.
const SPEC: TensorMapSpec<'static> = TensorMapSpec {
    element: TensorMapElement::F16,
    address: 1 << 20,
    extents: &[64, 1000],
    strides_bytes: &[128],
    box_extents: &[64, 128],
    swizzle: Swizzle::Bytes128,
    l2_promotion: L2Promotion::Bytes128,
};

/// Code of each.
const ROWS: &[(&str, i32, TensorMapSpec<'_>)] = &[
    ("a map", 0, SPEC),
    ("a null address", 0, TensorMapSpec { address: 0, ..SPEC }),
    ("an address of 16", 0, TensorMapSpec { address: (1 << 20) + 16, ..SPEC }),
    ("an address of 8", 1, TensorMapSpec { address: (1 << 20) + 8, ..SPEC }),
    ("an extent of 2^32", 0, TensorMapSpec { extents: &[64, 1 << 32], ..SPEC }),
    ("an extent past 2^32", 1, TensorMapSpec { extents: &[64, (1 << 32) + 1], ..SPEC }),
    ("an extent of 0", 1, TensorMapSpec { extents: &[64, 0], ..SPEC }),
    ("a stride of 8", 1, TensorMapSpec { strides_bytes: &[136], ..SPEC }),
    ("a stride of 0", 0, TensorMapSpec { strides_bytes: &[0], ..SPEC }),
    ("a stride below 2^40", 0, TensorMapSpec { strides_bytes: &[(1 << 40) - 16], ..SPEC }),
    ("a stride of 2^40", 1, TensorMapSpec { strides_bytes: &[1 << 40], ..SPEC }),
    ("a box of 256 rows", 0, TensorMapSpec { box_extents: &[64, 256], ..SPEC }),
    ("a box of 257 rows", 1, TensorMapSpec { box_extents: &[64, 257], ..SPEC }),
    ("a box of no rows", 1, TensorMapSpec { box_extents: &[64, 0], ..SPEC }),
    ("a box wider than the swizzle", 1, TensorMapSpec { box_extents: &[72, 8], ..SPEC }),
    ("a box of half a span", 0, TensorMapSpec { box_extents: &[32, 8], ..SPEC }),
    ("a box of half a chunk", 1, TensorMapSpec { box_extents: &[4, 8], ..SPEC }),
    (
        "a wide box without swizzle",
        0,
        TensorMapSpec { box_extents: &[256, 8], swizzle: Swizzle::None, ..SPEC },
    ),
    (
        "64 bytes of swizzle for a row of 128",
        1,
        TensorMapSpec { swizzle: Swizzle::Bytes64, ..SPEC },
    ),
    (
        "32 bytes of swizzle for a row of 32",
        0,
        TensorMapSpec { box_extents: &[16, 8], swizzle: Swizzle::Bytes32, ..SPEC },
    ),
    (
        "one axis",
        0,
        TensorMapSpec { extents: &[64], strides_bytes: &[], box_extents: &[64], ..SPEC },
    ),
    (
        "five axes, strides in any order",
        0,
        TensorMapSpec {
            extents: &[64, 8, 3, 2, 5],
            strides_bytes: &[1 << 20, 128, 4096, 16],
            box_extents: &[64, 8, 1, 1, 1],
            ..SPEC
        },
    ),
    (
        "six axes",
        1,
        TensorMapSpec {
            extents: &[64, 8, 3, 2, 5, 2],
            strides_bytes: &[128, 1024, 4096, 8192, 65_536],
            box_extents: &[64, 8, 1, 1, 1, 1],
            ..SPEC
        },
    ),
    ("no axes", 1, TensorMapSpec { extents: &[], strides_bytes: &[], box_extents: &[], ..SPEC }),
];

pub(crate) fn rules(driver: &Arc<Driver>) {
    let major = driver.device_get_attribute(DeviceAttribute::ComputeCapabilityMajor, 0).unwrap();
    let mut differences = Differences::default();
    if major < 9 {
        let map = driver.tensor_map_encode_tiled(&SPEC);
        differences.compare("a map where there are none (assumed)", code(map), 801);
        return differences.assert_none();
    }
    for (what, expected, spec) in ROWS {
        differences.compare(what, code(driver.tensor_map_encode_tiled(spec)), *expected);
    }
    let mut map = driver.tensor_map_encode_tiled(&SPEC).unwrap();
    let moved = TensorMapSpec { address: 3 << 20, ..SPEC };
    differences.compare(
        "another address",
        code(driver.tensor_map_replace_address(&mut map, 3 << 20)),
        0,
    );
    differences.compare("the map then", map, driver.tensor_map_encode_tiled(&moved).unwrap());
    let odd = driver.tensor_map_replace_address(&mut map, (3 << 20) + 8);
    differences.compare("an address of 8, replaced", code(odd), 1);
    differences.assert_none();
}
