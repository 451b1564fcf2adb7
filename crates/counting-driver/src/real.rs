//! The driver that calls are passed on to.

use std::error::Error;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Says where the driver's file is.
const VARIABLE: &str = "FRAZIL_REAL_DRIVER";

/// Where systems and containers keep it: Debian's way, Red Hat's, containers of NVIDIA's, WSL, NixOS.
const FOLDERS: [&str; 10] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/compat",
];

/// An opened driver that is none of ours.
pub(crate) struct Driver {
    library: Library,
    path: CString,
}

/// Why there is no driver: each file that was tried, and what came of it.
pub(crate) struct NoDriver(Vec<(PathBuf, String)>);

impl Driver {
    /// The driver at the place that the environment names, else the first one found.
    pub(crate) fn find() -> Result<Self, NoDriver> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let candidates = named.map_or_else(usual_places, |path| vec![path]);
        let mut tried = Vec::new();
        for path in candidates {
            match Self::open(&path) {
                Ok(driver) => return Ok(driver),
                Err(why) => tried.push((path, why)),
            }
        }
        Err(NoDriver(tried))
    }

    /// Opens the file of that path.
    ///
    /// A path with a slash in it is compared with the files that are open, not with their names:
    /// only so is a second library loaded beside this one, which has the same name.
    fn open(path: &Path) -> Result<Self, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        if !path.exists() {
            return Err("no such file".into());
        }
        // SAFETY: running the initialisers of NVIDIA's driver is what opening this library is for.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| loaders_words(&error))?;
        let path = CString::new(path.into_os_string().into_encoded_bytes());
        let driver = Self { library, path: path.map_err(|error| error.to_string())? };
        // Also a copy of this library, at another place: it finds this one in turn, passes it by
        // for the same reason, and is closed here.
        if driver.symbol(c"frazil_driver_calls_snapshot").is_some() {
            return Err("is a counting driver".into());
        }
        Ok(driver)
    }

    /// Address of an exported function.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: an address of any kind is a pointer; whoever calls it says as what.
        let symbol = unsafe { self.library.get::<*mut c_void>(name) };
        symbol.ok().map(|symbol| *symbol).filter(|address| !address.is_null())
    }

    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    pub(crate) fn file(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.to_bytes()))
    }
}

/// What the loader says; the error itself says only that it failed.
fn loaders_words(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn usual_places() -> Vec<PathBuf> {
    let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let first = std::env::split_paths(&variable).filter(|folder| !folder.as_os_str().is_empty());
    let folders = first.chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join("libcuda.so.1")).collect()
}

impl fmt::Display for NoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no driver to pass calls on to; {VARIABLE} may say where it is")?;
        self.0.iter().try_for_each(|(path, why)| write!(f, "\n  {}: {why}", path.display()))
    }
}
