//! The cache on sound disks and on all others.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod disk;
mod entries;
mod faults;
mod faulty;

use std::path::Path;

use frazil_core::Version;

use crate::{Artifact, ImageKind, Key, Resources};

/// A key that is 0, 1, 2, … with its first byte replaced.
fn key(first: u8) -> Key {
    let mut key = std::array::from_fn(|index| u8::try_from(index).unwrap());
    key[0] = first;
    Key(key)
}

/// The artifact of `key(0)` whose bytes stand in `entries.rs`.
fn small() -> Artifact {
    Artifact {
        key: key(0),
        kind: ImageKind::Cubin,
        image: b"\x7fELF\x00\xff".to_vec(),
        symbols: vec!["frazil_a".into(), "frazil_b".into()],
        resources: Some(Resources {
            registers: 40,
            stack_bytes: 0,
            spill_store_bytes: 8,
            spill_load_bytes: 16,
            static_smem_bytes: 1024,
        }),
        compiler: Version::new(13, 5, 0),
    }
}

/// Another artifact of the same key, as another writer would have made it.
fn other() -> Artifact {
    let image = b"\x7fELF, but longer than the other one".to_vec();
    Artifact { image, symbols: vec!["frazil_c".into()], resources: None, ..small() }
}

/// Names of the files of a folder, in order; none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
