//! Writers that are killed at any moment.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use frazil_cuda::{DiskCache, Lookup};

use crate::child::Process;
use crate::written::{Written, key};

const NUM_KEYS: u8 = 4;

/// Writers that are killed, unless more is to be seen.
const NUM_KILLS: u32 = 100;

/// Long before this, a kill has met a write.
const MAX_KILLS: u32 = 2000;

/// What the kills left.
#[derive(Debug, Default)]
struct Left {
    kills: u32,
    hits: usize,
    absent: usize,
    refused: usize,
    /// Temporary files of dead writers.
    temporaries: usize,
}

/// Kills writers one after another, each at a random moment of its work, and looks at every entry
/// after each, until there is nothing more to see.
fn kill_writers(test: &str, folder: &Path, is_enough: impl Fn(&Left) -> bool) -> Left {
    let cache = DiskCache::at(folder);
    let mut moments = fastrand::Rng::with_seed(4);
    let mut left = Left::default();
    for writer in 0..MAX_KILLS {
        let process = Process::start(test, folder, writer);
        std::thread::sleep(Duration::from_micros(moments.u64(0..15_000)));
        process.kill();
        for first in 0..NUM_KEYS {
            match cache.load(&key(first)) {
                Lookup::Hit(artifact) => {
                    assert_eq!(Written::read(&artifact).key, first);
                    left.hits += 1;
                }
                Lookup::Absent => left.absent += 1,
                Lookup::Refused(_) => left.refused += 1,
            }
        }
        left.kills += 1;
        left.temporaries = temporaries(&cache).len();
        assert!(left.temporaries <= left.kills as usize, "at most one of each dead writer");
        if is_enough(&left) {
            break;
        }
    }
    left
}

fn temporaries(cache: &DiskCache) -> Vec<std::path::PathBuf> {
    let paths = fs::read_dir(cache.folder()).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "tmp")).collect()
}

#[test]
fn a_writer_killed_at_any_moment_leaves_whole_entries_and_nothing_for_long() {
    let folder = tempfile::tempdir().unwrap();
    // Some are killed between creating a file and renaming it: else this shows nothing.
    let is_enough = |left: &Left| left.kills >= NUM_KILLS && left.temporaries > 0;
    let left = kill_writers("kills::reexecuted::writes", folder.path(), is_enough);
    eprintln!("{left:?}");
    assert!(is_enough(&left), "{left:?}");
    assert_eq!(left.refused, 0);
    assert!(left.hits > 0);
    // The store of an hour later removes what they left.
    let cache = DiskCache::at(folder.path());
    for path in temporaries(&cache) {
        let before = SystemTime::now() - Duration::from_secs(3660);
        File::open(path).unwrap().set_modified(before).unwrap();
    }
    cache.store(&Written { key: 0, writer: 0, generation: 0 }.artifact()).unwrap();
    assert_eq!(temporaries(&cache).len(), 0);
}

/// The same in red: writers that write to the entry itself.
#[cfg(unix)]
#[test]
fn a_writer_killed_while_it_writes_in_place_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let is_found_out = |left: &Left| left.refused > 0;
    let left = kill_writers("kills::reexecuted::writes_in_place", folder.path(), is_found_out);
    assert!(is_found_out(&left), "{left:?}");
}

/// Tests that another test runs in a process of its own; no tier runs them.
mod reexecuted {
    use super::*;
    use crate::child;

    /// Artifacts made before, since only moments within a store are of interest.
    fn artifacts() -> Vec<frazil_cuda::Artifact> {
        let writer = child::writer();
        let of = |key| Written { key, writer, generation: 7 * writer }.artifact();
        (0..NUM_KEYS).map(of).collect()
    }

    #[test]
    #[ignore = "run by a_writer_killed_at_any_moment_leaves_whole_entries_and_nothing_for_long"]
    fn writes() {
        let cache = DiskCache::at(child::folder());
        let artifacts = artifacts();
        child::work(|| artifacts.iter().for_each(|artifact| cache.store(artifact).unwrap()));
    }

    #[test]
    #[ignore = "run by a_writer_killed_while_it_writes_in_place_is_found_out"]
    fn writes_in_place() {
        let cache = DiskCache::at(child::folder());
        let artifacts = artifacts();
        // Makes folder and files such that a load trusts them.
        artifacts.iter().for_each(|artifact| cache.store(artifact).unwrap());
        child::work(|| {
            for artifact in &artifacts {
                fs::write(cache.path(&artifact.key), artifact.to_bytes()).unwrap();
            }
        });
    }
}
