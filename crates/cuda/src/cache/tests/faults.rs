//! Every call of a store and of a load fails once in every way.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::faulty::{Fault, FaultyFiles};
use super::{key, names, other, small};
use crate::cache::DiskCache;
use crate::cache::room::TEMPORARY;
use crate::{Artifact, Lookup, Refusal, StoreError, StoreStep};

const KINDS: [ErrorKind; 5] = [
    ErrorKind::StorageFull,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::PermissionDenied,
    ErrorKind::QuotaExceeded,
    ErrorKind::Other,
];

fn faults() -> impl Iterator<Item = Fault> {
    let ends = [Fault::CrashBefore, Fault::CrashAfter];
    let of_kind =
        |kind| [Fault::Fails(kind), Fault::FailsFromHere(kind), Fault::DoneAndFails(kind)];
    KINDS.into_iter().flat_map(of_kind).chain(ends)
}

/// A cache whose files fail so.
fn on(files: FaultyFiles, folder: &Path) -> DiskCache {
    DiskCache::on(Arc::new(files), folder)
}

/// What the folder held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// It was not there.
    Nothing,
    /// An entry of the same key.
    Entry,
    /// A damaged entry of the same key.
    Damage,
}

impl Before {
    const ALL: [Self; 3] = [Self::Nothing, Self::Entry, Self::Damage];

    fn set_up(self, folder: &Path) {
        let cache = DiskCache::at(folder);
        if self != Self::Nothing {
            cache.store(&small()).unwrap();
        }
        if self == Self::Damage {
            let path = cache.path(&key(0));
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(path, &whole[..100]).unwrap();
        }
    }

    /// What a load finds if nothing was changed.
    fn found(self) -> Lookup {
        let need = small().to_bytes().len() as u64;
        match self {
            Self::Nothing => Lookup::Absent,
            Self::Entry => Lookup::Hit(small()),
            Self::Damage => Lookup::Refused(Refusal::Truncated { found: 100, need }),
        }
    }
}

/// Calls of a store that meets no fault.
fn calls_of_a_store(before: Before) -> Vec<&'static str> {
    let folder = tempfile::tempdir().unwrap();
    before.set_up(folder.path());
    let files = FaultyFiles::sound();
    on(files.clone(), folder.path()).store(&other()).unwrap();
    files.calls()
}

#[test]
fn whichever_call_of_a_store_fails_the_old_entry_or_the_new_is_found() {
    let mut tried = 0;
    for before in Before::ALL {
        let calls = calls_of_a_store(before);
        for (call, fault) in
            (0..calls.len()).flat_map(|call| faults().map(move |fault| (call, fault)))
        {
            let says = format!("{before:?}, {fault:?} at call {call} of {calls:?}");
            let folder = tempfile::tempdir().unwrap();
            before.set_up(folder.path());
            let stored = on(FaultyFiles::with(call, fault), folder.path()).store(&other());
            let cache = DiskCache::at(folder.path());
            let found = cache.load(&key(0));
            match stored {
                Ok(()) => assert_eq!(found, Lookup::Hit(other()), "{says}"),
                // A rename that is done and fails nonetheless has put the new entry in place.
                Err(_) if found == Lookup::Hit(other()) => {
                    assert_eq!(calls[call], "rename", "{says}");
                    assert!(matches!(fault, Fault::DoneAndFails(_) | Fault::CrashAfter), "{says}");
                }
                Err(_) => assert_eq!(found, before.found(), "{says}"),
            }
            check_leftovers(&cache, fault, &says);
            // And it goes on as if nothing had been.
            cache.store(&other()).unwrap();
            assert_eq!(cache.load(&key(0)), Lookup::Hit(other()), "{says}");
            tried += 1;
        }
    }
    // Calls beside writes: make the folder, its status, list, create, rename.
    assert!(tried > 3 * 5 * faults().count(), "{tried}");
}

/// A process that goes on leaves no temporary file, unless it may not remove one; a dead one leaves one.
fn check_leftovers(cache: &DiskCache, fault: Fault, says: &str) {
    let is_left = |name: &&String| name.ends_with(TEMPORARY);
    let left = names(cache.folder()).iter().filter(is_left).count();
    let most = match fault {
        Fault::Fails(_) => 0,
        // A file that was created, of which the writer was told that it was not, is not its to remove.
        Fault::DoneAndFails(_) | Fault::FailsFromHere(_) => 1,
        Fault::CrashBefore | Fault::CrashAfter => 1,
    };
    assert!(left <= most, "{left} temporary files: {says}");
}

/// Which step failed, and how, is said by type.
#[test]
fn a_store_that_fails_says_at_which_step_and_how() {
    let calls = calls_of_a_store(Before::Entry);
    let steps = [
        ("make_folder", Some(StoreStep::MakeFolder)),
        ("status", Some(StoreStep::MakeFolder)),
        ("list", None),
        ("create", Some(StoreStep::Create)),
        ("write", Some(StoreStep::Write)),
        ("rename", Some(StoreStep::Rename)),
    ];
    for (index, name) in calls.iter().enumerate() {
        let (_, expected) = steps.iter().find(|(call, _)| call == name).unwrap();
        for expected_kind in KINDS {
            let folder = tempfile::tempdir().unwrap();
            Before::Entry.set_up(folder.path());
            let files = FaultyFiles::with(index, Fault::Fails(expected_kind));
            match (on(files, folder.path()).store(&other()), expected) {
                (Ok(()), None) => {}
                (Err(StoreError::Io { step, path, kind }), Some(expected)) => {
                    assert_eq!((step, kind), (*expected, expected_kind), "{name}");
                    assert!(path.starts_with(folder.path()), "{}", path.display());
                }
                (stored, _) => panic!("{name}: {stored:?}"),
            }
        }
    }
    for (name, _) in steps {
        assert!(calls.contains(&name), "{name} is not among {calls:?}");
    }
}

/// A disk with room for so many bytes and no more: at every number of them.
#[test]
fn a_disk_that_fills_up_at_any_byte_keeps_the_old_entry() {
    let calls = calls_of_a_store(Before::Entry);
    let writes = calls.iter().filter(|call| **call == "write").count();
    assert!(writes >= 5, "{calls:?}");
    let first = calls.iter().position(|call| *call == "write").unwrap();
    for call in first..first + writes {
        let folder = tempfile::tempdir().unwrap();
        Before::Entry.set_up(folder.path());
        let files = FaultyFiles::with(call, Fault::Fails(ErrorKind::StorageFull));
        let stored = on(files, folder.path()).store(&other());
        assert!(matches!(
            stored,
            Err(StoreError::Io { step: StoreStep::Write, kind: ErrorKind::StorageFull, .. })
        ));
        assert_eq!(DiskCache::at(folder.path()).load(&key(0)), Lookup::Hit(small()));
        assert_eq!(names(&folder.path().join("v1")).len(), 1, "the temporary file is gone");
    }
}

/// A call that is interrupted by a signal is made again.
#[test]
fn signals_are_no_faults() {
    for (index, name) in calls_of_a_store(Before::Entry).into_iter().enumerate() {
        if name == "write" {
            let folder = tempfile::tempdir().unwrap();
            let files = FaultyFiles::with(index, Fault::Fails(ErrorKind::Interrupted));
            on(files, folder.path()).store(&other()).unwrap();
            assert_eq!(DiskCache::at(folder.path()).load(&key(0)), Lookup::Hit(other()));
        }
    }
}

/// A name that another writer has is left to it, and another one is found.
#[test]
fn a_temporary_file_of_another_writer_is_not_touched() {
    use crate::cache::files::{Files, SystemFiles};
    let taken = ErrorKind::AlreadyExists;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    std::fs::write(&path, "theirs").unwrap();
    assert_eq!(SystemFiles.create(&path).err().map(|error| error.kind()), Some(taken));
    assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
    let calls = calls_of_a_store(Before::Nothing);
    let create = calls.iter().position(|call| *call == "create").unwrap();
    on(FaultyFiles::with(create, Fault::Fails(taken)), folder.path()).store(&small()).unwrap();
    assert_eq!(DiskCache::at(folder.path()).load(&key(0)), Lookup::Hit(small()));
    // Where every name is taken, or said to be, there is an end.
    let files = FaultyFiles::with(create, Fault::FailsFromHere(taken));
    let stored = on(files, folder.path()).store(&other());
    let Err(StoreError::Io { step, kind, .. }) = stored else { panic!("{stored:?}") };
    assert_eq!((step, kind), (StoreStep::Create, taken));
}

/// Whatever a load meets: the artifact, or a reason. Never another artifact.
#[test]
fn whichever_call_of_a_load_fails_it_is_a_miss_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    Before::Entry.set_up(folder.path());
    let sound = FaultyFiles::sound();
    assert_eq!(on(sound.clone(), folder.path()).load(&key(0)), Lookup::Hit(small()));
    let calls = sound.calls();
    for name in ["status", "open", "read"] {
        assert!(calls.contains(&name), "{calls:?}");
    }
    for write in ["make_folder", "create", "rename", "remove", "touch"] {
        assert!(!calls.contains(&write), "a warm load only reads: {calls:?}");
    }
    for call in 0..calls.len() {
        for kind in KINDS {
            let files = FaultyFiles::with(call, Fault::Fails(kind));
            let found = on(files, folder.path()).load(&key(0));
            assert_eq!(found, Lookup::Refused(Refusal::Io(kind)), "call {call} of {calls:?}");
        }
        // The entry, or its folder, is removed meanwhile.
        let files = FaultyFiles::with(call, Fault::Fails(ErrorKind::NotFound));
        let found = on(files, folder.path()).load(&key(0));
        let is_read = calls[call] == "read";
        let expected = if is_read {
            Lookup::Refused(Refusal::Io(ErrorKind::NotFound))
        } else {
            Lookup::Absent
        };
        assert_eq!(found, expected, "call {call} of {calls:?}");
    }
}

/// An old entry is marked as used; where that is refused the load is a hit all the same.
#[test]
fn a_load_needs_no_leave_to_write() {
    let folder = tempfile::tempdir().unwrap();
    Before::Entry.set_up(folder.path());
    let path = DiskCache::at(folder.path()).path(&key(0));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 60 * 60);
    let age = || std::fs::File::open(&path).unwrap().set_modified(old).unwrap();
    age();
    let sound = FaultyFiles::sound();
    on(sound.clone(), folder.path()).load(&key(0));
    let touch = sound.calls().iter().position(|call| *call == "touch").unwrap();
    for fault in faults() {
        age();
        let found = on(FaultyFiles::with(touch, fault), folder.path()).load(&key(0));
        assert_eq!(found, Lookup::Hit(small()), "{fault:?}");
    }
}

/// The table above in red: a store that writes to the entry itself is found out.
#[test]
fn a_store_in_place_is_found_out() {
    fn store_in_place(files: &FaultyFiles, path: &Path, artifact: &Artifact) {
        use crate::cache::files::Files;
        let _ = files.remove(path);
        if let Ok(mut file) = files.create(path) {
            let _ = file.write_all(&artifact.to_bytes());
        }
    }
    let mut mixtures = 0;
    for call in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        Before::Entry.set_up(folder.path());
        let cache = DiskCache::at(folder.path());
        let files = FaultyFiles::with(call, Fault::CrashAfter);
        store_in_place(&files, &cache.path(&key(0)), &other());
        let found = cache.load(&key(0));
        let is_whole = [Lookup::Hit(small()), Lookup::Hit(other())].contains(&found);
        mixtures += usize::from(!is_whole);
    }
    assert_eq!(mixtures, 4);
}
