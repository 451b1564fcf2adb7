//! Vectors of every width in every space: bytes are stored one after the other, and loaded as they lie.

use super::warp::run_warp;

/// Where 16 bytes of a lane lie: how an access names the space, and what makes `%at` their address.
const PLACES: [(&str, &str); 5] = [
    (".global", "add.s64 %at, %in, 16;"),
    ("", "add.s64 %at, %in, 16;"),
    (
        ".shared",
        "shl.b32 %s0, %lane, 4; mov.u32 %s1, s; add.s32 %s0, %s0, %s1; cvt.u64.u32 %at, %s0;",
    ),
    (".local", ".local .align 16 .b8 l[32]; mov.u64 %at, l; add.s64 %at, %at, 16;"),
    (
        "",
        "shl.b32 %s0, %lane, 4; mov.u32 %s1, s; add.s32 %s0, %s0, %s1; cvt.u64.u32 %at, %s0; cvta.shared.u64 %at, %at;",
    ),
];

/// The value of a lane's element, cut to its bytes.
fn value(lane: usize, element: usize) -> u32 {
    (lane as u32 + 3).wrapping_mul(0x9e37_79b9) ^ (element as u32).wrapping_mul(0x0301_0501)
}

#[test]
fn elements_of_up_to_four_bytes() {
    let widths = [(1, ["u8", "s8", "b8"]), (2, ["u16", "s16", "b16"]), (4, ["u32", "f32", "b32"])];
    let inputs: Vec<Vec<u32>> =
        (0..32).map(|lane| (0..8).map(|i| value(lane, i)).collect()).collect();
    for (space, place) in PLACES {
        for (bytes, types) in widths {
            for (ty, count) in types.iter().flat_map(|ty| [(ty, 2), (ty, 4)]) {
                let list = |name: &str| {
                    let names = (0..count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>();
                    format!("{{{}}}", names.join(", "))
                };
                let (from, to) = (list("i"), list("o"));
                let text = format!(
                    "{place} st{space}.v{count}.{ty} [%at], {from}; ld{space}.v{count}.{ty} {to}, [%at];
                     ld{space}.u8 %o4, [%at+{}];",
                    bytes * count - 1
                );
                let unused = (count..4).map(|i| format!("mov.u32 %o{i}, 0;")).collect::<String>();
                let results = run_warp(&format!("{text} {unused}"), &inputs, 5);
                for (lane, got) in results.iter().enumerate() {
                    let cut = |i: usize| {
                        let bits = 8 * bytes as u32;
                        let low = value(lane, i) & u32::MAX >> (32 - bits);
                        let is_negative = ty.starts_with('s') && low >> (bits - 1) == 1;
                        if is_negative { low | !(u32::MAX >> (32 - bits)) } else { low }
                    };
                    let expected: Vec<_> = (0..count).map(cut).collect();
                    assert_eq!(got[..count], expected, "{text} lane {lane}");
                    let last = value(lane, count - 1) >> (8 * (bytes - 1)) & 0xff;
                    assert_eq!(got[4], last, "{text} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn two_elements_of_eight_bytes() {
    let inputs: Vec<Vec<u32>> =
        (0..32).map(|lane| (0..8).map(|i| value(lane, i)).collect()).collect();
    for (space, place) in PLACES {
        for ty in ["u64", "s64", "f64", "b64"] {
            let text = format!(
                ".reg .b64 %x<4>; mov.b64 %x0, {{%i0, %i1}}; mov.b64 %x1, {{%i2, %i3}};
                 {place} st{space}.v2.{ty} [%at], {{%x1, %x0}}; ld{space}.v4.b32 {{%o0, %o1, %o2, %o3}}, [%at];
                 ld{space}.v2.{ty} {{%x2, %x3}}, [%at]; mov.b64 {{%o4, %o5}}, %x2; mov.b64 {{%o6, %o7}}, %x3;"
            );
            for (lane, got) in run_warp(&text, &inputs, 8).iter().enumerate() {
                let expected = [2, 3, 0, 1].map(|i| value(lane, i));
                assert_eq!(got[..4], expected, "{text} lane {lane}");
                assert_eq!(got[4..], expected, "{text} lane {lane}");
            }
        }
    }
}
