//! Files that are read and written whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Everything in a regular file. A device or a pipe might never end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let metadata = fs::metadata(path).map_err(|error| Failure::in_file(path, error))?;
    if metadata.is_dir() {
        return Err(Failure::in_file(path, "is a folder; a file is needed"));
    }
    if !metadata.is_file() {
        return Err(Failure::in_file(path, "is no regular file; pipes and devices are not read"));
    }
    fs::read(path).map_err(|error| Failure::in_file(path, error))
}

/// Whether two paths are one file, through links of any kind. False where either is not there.
pub(crate) fn are_same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        if id(a).is_some_and(|a| id(b) == Some(a)) {
            return true;
        }
    }
    fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
}

/// Writes a file so that nobody ever finds a part of it: whole beside its place, then moved there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays one, and what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // Devices and pipes hold nothing that could be replaced, and must not be.
    if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return fs::write(&path, bytes);
    }
    let (part, mut file) = beside(&path)?;
    let written = file.write_all(bytes).and_then(|()| {
        drop(file);
        fs::rename(&part, &path)
    });
    if written.is_err() {
        // What went wrong first is the error to report.
        let _ = fs::remove_file(&part);
    }
    written
}

/// A new file in the same folder, thus of the same file system.
fn beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut attempt = 0;
    loop {
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(format!(".{}-{attempt}.part", std::process::id()));
        let part = path.with_file_name(part);
        match File::create_new(&part) {
            // One that a process of that number left behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => {
                attempt += 1;
            }
            file => return Ok((part, file?)),
        }
    }
}
