//! The cache of compiled kernels on disk.
//!
//! An entry is a file: an [`Artifact`] with a checksum ([`entry`]), data and never code of the host. It
//! is written to a temporary file in the same folder, which then takes the entry's name at once. So a
//! reader sees an old entry, the new one or none, whoever writes, however many, and whenever one of them
//! is killed; it takes no lock. What a disk or a power failure does to an entry shows in its checksum,
//! which is why nothing here waits for a disk.

mod entry;
mod files;
mod place;
mod reason;
mod room;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::{Artifact, Key};

use files::{Files, Status, SystemFiles};
pub use reason::{Distrust, Lookup, NoFolder, Refusal, StoreError, StoreStep, Untrusted};

/// Most bytes of an entry: far above any kernel, and far below what a machine has.
const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// How long an entry counts as used after it was marked so.
const USED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Names that are tried for a temporary file.
const MAX_NAMES: usize = 8;

/// A folder of compiled kernels, shared by any number of threads and processes.
///
/// # Trust
///
/// The checksum is against accidents. Against people: what an entry holds is executed, on a GPU, as
/// this user. Hence folders and files are made for their user alone, and an entry is used only where it,
/// and the folder it is in, belong to this user or to root and nobody else may write to them. Then this
/// user or root wrote it, whoever may write to a folder above: others can take the cache away, or
/// shuffle it, which its keys tell, but not put code into it. Root may fill a cache for others. Systems
/// other than Unix have no such bits, and there the folder of the user is trusted.
///
/// # Size
///
/// Each store first makes room: temporary files that are older than an hour belong to dead processes
/// and go, and the entries that went unused for longest go as long as all together are above
/// [`DiskCache::MAX_BYTES`]. A writer that stood still for an hour loses its file, and its store fails.
/// A load marks its entry as used, at most once a day.
#[derive(Clone, Debug)]
pub struct DiskCache {
    /// Folder of the entries of this format.
    folder: PathBuf,
    max_bytes: u64,
    files: Arc<dyn Files>,
}

impl DiskCache {
    /// Most bytes of all entries of a folder, unless [`with_max_bytes`](Self::with_max_bytes) says
    /// otherwise: some thousand kernels.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// The cache in a folder, which the first store makes where it is missing.
    pub fn at(folder: impl AsRef<Path>) -> Self {
        Self::on(Arc::new(SystemFiles), folder.as_ref())
    }

    /// The cache of this user: in the folder that `FRAZIL_CACHE` names, else in `frazil` of
    /// `XDG_CACHE_HOME`, else in `.cache/frazil` of the home folder.
    ///
    /// # Errors
    ///
    /// [`NoFolder`] where nothing names one and there is no home folder.
    pub fn of_user() -> Result<Self, NoFolder> {
        place::of_user().map(Self::at)
    }

    fn on(files: Arc<dyn Files>, folder: &Path) -> Self {
        // Where it is must not change with the process's working folder.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = folder.join(format!("v{}", entry::FORMAT));
        Self { folder, max_bytes: Self::MAX_BYTES, files }
    }

    /// The same with another bound of all its entries.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    /// The folder of its entries.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of an entry, whether it is there or not.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{key}{}", room::ENTRY))
    }

    /// Looks for the artifact of a key. Reads its file and takes no lock.
    pub fn load(&self, key: &Key) -> Lookup {
        match self.read(key) {
            Ok(Some(artifact)) => Lookup::Hit(artifact),
            Ok(None) => Lookup::Absent,
            Err(refusal) => Lookup::Refused(refusal),
        }
    }

    fn read(&self, key: &Key) -> Result<Option<Artifact>, Refusal> {
        let path = self.path(key);
        let Some(folder) = found(self.files.status(&self.folder))? else { return Ok(None) };
        self.trust(&self.folder, &folder)?;
        // Asked before it is opened: to open a pipe is to wait for its writer.
        let Some(named) = found(self.files.status(&path))? else { return Ok(None) };
        if !named.is_file {
            return Err(Refusal::NotAFile);
        }
        let Some((file, status)) = found(self.files.open(&path))? else { return Ok(None) };
        self.trust(&path, &status)?;
        let bytes = read_all(file, status.bytes)?;
        let artifact = Artifact::from_bytes(bytes)?;
        if artifact.key != *key {
            return Err(Refusal::OtherKey { found: artifact.key });
        }
        let age = SystemTime::now().duration_since(status.modified).unwrap_or_default();
        if age > USED_FOR {
            // A cache that may only be read loses nothing: nothing will be removed from it either.
            let _ = self.files.touch(&path);
        }
        Ok(Some(artifact))
    }

    /// Keeps an artifact, in place of what has its key's name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where it was not kept. Then what was there before still is, or nothing.
    pub fn store(&self, artifact: &Artifact) -> Result<(), StoreError> {
        let bytes = artifact.to_bytes();
        let found = bytes.len() as u64;
        if found > MAX_ENTRY_BYTES {
            return Err(StoreError::TooLarge { found, limit: MAX_ENTRY_BYTES });
        }
        let failed = |step, path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| StoreError::Io { step, path, kind: error.kind() }
        };
        let made = self.files.make_folder(&self.folder);
        let status = made.and_then(|()| self.files.status(&self.folder));
        self.trust(&self.folder, &status.map_err(failed(StoreStep::MakeFolder, &self.folder))?)?;
        self.make_room(found);
        let (temporary, mut file) = self.create_temporary(&artifact.key)?;
        let written = file.write_all(&bytes).and_then(|()| file.flush());
        // Closed before it is renamed: some systems rename no open file.
        drop(file);
        let path = self.path(&artifact.key);
        let stored = written.map_err(failed(StoreStep::Write, &temporary)).and_then(|()| {
            self.files.rename(&temporary, &path).map_err(failed(StoreStep::Rename, &path))
        });
        if stored.is_err() {
            // What cannot be removed now is removed when it is old.
            let _ = self.files.remove(&temporary);
        }
        stored
    }

    /// A new file beside the entries, whose name no other writer has: processes of other containers
    /// and computers may share the folder and the process number.
    fn create_temporary(&self, key: &Key) -> Result<(PathBuf, Box<dyn Write>), StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let mut path = self.folder.clone();
        let mut kind = io::ErrorKind::AlreadyExists;
        for _ in 0..MAX_NAMES {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let nanos = now.as_nanos();
            path = self.folder.join(format!("{key}.{process}-{count}-{nanos}{}", room::TEMPORARY));
            match self.files.create(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) => kind = error.kind(),
            }
            if kind != io::ErrorKind::AlreadyExists {
                break;
            }
        }
        Err(StoreError::Io { step: StoreStep::Create, path, kind })
    }

    fn trust(&self, path: &Path, status: &Status) -> Result<(), Untrusted> {
        trusted(path, status, self.files.user())
    }
}

/// Whether nobody but this user and root can have written a file or folder.
fn trusted(path: &Path, status: &Status, user: Option<u32>) -> Result<(), Untrusted> {
    let (Some(access), Some(user)) = (status.access, user) else { return Ok(()) };
    let why = if ![0, user].contains(&access.owner) {
        Distrust::Owner { owner: access.owner, user }
    } else if access.mode & 0o022 != 0 {
        Distrust::Writable { mode: access.mode }
    } else {
        return Ok(());
    };
    Err(Untrusted { path: path.to_owned(), why })
}

/// What a call found; `None` where nothing has the name.
fn found<T>(result: io::Result<T>) -> Result<Option<T>, Refusal> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::Io(error.kind())),
    }
}

/// The bytes of a file of that size, in memory that is asked for once.
fn read_all(file: Box<dyn Read>, size: u64) -> Result<Vec<u8>, Refusal> {
    let too_large = Refusal::TooLarge { found: size, limit: MAX_ENTRY_BYTES };
    let Some(capacity) = usize::try_from(size).ok().filter(|_| size <= MAX_ENTRY_BYTES) else {
        return Err(too_large);
    };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(capacity).map_err(|_| Refusal::Io(io::ErrorKind::OutOfMemory))?;
    // Entries do not grow. Where one does, what is behind its end is not read.
    let read = file.take(size).read_to_end(&mut bytes);
    read.map_err(|error| Refusal::Io(error.kind()))?;
    Ok(bytes)
}
