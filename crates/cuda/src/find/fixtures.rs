//! Computers that are not here, as trees of files: for tests of what is found on them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::library::THIS_MACHINE;
use super::{Found, Roots, search};

pub use super::loader_cache::fixtures::loader_cache;

/// Where a Python environment at `/venv` keeps its packages.
pub const PACKAGES: &str = "/venv/lib/python3.11/site-packages";

/// A file system under construction in a folder of this computer.
#[derive(Clone, Debug)]
pub struct Tree {
    /// What a search takes: the folder, a current folder in it, and the variables set so far.
    pub roots: Roots,
}

/// Every method that makes something replaces what was there.
///
/// # Panics
///
/// If the folder cannot be written.
impl Tree {
    /// An empty file system in a folder that is there.
    pub fn new(folder: &Path) -> Self {
        let root = fs::canonicalize(folder).expect("the folder is there");
        let roots = Roots { root, current: "/home/me".into(), variables: BTreeMap::new() };
        Self { roots }
    }

    /// Where a path of it lies on this computer.
    pub fn path(&self, path: &str) -> PathBuf {
        self.roots.at(path)
    }

    /// A file and the folders above it.
    pub fn file(&mut self, path: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it is under the root")).expect("a new folder");
        fs::write(path, bytes).expect("a new file");
        self
    }

    /// The head of a shared object for this processor.
    pub fn library(&mut self, path: &str) -> &mut Self {
        self.file(path, elf(THIS_MACHINE.unwrap_or(0)))
    }

    /// Several of them in one folder.
    pub fn libraries(&mut self, folder: &str, names: &[&str]) -> &mut Self {
        names.iter().for_each(|name| {
            self.library(&format!("{folder}/{name}"));
        });
        self
    }

    /// A symbolic link.
    #[cfg(unix)]
    pub fn link(&mut self, path: &str, to: &str) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it is under the root")).expect("a new folder");
        std::os::unix::fs::symlink(to, path).expect("a new link");
        self
    }

    /// A variable of the environment.
    pub fn variable(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.roots.variables.insert(name, value.into());
        self
    }

    /// A wheel of NVIDIA in the virtual environment: files of `nvidia/<part>/lib`, and its `RECORD`.
    pub fn wheel(&mut self, part: &str, name: &str, version: &str, files: &[&str]) -> &mut Self {
        let folder = format!("nvidia/{part}/lib");
        self.libraries(&format!("{PACKAGES}/{folder}"), files);
        let record: String =
            files.iter().map(|file| format!("{folder}/{file},sha256=x,1\n")).collect();
        self.file(&format!("{PACKAGES}/{name}-{version}.dist-info/RECORD"), record);
        self.variable("VIRTUAL_ENV", "/venv")
    }

    /// What a search finds on it.
    pub fn search(&self) -> Found {
        search(&self.roots)
    }
}

/// First bytes of a shared object of 64 bits for a machine, by its number in ELF headers.
pub fn elf(machine: u16) -> Vec<u8> {
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend([3_u16.to_le_bytes(), machine.to_le_bytes()].concat());
    head.resize(64, 0);
    head
}
