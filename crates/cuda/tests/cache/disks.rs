//! Disks that are full or may only be read, and files of somebody else: real ones.
//!
//! A child mounts a small file system in a namespace of its own, which ends with it.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use frazil_conformance::skip;

use crate::child;

/// What runs a program where it may mount; `None` where nothing may.
fn mounting() -> Option<Command> {
    let folder = tempfile::tempdir().unwrap();
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(arguments).arg("--");
        command
    };
    // As root, or as root of a namespace of users.
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let may_mount = |arguments: &&&[&str]| {
        let mut command = unshare(arguments);
        command.args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ways.iter().find(may_mount).map(|arguments| unshare(arguments))
}

/// Runs a test of `reexecuted` where it may mount.
fn run_mounting(test: &str) {
    let Some(program) = mounting() else {
        return skip::because("no mounts: `unshare --mount` is not allowed here");
    };
    let folder = tempfile::tempdir().unwrap();
    child::run_by(program, test, folder.path());
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "the mount was the child's alone");
}

#[test]
fn a_full_disk_keeps_what_it_has_and_serves_it() {
    run_mounting("disks::reexecuted::fills_a_disk");
}

#[test]
fn a_disk_that_may_only_be_read_serves_what_it_has() {
    run_mounting("disks::reexecuted::reads_a_disk");
}

/// A small file system in memory over a folder.
fn mount(options: &str, folder: &Path) {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder);
    assert!(command.status().unwrap().success(), "mount {options}");
}

/// Tests that another test runs in a process of its own; no tier runs them.
mod reexecuted {
    use std::fs::{self, File};
    use std::io::ErrorKind;
    use std::time::{Duration, SystemTime};

    use frazil_cuda::{DiskCache, Lookup, StoreError, StoreStep};

    use super::*;
    use crate::written::{Written, key};

    fn written(key: u8, generation: u32) -> Written {
        Written { key, writer: 1, generation }
    }

    fn found(cache: &DiskCache, first: u8) -> Written {
        let Lookup::Hit(artifact) = cache.load(&key(first)) else {
            panic!("{:?}", cache.load(&key(first)))
        };
        Written::read(&artifact)
    }

    #[test]
    #[ignore = "run by a_full_disk_keeps_what_it_has_and_serves_it"]
    fn fills_a_disk() {
        let folder = child::folder();
        // Two entries and a half.
        mount("size=512k,mode=0755", &folder);
        let cache = DiskCache::at(&folder);
        for first in [0, 1] {
            cache.store(&written(first, 0).artifact()).unwrap();
        }
        let entries = || fs::read_dir(cache.folder()).unwrap().count();
        // A new key, and an old one whose entry stays.
        for (first, generation) in [(2, 0), (1, 1)] {
            let stored = cache.store(&written(first, generation).artifact());
            let Err(StoreError::Io { step, kind, .. }) = stored else { panic!("{stored:?}") };
            assert_eq!((step, kind), (StoreStep::Write, ErrorKind::StorageFull));
            assert_eq!(entries(), 2, "its temporary file is gone");
            assert_eq!([0, 1].map(|first| found(&cache, first)), [0, 1].map(|key| written(key, 0)));
        }
        assert_eq!(cache.load(&key(2)), Lookup::Absent);
        // Within a bound that fits the disk it makes room for itself.
        let bounded = cache.clone().with_max_bytes(450_000);
        bounded.store(&written(2, 1).artifact()).unwrap();
        assert_eq!(found(&cache, 2), written(2, 1));
        // And when there is room again, all is as ever.
        fs::remove_file(cache.path(&key(2))).unwrap();
        cache.store(&written(1, 2).artifact()).unwrap();
        assert_eq!(found(&cache, 1), written(1, 2));
    }

    #[test]
    #[ignore = "run by a_disk_that_may_only_be_read_serves_what_it_has"]
    fn reads_a_disk() {
        let folder = child::folder();
        mount("size=4m,mode=0755", &folder);
        let cache = DiskCache::at(&folder);
        for first in [0, 1, 2] {
            cache.store(&written(first, 0).artifact()).unwrap();
        }
        // One that a load would mark as used, and one that is damaged.
        let old = SystemTime::now() - Duration::from_secs(100 * 24 * 60 * 60);
        File::open(cache.path(&key(0))).unwrap().set_modified(old).unwrap();
        File::options().write(true).open(cache.path(&key(2))).unwrap().set_len(77).unwrap();
        mount("remount,ro", &folder);
        assert!(fs::write(folder.join("x"), "").is_err(), "it may only be read");
        assert_eq!([0, 1].map(|first| found(&cache, first)), [0, 1].map(|key| written(key, 0)));
        assert!(matches!(cache.load(&key(2)), Lookup::Refused(_)));
        assert_eq!(cache.load(&key(3)), Lookup::Absent);
        for first in 0..4 {
            let stored = cache.store(&written(first, 1).artifact());
            let Err(StoreError::Io { step, kind, .. }) = stored else { panic!("{stored:?}") };
            assert_eq!((step, kind), (StoreStep::Create, ErrorKind::ReadOnlyFilesystem));
        }
        // Not even the folder of the entries can be made.
        let other = DiskCache::at(folder.join("other"));
        let stored = other.store(&written(0, 0).artifact());
        let Err(StoreError::Io { step, kind, .. }) = stored else { panic!("{stored:?}") };
        assert_eq!((step, kind), (StoreStep::MakeFolder, ErrorKind::ReadOnlyFilesystem));
        assert_eq!(other.load(&key(0)), Lookup::Absent);
    }
}

/// Only root can give a file to somebody else.
#[test]
fn an_entry_of_somebody_else_is_refused() {
    use std::os::unix::fs::{MetadataExt, chown};

    use frazil_cuda::{DiskCache, Distrust, Lookup, Refusal, StoreError};

    use crate::written::{Written, key};

    let folder = tempfile::tempdir().unwrap();
    let user = std::fs::metadata(folder.path()).unwrap().uid();
    let owner = user + 1;
    let cache = DiskCache::at(folder.path());
    let artifact = Written { key: 0, writer: 1, generation: 0 }.artifact();
    cache.store(&artifact).unwrap();
    if let Err(error) = chown(cache.path(&key(0)), Some(owner), None) {
        return skip::because(format_args!("not root: cannot give a file away: {error}"));
    }
    let why = Distrust::Owner { owner, user };
    let Lookup::Refused(Refusal::Untrusted(untrusted)) = cache.load(&key(0)) else {
        panic!("an entry of somebody else was used")
    };
    assert_eq!((untrusted.path, untrusted.why), (cache.path(&key(0)), why));
    cache.store(&artifact).unwrap();
    assert_eq!(cache.load(&key(0)), Lookup::Hit(artifact.clone()));
    chown(cache.folder(), Some(owner), None).unwrap();
    assert!(matches!(cache.load(&key(0)), Lookup::Refused(Refusal::Untrusted(_))));
    assert!(matches!(cache.store(&artifact), Err(StoreError::Untrusted(_))));
}
