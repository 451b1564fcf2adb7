//! The cache on a sound disk: round trips, foreign things in its place, who is trusted, what is removed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{key, names, other, small};
use crate::cache::files::{Access, Status};
use crate::cache::{DiskCache, MAX_ENTRY_BYTES};
use crate::{Artifact, Distrust, Lookup, Refusal, StoreError};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn made_before(path: &Path, age: Duration) {
    File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn what_is_stored_is_found_and_what_is_stored_again_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path().join("made/when/needed"));
    assert_eq!(cache.load(&key(0)), Lookup::Absent);
    assert!(!cache.folder().exists(), "to look makes nothing");
    cache.store(&small()).unwrap();
    assert_eq!(cache.load(&key(0)), Lookup::Hit(small()));
    assert_eq!(cache.load(&key(1)), Lookup::Absent);
    cache.store(&other()).unwrap();
    assert_eq!(cache.load(&key(0)), Lookup::Hit(other()));
    assert_eq!(names(cache.folder()), [format!("{}.kernel", key(0))]);
}

/// Every kind of wrong thing that can have an entry's name: refused for its reason, and replaced.
#[test]
fn a_wrong_entry_is_a_miss_with_its_reason_and_is_replaced() {
    let whole = small().to_bytes();
    let need = whole.len() as u64;
    let mut flipped = whole.clone();
    flipped[300] ^= 1;
    let mut later = whole.clone();
    later[8] = 2;
    let found = key(7);
    let moved = Artifact { key: found, ..small() }.to_bytes();
    let rows = [
        (Vec::new(), Refusal::Truncated { found: 0, need: 64 }),
        (whole[..whole.len() - 1].to_vec(), Refusal::Truncated { found: need - 1, need }),
        ([whole.clone(), vec![0]].concat(), Refusal::Overlong { found: need + 1, need }),
        (flipped, Refusal::Checksum),
        (later, Refusal::Format { found: 2, known: 1 }),
        (b"\x7fELF\x02\x01\x01 a cubin as it comes".to_vec(), Refusal::Foreign),
        (moved, Refusal::OtherKey { found }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    for (bytes, refusal) in rows {
        cache.store(&small()).unwrap();
        fs::write(cache.path(&key(0)), bytes).unwrap();
        assert_eq!(cache.load(&key(0)), Lookup::Refused(refusal));
        cache.store(&other()).unwrap();
        assert_eq!(cache.load(&key(0)), Lookup::Hit(other()));
    }
}

/// A file that says to be large costs no memory, whatever its size.
#[test]
fn a_file_larger_than_any_entry_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    cache.store(&small()).unwrap();
    let size = 1 << 42;
    File::options().write(true).open(cache.path(&key(0))).unwrap().set_len(size).unwrap();
    let limit = MAX_ENTRY_BYTES;
    let refusal = Refusal::TooLarge { found: size, limit };
    assert_eq!(cache.load(&key(0)), Lookup::Refused(refusal));
    let image = vec![0; usize::try_from(limit).unwrap()];
    let stored = cache.store(&Artifact { image, ..small() });
    assert!(matches!(stored, Err(StoreError::TooLarge { .. })), "{stored:?}");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    fs::create_dir_all(cache.path(&key(0))).unwrap();
    forbid_others(cache.folder());
    assert_eq!(cache.load(&key(0)), Lookup::Refused(Refusal::NotAFile));
    assert!(cache.store(&small()).is_err());
    // A file where the folder should be.
    let cache = DiskCache::at(folder.path().join("file"));
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(cache.load(&key(0)), Lookup::Refused(Refusal::Io(ErrorKind::NotADirectory)));
    assert!(cache.store(&small()).is_err());
}

fn forbid_others(folder: &Path) {
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    #[cfg(not(unix))]
    let _ = folder;
}

/// A pipe has no end until somebody writes to it: it is not opened.
#[cfg(unix)]
#[test]
fn a_pipe_with_the_name_of_an_entry_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    cache.store(&small()).unwrap();
    fs::remove_file(cache.path(&key(0))).unwrap();
    let made = std::process::Command::new("mkfifo").arg(cache.path(&key(0))).status().unwrap();
    assert!(made.success());
    assert_eq!(cache.load(&key(0)), Lookup::Refused(Refusal::NotAFile));
    cache.store(&small()).unwrap();
    assert_eq!(cache.load(&key(0)), Lookup::Hit(small()));
}

#[cfg(unix)]
#[test]
fn folders_and_files_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path().join("a/b"));
    cache.store(&small()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&folder.path().join("a")), 0o700);
    assert_eq!(mode(cache.folder()), 0o700);
    assert_eq!(mode(&cache.path(&key(0))), 0o600);
}

/// Code that somebody else may have written is not handed to a driver.
#[cfg(unix)]
#[test]
fn what_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    for mode in [0o720, 0o702, 0o777, 0o1777, 0o775] {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::at(folder.path());
        cache.store(&small()).unwrap();
        let refused = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            match cache.load(&key(0)) {
                Lookup::Refused(Refusal::Untrusted(untrusted)) => {
                    assert_eq!(untrusted.path, path);
                    assert_eq!(untrusted.why, Distrust::Writable { mode });
                }
                found => panic!("{mode:o}: {found:?}"),
            }
        };
        refused(&cache.path(&key(0)));
        // An entry that others may have written to is replaced by one that they cannot write to.
        cache.store(&small()).unwrap();
        assert_eq!(cache.load(&key(0)), Lookup::Hit(small()));
        refused(cache.folder());
        // Nothing is kept where it would not be used.
        assert!(matches!(cache.store(&small()), Err(StoreError::Untrusted(_))));
    }
}

#[test]
fn an_entry_is_trusted_from_this_user_and_root_alone() {
    let user = 1000;
    let rows = [
        (1000, 0o600, None),
        (1000, 0o644, None),
        (1000, 0o755, None),
        (0, 0o644, None),
        (1001, 0o600, Some(Distrust::Owner { owner: 1001, user })),
        (65534, 0o600, Some(Distrust::Owner { owner: 65534, user })),
        (1000, 0o620, Some(Distrust::Writable { mode: 0o620 })),
        (0, 0o602, Some(Distrust::Writable { mode: 0o602 })),
    ];
    for (owner, mode, expected) in rows {
        let access = Some(Access { owner, mode });
        let status = Status { is_file: true, bytes: 0, modified: SystemTime::now(), access };
        let trusted = super::super::trusted(Path::new("x"), &status, Some(user));
        assert_eq!(trusted.err().map(|untrusted| untrusted.why), expected, "{owner} {mode:o}");
    }
}

/// Temporary files: those of an hour ago go, those of living writers and whatever else stay.
#[test]
fn leftovers_of_dead_writers_are_removed_when_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path());
    cache.store(&small()).unwrap();
    let leftover = format!("{}.77-0-123.tmp", key(0));
    let file = |name: &str, age: Duration| {
        let path = cache.folder().join(name);
        fs::write(&path, "").unwrap();
        made_before(&path, age);
    };
    let of_key = |end: &str| format!("{}{end}", key(0));
    let others = ["notes.tmp".to_owned(), of_key(".old"), of_key("tmp"), of_key(".tmp.gz")];
    others.iter().for_each(|name| file(name, 1000 * HOUR));
    file(&leftover, HOUR - Duration::from_secs(60));
    cache.store(&small()).unwrap();
    assert!(names(cache.folder()).contains(&leftover), "its writer may live");
    file(&leftover, HOUR + Duration::from_secs(60));
    cache.load(&key(0));
    assert!(names(cache.folder()).contains(&leftover), "to look removes nothing");
    cache.store(&small()).unwrap();
    let mut expected = others.to_vec();
    expected.push(of_key(".kernel"));
    expected.sort();
    assert_eq!(names(cache.folder()), expected);
    // By a clock that was set back: from the future.
    let path = cache.folder().join(&leftover);
    let ahead = SystemTime::now() + 1000 * HOUR;
    File::create(path).unwrap().set_modified(ahead).unwrap();
    cache.store(&small()).unwrap();
    assert!(names(cache.folder()).contains(&leftover));
}

/// Above the bound the entries that nobody used for longest go first; a load counts as use.
#[test]
fn the_entries_unused_for_longest_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let artifact = |first| Artifact { key: key(first), ..small() };
    let bytes = small().to_bytes().len() as u64;
    let cache = DiskCache::at(folder.path()).with_max_bytes(4 * bytes);
    for (first, days) in [(1, 40), (2, 30), (3, 20), (4, 10)] {
        cache.store(&artifact(first)).unwrap();
        made_before(&cache.path(&key(first)), days * 24 * HOUR);
    }
    assert_eq!(cache.load(&key(1)), Lookup::Hit(artifact(1)));
    let there = |cache: &DiskCache| -> Vec<u8> {
        (0..10).filter(|first| cache.path(&key(*first)).exists()).collect()
    };
    cache.store(&artifact(5)).unwrap();
    assert_eq!(there(&cache), [1, 3, 4, 5], "2 was used before all others");
    cache.clone().with_max_bytes(2 * bytes + 1).store(&artifact(6)).unwrap();
    let left = there(&cache);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&6), "{left:?}");
}
