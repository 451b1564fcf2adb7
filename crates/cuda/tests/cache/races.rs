//! Writers and readers of one entry at once: threads, and processes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frazil_cuda::{DiskCache, Lookup};

use crate::child::Process;
use crate::written::{Written, key};

/// Long before this, every writer was seen.
const DEADLINE: Duration = Duration::from_secs(60);

/// An entry that is there once is there from then on, whole, whoever replaces it.
fn found(cache: &DiskCache) -> Written {
    match cache.load(&key(0)) {
        Lookup::Hit(artifact) => Written::read(&artifact),
        Lookup::Absent => panic!("the entry was there before"),
        Lookup::Refused(refusal) => panic!("{refusal}"),
    }
}

/// Reads until many entries of both writers were found.
fn read_both(folder: &Path, mut step: impl FnMut()) -> BTreeSet<Written> {
    let cache = DiskCache::at(folder);
    let start = Instant::now();
    let mut seen = BTreeSet::new();
    let enough = |seen: &BTreeSet<Written>| {
        [1, 2].iter().all(|writer| seen.iter().filter(|one| one.writer == *writer).count() >= 20)
    };
    while !enough(&seen) {
        assert!(start.elapsed() < DEADLINE, "{} entries, not of both writers", seen.len());
        step();
        seen.insert(found(&cache));
    }
    seen
}

#[test]
fn two_threads_that_write_one_entry_never_show_a_part_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    cache.store(&Written { key: 0, writer: 1, generation: 0 }.artifact()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in [1, 2] {
            let (cache, is_over) = (cache.clone(), &is_over);
            scope.spawn(move || {
                let generations = (1..).take_while(|_| !is_over.load(Ordering::Relaxed));
                generations.for_each(|generation| {
                    cache.store(&Written { key: 0, writer, generation }.artifact()).unwrap();
                });
            });
        }
        // Raised also where this thread fails, so that the others end.
        let _raised = Raised(&is_over);
        read_both(folder.path(), || ());
    });
    // Each cleaned up after itself.
    assert_eq!(std::fs::read_dir(cache.folder()).unwrap().count(), 1);
}

struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn two_processes_that_write_one_entry_never_show_a_part_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    cache.store(&Written { key: 0, writer: 1, generation: 0 }.artifact()).unwrap();
    let mut writers = [1, 2]
        .map(|writer| Process::start("races::reexecuted::writes_and_reads", folder.path(), writer));
    let seen = read_both(folder.path(), || {
        assert!(writers.iter_mut().all(Process::lives), "a writer found what it should not");
    });
    eprintln!("{} different entries of two processes, each whole", seen.len());
}

/// Tests that another test runs in a process of its own; no tier runs them.
mod reexecuted {
    use super::*;
    use crate::child;

    #[test]
    #[ignore = "run by two_processes_that_write_one_entry_never_show_a_part_of_one"]
    fn writes_and_reads() {
        let (cache, writer) = (DiskCache::at(child::folder()), child::writer());
        let mut generation = 0;
        child::work(|| {
            generation += 1;
            cache.store(&Written { key: 0, writer, generation }.artifact()).unwrap();
            found(&cache);
        });
    }
}
