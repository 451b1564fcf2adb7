//! Finding the driver's library and looking functions up in it.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::Library;

use super::NoDriver;
use super::table::Symbols;
use crate::loader::words_of;

/// What the system's loader is asked for, then folders that it may not know.
///
/// The name of the library on Linux carries the `1` of its interface, which never changed; without
/// it there is a file only where a toolkit is installed. WSL keeps the library of the Windows driver
/// in a folder of its own; NixOS and the containers of some clouds mount it elsewhere.
const CANDIDATES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &[
        "libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "/run/opengl-driver/lib/libcuda.so.1",
        "/usr/local/nvidia/lib64/libcuda.so.1",
    ]
};

/// The driver's library, open for as long as the process lives: contexts and threads of the driver
/// outlive whoever opened it.
pub(super) struct OpenLibrary {
    library: std::mem::ManuallyDrop<Library>,
    path: PathBuf,
}

impl OpenLibrary {
    /// The driver as installed on this computer.
    pub(super) fn find() -> Result<Self, NoDriver> {
        Self::first_of(CANDIDATES.iter().map(PathBuf::from).collect())
    }

    /// The first that is there; one that is there and does not load ends the search, since what
    /// comes after it would be another driver than every other program uses.
    fn first_of(candidates: Vec<PathBuf>) -> Result<Self, NoDriver> {
        for candidate in &candidates {
            match Self::open(candidate) {
                Err(NoDriver::Absent { .. }) => {}
                answer => return answer,
            }
        }
        Err(NoDriver::Absent { tried: candidates })
    }

    /// A library by its path, or by a name that the system's loader searches.
    pub(super) fn open(path: &Path) -> Result<Self, NoDriver> {
        // SAFETY: loading runs the library's constructors; those of a driver may be run by any
        // program, and a file that its caller names as the driver is the caller's choice.
        match unsafe { Library::new(path) } {
            Ok(library) => {
                let library = std::mem::ManuallyDrop::new(library);
                Ok(Self { library, path: path.to_owned() })
            }
            Err(error) => Err(refusal(path, words_of(&error))),
        }
    }

    /// The path or name that it was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// A path says by itself whether there is a file. Of a bare name only the loader's message does: it
/// names the library itself where that is not found, and another one where that one is missing.
fn refusal(path: &Path, message: String) -> NoDriver {
    let is_path = path.components().count() > 1;
    let name = path.display().to_string();
    let is_absent = if is_path {
        !path.exists()
    } else {
        let rest = message.split_once(&name).map(|(_, rest)| rest);
        cfg!(windows) || rest.is_some_and(|rest| rest.contains("No such file"))
    };
    if is_absent {
        NoDriver::Absent { tried: vec![path.to_owned()] }
    } else {
        NoDriver::NotLoadable { path: path.to_owned(), message }
    }
}

impl Symbols for OpenLibrary {
    fn address(&self, name: &'static str) -> Option<NonNull<c_void>> {
        // SAFETY: nothing is called or read through the type; the library is never closed, so the
        // address stays good after the symbol is dropped.
        let symbol = unsafe { self.library.get::<*mut c_void>(name) }.ok()?;
        // SAFETY: this does no more than hand the address out.
        NonNull::new(unsafe { symbol.try_as_raw_ptr() }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> NoDriver {
        OpenLibrary::open(path).err().expect("it does not load")
    }

    #[test]
    fn every_name_and_path_that_was_tried_is_told() {
        let names = ["libfrazil-no-such-driver.so.1", "/no/such/folder/libcuda.so.1"];
        let tried: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        let error = OpenLibrary::first_of(tried.clone()).err().expect("it is absent");
        assert_eq!(error, NoDriver::Absent { tried });
        let text = error.to_string();
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
        assert!(text.contains("install NVIDIA's driver"), "{text}");
    }

    #[test]
    fn a_file_that_is_no_library_is_told_with_the_loaders_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcuda.so.1");
        std::fs::write(&path, "this is no library ".repeat(100)).unwrap();
        let error = open(&path);
        let NoDriver::NotLoadable { path: told, message } = &error else { panic!("{error}") };
        assert_eq!(told, &path);
        assert!(!cfg!(target_env = "gnu") || message.contains("ELF"), "{message}");
        // A search ends there: what comes after would be another driver than others use.
        let search = OpenLibrary::first_of(vec![path, "/no/such/libcuda.so.1".into()]);
        assert!(matches!(search.err(), Some(NoDriver::NotLoadable { .. })));
    }

    /// The messages of glibc and musl.
    #[test]
    fn a_name_that_is_not_found_is_told_from_one_whose_own_library_is_missing() {
        let name = Path::new("libcuda.so.1");
        for (message, absent) in [
            ("libcuda.so.1: cannot open shared object file: No such file or directory", true),
            ("Error loading shared library libcuda.so.1: No such file or directory", true),
            ("libnvidia-ptx.so: cannot open shared object file: No such file or directory", false),
            ("libcuda.so.1: wrong ELF class: ELFCLASS32", false),
            ("libcuda.so.1: file too short", false),
        ] {
            let is_absent = matches!(refusal(name, message.into()), NoDriver::Absent { .. });
            assert_eq!(is_absent, absent, "{message}");
        }
    }
}
