//! What the cache asks of a file system. Tests put one that fails in its place.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The calls, each of which may fail.
pub(super) trait Files: fmt::Debug + Send + Sync {
    /// Makes a folder and those above it, where they are missing, for this user alone.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// What a path leads to.
    fn status(&self, path: &Path) -> io::Result<Status>;
    /// A file to read, and what it is: the very file that is read, whatever has its name by then.
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Read>, Status)>;
    /// A new file, for this user alone; fails where the name is taken.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Write>>;
    /// Gives a file another name, at once, in place of what has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The files of a folder, links not followed.
    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, Status)>>;
    /// Says that a file was changed now.
    fn touch(&self, path: &Path) -> io::Result<()>;
    /// The user whom this process acts for; `None` where files have no such owners.
    fn user(&self) -> Option<u32>;
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) is_file: bool,
    pub(super) bytes: u64,
    /// When it was last changed.
    pub(super) modified: SystemTime,
    /// Whose it is and who may do what; `None` where files have no such owners.
    pub(super) access: Option<Access>,
}

/// Whose a file is, and who may do what with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) owner: u32,
    /// Permission bits.
    pub(super) mode: u32,
}

/// Those of the operating system.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemFiles;

impl Files for SystemFiles {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder)
    }

    fn status(&self, path: &Path) -> io::Result<Status> {
        Status::of(&fs::metadata(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<(Box<dyn Read>, Status)> {
        let file = File::open(path)?;
        let status = Status::of(&file.metadata()?)?;
        Ok((Box::new(file), status))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Write>> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(options.write(true).create_new(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, Status)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // A file that another process has removed or renamed by now is not there.
            let Ok(metadata) = entry.metadata() else { continue };
            files.push((entry.path(), Status::of(&metadata)?));
        }
        Ok(files)
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.set_modified(SystemTime::now())
    }

    fn user(&self) -> Option<u32> {
        #[cfg(unix)]
        return Some(rustix::process::geteuid().as_raw());
        #[cfg(not(unix))]
        return None;
    }
}

impl Status {
    fn of(metadata: &fs::Metadata) -> io::Result<Self> {
        #[cfg(unix)]
        let access = {
            use std::os::unix::fs::MetadataExt;
            Some(Access { owner: metadata.uid(), mode: metadata.mode() & 0o7777 })
        };
        #[cfg(not(unix))]
        let access = None;
        Ok(Self {
            is_file: metadata.is_file(),
            bytes: metadata.len(),
            modified: metadata.modified()?,
            access,
        })
    }
}
