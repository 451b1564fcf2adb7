//! The cache among processes that race and die, and on disks that are full or may only be read.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod child;
mod disks;
mod kills;
mod races;
mod written;

use std::time::{Duration, Instant};

use frazil_cuda::{DiskCache, Lookup};
use written::Written;

/// What a warm plan spends on the disk, of the 5 ms that it may take in all.
#[test]
fn a_warm_load_takes_far_less_than_a_warm_plan_may() {
    const LIMIT: Duration = Duration::from_millis(5);
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    let artifact = Written { key: 0, writer: 1, generation: 0 }.artifact();
    assert!(artifact.image.len() >= 200_000);
    cache.store(&artifact).unwrap();
    let mut times: Vec<Duration> = (0..201)
        .map(|_| {
            let start = Instant::now();
            let found = cache.load(&artifact.key);
            let time = start.elapsed();
            assert!(matches!(found, Lookup::Hit(_)));
            time
        })
        .collect();
    times.sort();
    let (least, median, most) = (times[0], times[100], times[200]);
    eprintln!(
        "a warm load of {} bytes: median {median:?}, {least:?} to {most:?}",
        artifact.image.len()
    );
    assert!(median < LIMIT, "{median:?}");
}
