//! A file system that fails where a test wants it to.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::cache::files::{Files, Status, SystemFiles};

/// What happens at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does nothing and fails.
    Fails(ErrorKind),
    /// It and all after it fail: the disk is full, or can no longer be written to.
    FailsFromHere(ErrorKind),
    /// It is done, and fails nonetheless: as over a network whose answer was lost.
    DoneAndFails(ErrorKind),
    /// The process ends before it: nothing is done any more, nothing is cleaned up.
    CrashBefore,
    /// The process ends after it.
    CrashAfter,
}

/// The calls so far, and what happens at which.
#[derive(Debug)]
struct Script {
    calls: Vec<&'static str>,
    fault: Option<(usize, Fault)>,
    is_dead: bool,
}

/// The operating system's files, with one fault, and writes and reads of a few bytes at a time.
#[derive(Clone, Debug)]
pub(super) struct FaultyFiles(Arc<Mutex<Script>>);

/// Most bytes of one write or read.
const PIECE: usize = 61;

impl FaultyFiles {
    /// Files of which the call of that index has that fault.
    pub(super) fn with(call: usize, fault: Fault) -> Self {
        Self::of(Some((call, fault)))
    }

    /// Files without fault, which tell what was called.
    pub(super) fn sound() -> Self {
        Self::of(None)
    }

    fn of(fault: Option<(usize, Fault)>) -> Self {
        Self(Arc::new(Mutex::new(Script { calls: Vec::new(), fault, is_dead: false })))
    }

    /// Names of the calls so far.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().calls.clone()
    }

    /// One call: counted, and done unless the script has another end for it.
    fn call<T>(&self, name: &'static str, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut script = self.0.lock().unwrap();
        let index = script.calls.len();
        script.calls.push(name);
        // What a dead process would have called later is not called.
        let dead = || io::Error::from(ErrorKind::Other);
        if script.is_dead {
            return Err(dead());
        }
        match script.fault {
            Some((at, Fault::Fails(kind))) if at == index => Err(kind.into()),
            Some((at, Fault::FailsFromHere(kind))) if at <= index => Err(kind.into()),
            Some((at, Fault::DoneAndFails(kind))) if at == index => act().and(Err(kind.into())),
            Some((at, Fault::CrashBefore)) if at == index => {
                script.is_dead = true;
                Err(dead())
            }
            Some((at, Fault::CrashAfter)) if at == index => {
                script.is_dead = true;
                act().and(Err(dead()))
            }
            _ => act(),
        }
    }
}

impl Files for FaultyFiles {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.call("make_folder", || SystemFiles.make_folder(folder))
    }

    fn status(&self, path: &Path) -> io::Result<Status> {
        self.call("status", || SystemFiles.status(path))
    }

    fn open(&self, path: &Path) -> io::Result<(Box<dyn Read>, Status)> {
        let (file, status) = self.call("open", || SystemFiles.open(path))?;
        Ok((Box::new(Faulty { file, files: self.clone() }), status))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Write>> {
        let file = self.call("create", || SystemFiles.create(path))?;
        Ok(Box::new(Faulty { file, files: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", || SystemFiles.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", || SystemFiles.remove(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, Status)>> {
        self.call("list", || SystemFiles.list(folder))
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        self.call("touch", || SystemFiles.touch(path))
    }

    fn user(&self) -> Option<u32> {
        SystemFiles.user()
    }
}

/// An open file of such a system.
struct Faulty<F> {
    file: F,
    files: FaultyFiles,
}

impl<F: Write> Write for Faulty<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { file, files } = self;
        files.call("write", || file.write(&bytes[..bytes.len().min(PIECE)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<F: Read> Read for Faulty<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Self { file, files } = self;
        let length = bytes.len().min(PIECE);
        files.call("read", || file.read(&mut bytes[..length]))
    }
}
