//! PTX that NVRTC emits for small kernels, for three targets and several seeds, against the same functions in Rust. How
//! the texts were made stands in `tests/fixtures/README.md`.

#![expect(clippy::cast_possible_truncation, reason = "widths are those of the kernels")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod calls;
mod device;
mod flash_attention;
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

/// The same seed gives the same run, and some seeds differ: which of four blocks comes first is theirs to say.
#[test]
fn a_seed_repeats_a_run() {
    let text = ".version 9.0 .target sm_80 .address_size 64
        .visible .entry k(.param .u64 order) {
            .reg .b32 %r<4>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [order];
            mov.u32 %r1, %ctaid.x;
            atom.global.add.u32 %r2, [%rd1], 1;
            mad.wide.u32 %rd2, %r1, 4, %rd1;
            st.global.u32 [%rd2+4], %r2;
        }";
    let run = |seed: u64| {
        let mut device = Device::new(text, seed, "sm_80");
        let order = device.upload(&[0_u32; 5]);
        device.launch([4, 1, 1], [1, 1, 1], &[order.into()]);
        device.download::<u32>(order, 5)
    };
    let runs: Vec<_> = (0..20).map(run).collect();
    assert_eq!(runs, (0..20).map(run).collect::<Vec<_>>());
    assert!(runs.iter().any(|order| *order != runs[0]));
}

/// Clusters of blocks know where they are, and begin together.
#[test]
fn blocks_know_their_place_in_cluster_and_grid() {
    let text = ".version 9.0 .target sm_90 .address_size 64
        .visible .entry k(.param .u64 out) {
            .reg .b32 %r<9>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [out];
            mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x;
            mad.lo.u32 %r1, %r2, %r3, %r1;
            mad.wide.u32 %rd1, %r1, 16, %rd1;
            mov.u32 %r1, %clusterid.x; mov.u32 %r2, %clusterid.y; mov.u32 %r3, %cluster_ctarank;
            mov.u32 %r4, %cluster_nctarank;
            st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
        }";
    let mut memory = frazil_ptx_sim::Memory::new(1 << 20);
    let image = frazil_ptx_sim::Module::parse(text).unwrap().load(&mut memory).unwrap();
    let out = memory.alloc(16 * 24, 16).unwrap();
    let params = out.to_le_bytes();
    let launch = frazil_ptx_sim::Launch {
        cluster: [2, 2, 1],
        ..frazil_ptx_sim::Launch::new([6, 4, 1], [1; 3], &params)
    };
    image.kernel("k").unwrap().run(&mut memory, &launch).unwrap();
    for (x, y) in (0..6_u32).flat_map(|x| (0..4).map(move |y| (x, y))) {
        let mut bytes = [0; 16];
        memory.read(out + u64::from(16 * (y * 6 + x)), &mut bytes).unwrap();
        let expected = [x / 2, y / 2, x % 2 + 2 * (y % 2), 4];
        assert_eq!(bytes[..], expected.map(u32::to_le_bytes).concat(), "block {x}, {y}");
    }
}

/// Addresses in initialisers, and zeros for what has no value.
#[test]
fn variables_begin_as_the_module_says() {
    let text = ".version 9.0 .target sm_80 .address_size 64
        .global .align 4 .u32 values[4] = {1, 2, -3};
        .global .align 8 .u64 pointers[2] = {values, generic(values)+8};
        .const .align 2 .b8 table[6] = {7, 8, 0xff};
        .visible .entry k() { ret; }";
    let device = Device::new(text, 0, "sm_80");
    let values = device.symbol("values");
    assert_eq!(device.download::<i32>(values, 4), [1, 2, -3, 0]);
    assert_eq!(device.download::<u64>(device.symbol("pointers"), 2), [values, values + 8]);
    assert_eq!(device.download::<u8>(device.symbol("table"), 6), [7, 8, 0xff, 0, 0, 0]);
}
