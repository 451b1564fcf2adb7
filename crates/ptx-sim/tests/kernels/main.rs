//! PTX that NVRTC emits for small kernels, for three targets and several seeds, against the same functions in Rust. How
//! the texts were made stands in `tests/fixtures/README.md`.

#![expect(clippy::cast_possible_truncation, reason = "widths are those of the kernels")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod calls;
mod device;
mod scalar;
mod warp_ops;

use device::Device;

macro_rules! texts {
    ($name:literal) => {
        [
            ("compute_80", include_str!(concat!("../fixtures/", $name, ".compute_80.ptx"))),
            ("compute_90a", include_str!(concat!("../fixtures/", $name, ".compute_90a.ptx"))),
            ("compute_100a", include_str!(concat!("../fixtures/", $name, ".compute_100a.ptx"))),
        ]
    };
}
pub(crate) use texts;

/// Runs a check on every text with several seeds.
fn each(texts: [(&str, &str); 3], check: impl Fn(&mut Device)) {
    for (target, text) in texts {
        for seed in 0..6 {
            let mut device = Device::new(text, seed, target);
            check(&mut device);
        }
    }
}

/// Numbers that look random and are always the same.
fn numbers(count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_block_scans_its_numbers() {
    let in_values: Vec<_> = numbers(1000, 1).iter().map(|x| *x as i32 % 1000).collect();
    each(texts!("block_scan"), |device| {
        let input = device.upload(&in_values);
        let out = device.alloc(4 * 1000);
        device.dynamic_shared_bytes = 2 * 256 * 4;
        device.launch([4, 1, 1], [256, 1, 1], &[input.into(), out.into(), 1000_i32.into()]);
        let mut expected = in_values.clone();
        for block in expected.chunks_mut(256) {
            for i in 1..block.len() {
                block[i] += block[i - 1];
            }
        }
        assert_eq!(device.download::<i32>(out, 1000), expected);
    });
}

#[test]
fn a_histogram_counts_every_byte_once() {
    let words: Vec<_> = numbers(4 * 300, 2).iter().map(|x| *x as u32).collect();
    each(texts!("histogram"), |device| {
        let input = device.upload(&words);
        let counts = device.upload(&[0_u32; 256]);
        device.launch([3, 1, 1], [96, 1, 1], &[input.into(), counts.into(), 300_u32.into()]);
        let mut expected = [0; 256];
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            expected[usize::from(byte)] += 1;
        }
        assert_eq!(device.download::<u32>(counts, 256), expected);
    });
}
