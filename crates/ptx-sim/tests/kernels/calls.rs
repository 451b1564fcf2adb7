//! Functions that are not inlined.

use super::{each, numbers, texts};

/// The struct `Pair` of the kernel: 16 bytes, one of them padding that nobody writes or reads.
#[derive(Clone, Copy)]
struct Pair {
    sum: i64,
    parts: [i16; 3],
    last: u8,
}

fn add(a: Pair, b: Pair) -> Pair {
    let parts = [0, 1, 2].map(|i| a.parts[i].wrapping_sub(b.parts[i]));
    Pair { sum: a.sum + b.sum, parts, last: a.last ^ b.last }
}

fn fibonacci(n: u32) -> u32 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

#[test]
fn functions_are_called_with_structs_arrays_and_themselves() {
    let count = 70_usize;
    let pairs: Vec<_> = numbers(count, 8)
        .iter()
        .map(|x| Pair {
            sum: *x as i32 as i64,
            parts: [*x as i16, (*x >> 7) as i16, (*x >> 13) as i16],
            last: (*x >> 3) as u8,
        })
        .collect();
    each(texts!("calls"), |device| {
        let mut bytes = Vec::new();
        for pair in &pairs {
            bytes.extend(pair.sum.to_le_bytes());
            bytes.extend(pair.parts.iter().flat_map(|part| part.to_le_bytes()));
            bytes.extend([pair.last, 0xee]);
        }
        let input = device.upload(&bytes);
        let sums = device.alloc(8 * count as u64);
        let (picks, fibs) = (device.alloc(4 * count as u64), device.alloc(4 * count as u64));
        let n = (count as i32).into();
        device.launch(
            [3, 1, 1],
            [32, 1, 1],
            &[input.into(), sums.into(), picks.into(), fibs.into(), n],
        );
        let each = |f: &dyn Fn(usize) -> i64| (0..count).map(f).collect::<Vec<_>>();
        let expected = each(&|idx| {
            let total = pairs[..idx % 4].iter().fold(pairs[idx], |total, pair| add(total, *pair));
            let [a, b, c] = total.parts.map(i64::from);
            total.sum + a + 100 * b + 10_000 * c + i64::from(total.last)
        });
        assert_eq!(device.download::<i64>(sums, count), expected);
        let expected = each(&|idx| {
            let mut table = [0; 5];
            for i in 0..5 {
                table[(i * 3 + idx) % 5] = (i * idx) as i64;
            }
            table[(idx as i64 - 7).rem_euclid(5) as usize]
        });
        let picks = device.download::<i32>(picks, count);
        assert_eq!(picks.into_iter().map(i64::from).collect::<Vec<_>>(), expected);
        let expected: Vec<_> = (0..count).map(|idx| fibonacci((idx % 9) as u32)).collect();
        assert_eq!(device.download::<u32>(fibs, count), expected);
    });
}
