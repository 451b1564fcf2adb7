//! Exchanges inside of warps and blocks.

use super::{each, numbers, texts};

const WEIGHTS: [i32; 8] = [3, -1, 4, -1, 5, -9, 2, -6];

/// The value that `thread` reads from a lane of its warp, if the lane is in its segment; else its own.
fn at(values: &[i32], thread: usize, lane: Option<usize>) -> i32 {
    values[lane.map_or(thread, |lane| thread / 32 * 32 + lane)]
}

fn expected(values: &[i32], thread: usize) -> [i32; 16] {
    let warp = &values[thread / 32 * 32..][..32];
    let lane = thread % 32;
    let value = values[thread];
    let count = values.iter().filter(|value| **value > 0).count() as i32;
    let ballot = |holds: &dyn Fn(i32) -> bool| {
        (0..32).fold(0_u32, |bits, lane| bits | u32::from(holds(warp[lane])) << lane) as i32
    };
    let half = || warp.iter().skip(lane % 2).step_by(2);
    let agree = warp.iter().all(|other| other / 1000 == warp[0] / 1000);
    let bytes = |selectors: [usize; 4]| {
        let joined = (value as u32 as u64 | (thread as u64) << 32).to_le_bytes();
        i32::from_le_bytes(selectors.map(|selector| joined[selector]))
    };
    let funnel = ((((thread as u64) << 32 | u64::from(value as u32)) << 9) >> 32) as i32;
    let mut above = (4..32).filter(|bit| value >> bit & 1 == 1);
    [
        at(values, thread, lane.checked_sub(3)),
        at(values, thread, (lane % 16 + 5 < 16).then_some(lane + 5)),
        at(values, thread, Some(lane ^ 6)),
        at(values, thread, Some(lane / 8 * 8 + thread * 7 % 8)),
        ballot(&|value| value > 0),
        i32::from(warp.contains(&12)) | i32::from(warp.iter().all(|value| *value < 1000)) << 1,
        ballot(&|other| other & 3 == value & 3),
        warp.iter().fold(0, |sum: i32, value| sum.wrapping_add(*value)),
        warp.iter().map(|value| *value as u32).max().unwrap() as i32,
        count,
        i32::from(values.contains(&20)) | i32::from(values.iter().all(|value| *value < 100)) << 1,
        if lane.is_multiple_of(2) {
            *half().min().unwrap()
        } else {
            half().fold(0, |sum, value| sum ^ value)
        },
        if agree { -1 } else { 0 },
        i32::from(agree),
        above.nth(1).map_or(-1, |bit| bit),
        // 0x5140: bytes 0, 4, 1 and 5, the lowest first.
        bytes([0, 4, 1, 5]).wrapping_add(funnel),
    ]
}

#[test]
fn lanes_exchange_what_they_hold() {
    for block in [32, 96] {
        let input: Vec<_> = numbers(block, 9).iter().map(|x| *x as i32 % 40).collect();
        each(texts!("warp_ops"), |device| {
            let address = device.upload(&input);
            let out = device.alloc(64 * block as u64);
            device.launch([1; 3], [block as u32, 1, 1], &[address.into(), out.into()]);
            let values: Vec<_> =
                input.iter().enumerate().map(|(i, value)| value * WEIGHTS[i % 8]).collect();
            let got = device.download::<i32>(out, 16 * block);
            for thread in 0..block {
                assert_eq!(got[16 * thread..][..16], expected(&values, thread), "thread {thread}");
            }
            let total = device.download::<i64>(device.symbol("total"), 1)[0];
            assert_eq!(total, 1000 + values.iter().map(|value| i64::from(*value)).sum::<i64>());
        });
    }
}
