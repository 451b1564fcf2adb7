//! Shuffles against the pseudo-code of the PTX ISA. Other exchanges: `tests/kernels/warp_ops.rs`.

use super::run;

/// Source lane and predicate.
fn source(mode: &str, lane: i32, b: i32, c: i32) -> (i32, bool) {
    let (bval, cval, mask) = (b & 31, c & 31, c >> 8 & 31);
    let max_lane = (lane & mask) | (cval & !mask);
    let min_lane = lane & mask;
    let (j, p) = match mode {
        "up" => (lane - bval, lane - bval >= max_lane),
        "down" => (lane + bval, lane + bval <= max_lane),
        "bfly" => (lane ^ bval, lane ^ bval <= max_lane),
        _ => (min_lane | (bval & !mask), min_lane | (bval & !mask) <= max_lane),
    };
    if p { (j, p) } else { (lane, p) }
}

#[test]
fn shuffles_follow_the_pseudo_code() {
    for mode in ["up", "down", "bfly", "idx"] {
        // Segments of 32, 16, 8 and 4 lanes; `up` counts down to the segment's begin.
        for width in [32, 16, 8, 4] {
            for b in 0..32 {
                let c = (32 - width) << 8 | if mode == "up" { 0 } else { 31 };
                let triples: Vec<_> = (0..64).map(|thread| [1000 + thread, 0, 0]).collect();
                let text = format!(
                    "shfl.sync.{mode}.b32 %d|%q, %a, {b}, {c}, -1; selp.b16 %dh, 1, 0, %q;"
                );
                for (thread, result) in run(&text, &triples).iter().enumerate() {
                    let (lane, inside) = source(mode, thread as i32 % 32, b, c);
                    let expected = 1000 + thread as u64 / 32 * 32 + lane as u64;
                    assert_eq!(result[0], expected, "{text} thread {thread}");
                    assert_eq!(result[2], u64::from(inside), "{text} thread {thread}");
                }
            }
        }
    }
}

/// One lane of the mask is elected, and knows it.
#[test]
fn one_lane_is_elected() {
    let text = "elect.sync %d|%q, 0xffffffff; selp.b16 %dh, 1, 0, %q;";
    let results = run(text, &[[0; 3]; 64]);
    for warp in results.chunks(32) {
        let leader = warp[0][0];
        let elected: Vec<_> = warp.iter().map(|result| result[2]).collect();
        assert!(warp.iter().all(|result| result[0] == leader));
        assert_eq!(elected.iter().sum::<u64>(), 1);
        assert_eq!(elected[leader as usize], 1);
    }
}

#[test]
fn lanes_know_who_is_active() {
    let text = "setp.lt.u32 %q, %a, 7; @%q activemask.b32 %d;";
    let triples: Vec<_> = (0..32).map(|lane| [lane, 0, 0]).collect();
    for (lane, result) in run(text, &triples).iter().enumerate() {
        assert_eq!(result[0], if lane < 7 { 0x7f } else { 0 });
    }
}
