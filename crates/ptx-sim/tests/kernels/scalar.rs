//! Kernels whose threads do not meet.

use super::{each, numbers, texts};
use crate::device::Parameter;

#[test]
fn lanes_leave_a_loop_each_at_its_own_time() {
    let mut values: Vec<_> = numbers(200, 3).iter().map(|x| x % 100_000 + 1).collect();
    values[7] = 1;
    each(texts!("collatz"), |device| {
        let input = device.upload(&values);
        let (steps, kinds) = (device.alloc(800), device.alloc(800));
        let params = [input.into(), steps.into(), kinds.into(), 200_i32.into()];
        device.launch([2, 1, 1], [128, 1, 1], &params);
        let expected_steps: Vec<_> = values.iter().map(|value| collatz(*value)).collect();
        assert_eq!(device.download::<u32>(steps, 200), expected_steps);
        let kind = |(idx, steps): (usize, &u32)| kind(idx as i32, *steps);
        let expected: Vec<_> = expected_steps.iter().enumerate().map(kind).collect();
        assert_eq!(device.download::<i32>(kinds, 200), expected);
    });
}

fn collatz(mut value: u64) -> u32 {
    let mut count = 0;
    while value != 1 && count < 1000 {
        value = if value.is_multiple_of(2) { value / 2 } else { 3 * value + 1 };
        count += 1;
    }
    count
}

fn kind(idx: i32, steps: u32) -> i32 {
    match steps % 7 {
        0 => idx * 3,
        1 => -idx,
        2 => idx ^ 0x55,
        3 => idx / 3,
        4 => idx % 5 - 9,
        5 => idx.leading_zeros() as i32,
        _ => (idx.count_ones() as i32).wrapping_add((idx as u32).reverse_bits() as i32),
    }
}

/// Signs of loads must reach the upper half of a register of 64 bits (PTX ISA 9.4.1).
#[test]
fn signed_loads_fill_wider_registers() {
    let count = 100;
    let lengths: Vec<_> = numbers(count, 4).iter().map(|x| *x as i32).collect();
    let bytes: Vec<_> = numbers(count, 5).iter().map(|x| *x as i8).collect();
    let halves: Vec<_> = numbers(count, 6).iter().map(|x| *x as u16).collect();
    let stride = -1_234_567_i64;
    assert!(lengths.iter().any(|length| *length < 0));
    each(texts!("index64"), |device| {
        let pointers = [device.upload(&lengths), device.upload(&bytes), device.upload(&halves)];
        let out = device.alloc(48 * count as u64);
        let mut params: Vec<_> = pointers.iter().flat_map(|x| x.to_le_bytes()).collect();
        params.extend(out.to_le_bytes());
        params.extend(stride.to_le_bytes());
        params.extend((count as i32).to_le_bytes());
        device.launch([1, 1, 1], [128, 1, 1], &[Parameter(params)]);
        let mut expected = Vec::new();
        for idx in 0..count {
            let (length, byte) = (i64::from(lengths[idx]), i64::from(bytes[idx]));
            let product = length * stride;
            let factor = u64::from(halves[idx]) | 1 << 63;
            let high = (u128::from(product as u64) * u128::from(factor)) >> 64;
            let divisor = if byte == 0 { 1 } else { byte };
            expected.extend([length, byte, product, high as u64 as i64]);
            expected.extend([product / divisor, product % 1_000_003]);
        }
        assert_eq!(device.download::<i64>(out, 6 * count), expected);
    });
}

#[test]
fn floats_are_rounded_as_the_processor_rounds() {
    let count = 100;
    let values: Vec<_> = numbers(count, 7).iter().map(|x| (*x as i16) as f32 / 1000.0).collect();
    each(texts!("floats"), |device| {
        let input = device.upload(&values);
        let out = device.alloc(4 * count as u64);
        let sum = device.upload(&[0.0_f64]);
        let params = [input.into(), out.into(), sum.into(), (count as i32).into()];
        device.launch([1, 1, 1], [128, 1, 1], &params);
        // The compiler contracts what it may, so the sums are compared with a tolerance.
        let z = |x: f32| {
            let y = x.mul_add(3.0, -1.0) / x.mul_add(x, 1.0);
            (y.abs().sqrt() + x.min(0.5) - x.max(-0.5), y)
        };
        let expected = values.iter().map(|x| {
            let (z, y) = z(*x);
            z + (x * 100.0).trunc() + (y * 8.0).round_ties_even()
        });
        for (got, expected) in device.download::<f32>(out, count).iter().zip(expected) {
            assert!((got - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{got} {expected}");
        }
        let all = values.iter().copied().chain([0.0; 28]);
        let total: f64 = all.map(|x| f64::from(z(x).0)).sum();
        let got = device.download::<f64>(sum, 1)[0];
        assert!((got - total).abs() < 1e-4, "{got} {total}");
    });
}
