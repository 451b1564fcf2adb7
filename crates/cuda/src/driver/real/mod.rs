//! The driver of a GPU.

mod calls;
mod graph;
#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use frazil_core::Version;

use super::library::OpenLibrary;
use super::table::{Symbols, Table};
use super::{DriverCalls, DriverError, NoDriver, Result};

/// Oldest CUDA whose driver has every function that is needed; tensor maps came with it.
pub const OLDEST_DRIVER: Version = Version::new(12, 0, 0);

/// A driver that has started and lists at least one GPU.
pub struct RealDriver {
    table: Table,
    path: PathBuf,
    version: Version,
}

impl RealDriver {
    /// The driver as installed on this computer.
    ///
    /// # Errors
    ///
    /// [`NoDriver`], never a panic: every function is looked up before the first one is called.
    pub fn open() -> std::result::Result<Self, NoDriver> {
        // SAFETY: what the system's loader and NVIDIA's own folders give under the driver's name is
        // the driver.
        unsafe { Self::start(OpenLibrary::find()?) }
    }

    /// The driver's library at a path.
    ///
    /// # Safety
    ///
    /// The file is a library of NVIDIA's driver, or has functions of the same names and meaning.
    ///
    /// # Errors
    ///
    /// As [`RealDriver::open`].
    pub unsafe fn open_at(path: &Path) -> std::result::Result<Self, NoDriver> {
        // SAFETY: the caller's promise.
        unsafe { Self::start(OpenLibrary::open(path)?) }
    }

    /// # Safety
    ///
    /// The library is a driver's.
    unsafe fn start(library: OpenLibrary) -> std::result::Result<Self, NoDriver> {
        // SAFETY: the caller's promise; an open library is never closed.
        unsafe { Self::from_symbols(&library, library.path()) }
    }

    /// # Safety
    ///
    /// Functions found are the driver's, with the signatures of `cuda.h`, for the process's life.
    pub(super) unsafe fn from_symbols(
        symbols: &impl Symbols,
        path: &Path,
    ) -> std::result::Result<Self, NoDriver> {
        // The version comes first, so that an old driver is called old and not incomplete.
        // SAFETY: the caller's promise.
        let version = unsafe { version_of(symbols, path) }?;
        if version < OLDEST_DRIVER {
            let (path, need) = (path.to_owned(), OLDEST_DRIVER);
            return Err(NoDriver::TooOld { path, found: version, need });
        }
        // SAFETY: the caller's promise.
        let table = unsafe { Table::resolve(symbols) }.map_err(|missing| {
            let (symbol, since) = (missing.symbol, missing.since);
            let path = path.to_owned();
            NoDriver::MissingSymbol { path, symbol, since, driver: Some(version) }
        })?;
        Self::from_table(table, path, version)
    }

    /// Starts the driver.
    pub(super) fn from_table(
        table: Table,
        path: &Path,
        version: Version,
    ) -> std::result::Result<Self, NoDriver> {
        let driver = Self { table, path: path.to_owned(), version };
        let init = |error| NoDriver::Init { path: path.to_owned(), error };
        // SAFETY: 0 is the one flag that there is.
        check("cuInit", unsafe { (driver.table.cuInit)(0) }).map_err(init)?;
        if driver.device_get_count().map_err(init)? < 1 {
            return Err(NoDriver::NoGpu { path: driver.path, driver: version });
        }
        Ok(driver)
    }

    /// The path or name that its library was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The CUDA version that it serves.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl std::fmt::Debug for RealDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RealDriver({}, CUDA {})", self.path.display(), self.version)
    }
}

/// # Safety
///
/// As [`RealDriver::from_symbols`].
unsafe fn version_of(
    symbols: &impl Symbols,
    path: &Path,
) -> std::result::Result<Version, NoDriver> {
    const CALL: &str = "cuDriverGetVersion";
    let path = || path.to_owned();
    let address = symbols.address(CALL).ok_or_else(|| NoDriver::MissingSymbol {
        path: path(),
        symbol: CALL,
        since: Version::new(2, 2, 0),
        driver: None,
    })?;
    // SAFETY: the signature is that of `cuda.h`, and the caller promises that the function has it.
    let get_version = unsafe {
        std::mem::transmute::<NonNull<c_void>, unsafe extern "system" fn(*mut i32) -> i32>(address)
    };
    let mut version = 0;
    // SAFETY: the answer is written to a local; the function may be called before `cuInit`.
    let code = unsafe { get_version(&raw mut version) };
    check(CALL, code).map_err(|error| NoDriver::Init { path: path(), error })?;
    Ok(version_from(version))
}

/// A version as the driver writes it: `1000 * major + 10 * minor`.
pub(crate) fn version_from(version: i32) -> Version {
    let version = u32::try_from(version).unwrap_or(0);
    Version::new(version / 1000, version % 1000 / 10, 0)
}

fn check(call: &'static str, code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(DriverError { call, code }) }
}
