//! NVRTC, the run-time compiler: opened by path, never linked, never unloaded.
//!
//! Opened by a table of our own, because `cudarc` takes no path and looks only for the major
//! version that it was compiled for. `error` says why there is none · `order` which of several is
//! taken · `table` has its functions · `program` compiles.

mod error;
mod order;
mod program;
mod table;
mod targets;
#[cfg(test)]
mod tests;

use std::ffi::c_int;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use frazil_core::Version;

pub use error::{GET_NVRTC, NoNvrtc, Refusal};
pub use program::NvrtcError;
pub(crate) use program::{Output, Text, Unit};

use crate::DriverCalls as _;
use crate::driver::version_from;
use crate::find::{Kind, Roots, search};
use program::check;
use table::{NotOpened, Table};

/// The oldest NVRTC that is opened: the first that knows a target of its own architecture alone
/// (`sm_90a`), and of the first major version whose cubins run on every driver of the same.
pub const OLDEST_NVRTC: Version = Version::new(12, 0, 0);

/// An open NVRTC.
///
/// Any number of threads may compile at once: a program lives within one call, and none is shared.
pub struct Nvrtc {
    table: Table,
    path: PathBuf,
    build: Build,
    targets: Vec<String>,
}

/// Which compiler it is: part of the name of everything that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Build {
    /// What `nvrtcVersion` says: major and minor. The third number is 0.
    pub version: Version,
    /// Size of the library in bytes, since two builds of one minor version are not told apart by
    /// any function, and compile differently.
    pub library_bytes: u64,
}

/// The NVRTC of this process, opened once; so is a failure to open it.
///
/// Looks at the driver first, where there is one: of several compilers one is taken whose cubins it
/// loads.
///
/// # Errors
///
/// [`NoNvrtc`], with what was found and how to get one.
pub fn nvrtc() -> Result<Arc<Nvrtc>, NoNvrtc> {
    static NVRTC: OnceLock<Result<Arc<Nvrtc>, NoNvrtc>> = OnceLock::new();
    let open = || {
        let driver = crate::driver().ok();
        let driver = driver.and_then(|driver| driver.driver_get_version().ok());
        Nvrtc::open(&Roots::of_this_computer(), driver.map(version_from)).map(Arc::new)
    };
    NVRTC.get_or_init(open).clone()
}

impl Nvrtc {
    /// Opens NVRTC, wherever it lies.
    ///
    /// What `FRAZIL_NVRTC` names is the only one tried. Else, of all that are found, the newest
    /// comes first whose major version is not above that of the driver, where a driver is known:
    /// its cubins run there. Newer ones are tried last, so that kernels can be made for another
    /// computer. The first that opens is taken.
    ///
    /// # Errors
    ///
    /// [`NoNvrtc`], with every file tried and every place looked into.
    pub fn open(roots: &Roots, driver: Option<Version>) -> Result<Self, NoNvrtc> {
        if let Some(path) = roots.named_nvrtc() {
            let file = order::named(&path);
            let opened = file.map_or(Err(Refusal::NoFile), |file| Self::at(&file));
            return opened.map_err(|why| NoNvrtc::Named { path, why });
        }
        let found = search(roots);
        let mut refused = Vec::new();
        for library in order::best_first(found.of(Kind::Nvrtc), driver) {
            match Self::at(&library.path) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => refused.push((library.path.clone(), why)),
            }
        }
        Err(if refused.is_empty() {
            NoNvrtc::Absent { looked: found.looked }
        } else {
            NoNvrtc::Unusable(refused)
        })
    }

    /// Opens one file.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn at(path: &Path) -> Result<Self, Refusal> {
        // A bare name would be looked for by the loader, and nothing would lie beside it.
        let path = &std::path::absolute(path).map_err(|error| Refusal::Unreadable(error.kind()))?;
        // NVRTC asks the loader for its builtins by name when it compiles. What is open already is
        // found by that name, wherever it lies.
        for builtins in order::builtins_beside(path) {
            table::open_forever(&builtins).map_err(Refusal::Unloadable)?;
        }
        let table = table::open(path).map_err(|error| match error {
            NotOpened::Unloadable(reason) => Refusal::Unloadable(reason),
            NotOpened::Lacks(symbol) => Refusal::Lacks(symbol),
        })?;
        Self::of_table(table, path)
    }

    /// Asks an open library what it is; of one that is too old nothing but its version.
    fn of_table(table: Table, path: &Path) -> Result<Self, Refusal> {
        let version = version(&table)?;
        if version < OLDEST_NVRTC {
            return Err(Refusal::TooOld { found: version, need: OLDEST_NVRTC });
        }
        if let Some(name) = order::builtins_name(version) {
            // As it will ask itself, which else is told by the first compile alone.
            let opened = table::open_forever(Path::new(&name));
            opened.map_err(|reason| Refusal::NoBuiltins { name, reason })?;
        }
        let targets = targets::names(&supported_archs(&table)?);
        let file = fs::metadata(path).map_err(|error| Refusal::Unreadable(error.kind()))?;
        let library_bytes = file.len();
        let build = Build { version, library_bytes };
        Ok(Self { table, path: path.to_owned(), build, targets })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which compiler it is.
    pub fn build(&self) -> Build {
        self.build
    }

    /// Version and targets, as a [`Target`](frazil_core::Target) holds them.
    pub fn props(&self) -> frazil_core::Nvrtc {
        frazil_core::Nvrtc { version: self.build.version, targets: self.targets.clone() }
    }

    /// Compiles one unit.
    ///
    /// # Errors
    ///
    /// The call that failed, with the compiler's messages.
    pub(crate) fn compile_unit(&self, unit: &Unit<'_>) -> Result<Output, NvrtcError> {
        program::compile(&self.table, unit)
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc")
            .field("path", &self.path)
            .field("build", &self.build)
            .finish_non_exhaustive()
    }
}

impl From<NvrtcError> for Refusal {
    fn from(error: NvrtcError) -> Self {
        Self::Failed { call: error.call, name: error.name }
    }
}

fn version(table: &Table) -> Result<Version, Refusal> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both numbers are written to.
    let code = unsafe { (table.version)(&raw mut major, &raw mut minor) };
    check(table, "nvrtcVersion", code)?;
    let number = |number: c_int| u32::try_from(number).unwrap_or(0);
    Ok(Version::new(number(major), number(minor), 0))
}

/// Architectures as NVRTC counts them: 90 for compute capability 9.0.
fn supported_archs(table: &Table) -> Result<Vec<u32>, Refusal> {
    let mut count = 0;
    // SAFETY: the number is written to.
    let code = unsafe { (table.num_supported_archs)(&raw mut count) };
    check(table, "nvrtcGetNumSupportedArchs", code)?;
    let mut archs: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: as many numbers as it asked for are there to be written.
    let code = unsafe { (table.supported_archs)(archs.as_mut_ptr()) };
    check(table, "nvrtcGetSupportedArchs", code)?;
    Ok(archs.into_iter().filter_map(|arch| u32::try_from(arch).ok()).collect())
}
