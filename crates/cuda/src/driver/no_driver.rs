//! Why there is no driver to call.

use std::fmt;
use std::path::PathBuf;

use frazil_core::Version;

use super::DriverError;

/// Why no GPU can be used: what was found, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoDriver {
    /// The library is in none of the places where drivers put it.
    Absent {
        /// Names and paths tried, in order; a bare name is searched by the system's loader.
        tried: Vec<PathBuf>,
    },
    /// The library is there, and the system's loader does not take it.
    NotLoadable {
        /// The name or path tried.
        path: PathBuf,
        /// What the loader says.
        message: String,
    },
    /// The driver is of an older CUDA than frazil needs.
    TooOld {
        /// The library.
        path: PathBuf,
        /// Version of CUDA that the driver serves.
        found: Version,
        /// Oldest version that has what is needed.
        need: Version,
    },
    /// The library lacks a function that a driver of its version has.
    MissingSymbol {
        /// The library.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
        /// Version of CUDA that brought the function.
        since: Version,
        /// Version of CUDA that the driver claims, where it could be asked.
        driver: Option<Version>,
    },
    /// The driver does not start: one of the three calls that every program begins with failed.
    Init {
        /// The library.
        path: PathBuf,
        /// The call, its code and name.
        error: DriverError,
    },
    /// The driver starts and lists no GPU.
    NoGpu {
        /// The library.
        path: PathBuf,
        /// Version of CUDA that the driver serves.
        driver: Version,
    },
}

impl NoDriver {
    /// How to mend it, as one clause.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Absent { .. } => {
                "install NVIDIA's driver; in a container, start it with the NVIDIA container \
                 toolkit (`--gpus all`), which brings the library of the host"
            }
            Self::NotLoadable { .. } => {
                "the file is damaged, for another processor, or lacks a library beside it: \
                 reinstall NVIDIA's driver"
            }
            Self::TooOld { .. } => "update NVIDIA's driver to 525 or newer, the first of CUDA 12.0",
            Self::MissingSymbol { .. } => {
                "this is not the library of NVIDIA's driver, or only a part of it: look which file \
                 comes first on the loader's path"
            }
            Self::Init { error, .. } => help_of_code(error.code),
            Self::NoGpu { .. } => {
                "look whether `nvidia-smi` lists a GPU and whether CUDA_VISIBLE_DEVICES hides it"
            }
        }
    }
}

/// Codes of `cuInit` that users meet: the documentation of `CUresult`.
fn help_of_code(code: i32) -> &'static str {
    match code {
        34 => {
            "this is the stand-in for linkers from the toolkit's `stubs` folder: take that folder \
             from LD_LIBRARY_PATH"
        }
        46 => "another process holds the GPU for itself alone, or MIG is being changed",
        100 => {
            "look whether `nvidia-smi` lists a GPU, whether CUDA_VISIBLE_DEVICES hides it, and in a \
             container whether /dev/nvidia0 is there"
        }
        304 | 800 => "look who may open /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia0",
        802 => "wait for, or start, the NVIDIA fabric manager (`nvidia-fabricmanager`)",
        803 => {
            "the driver in the kernel and this library are of two versions: restart after an \
             update, or take the older library from the loader's path"
        }
        804 => {
            "the toolkit's `compat` library does not serve this GPU: take its folder from \
             LD_LIBRARY_PATH"
        }
        805..=810 => "the multi-process service (MPS) refused: look at its control daemon",
        _ => "look whether `nvidia-smi` works, and at what the kernel's log says of `NVRM`",
    }
}

impl fmt::Display for NoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { tried } => {
                let tried: Vec<String> =
                    tried.iter().map(|path| path.display().to_string()).collect();
                write!(f, "no library of a CUDA driver: tried {}", tried.join(", "))?;
            }
            Self::NotLoadable { path, message } => {
                write!(f, "{} does not load: {message}", path.display())?;
            }
            Self::TooOld { path, found, need } => {
                let path = path.display();
                write!(f, "the driver {path} is of CUDA {found}, {need} is needed")?;
            }
            Self::MissingSymbol { path, symbol, since, driver } => {
                write!(f, "{} lacks {symbol}, part of CUDA since {since}", path.display())?;
                match driver {
                    Some(driver) => write!(f, ", though it claims CUDA {driver}")?,
                    None => write!(f, ", and does not say its version")?,
                }
            }
            Self::Init { path, error } => {
                write!(f, "the driver {} does not start: {error}", path.display())?;
            }
            Self::NoGpu { path, driver } => {
                write!(f, "the driver {} (CUDA {driver}) lists no GPU", path.display())?;
            }
        }
        write!(f, "; {}", self.help())
    }
}

impl std::error::Error for NoDriver {}
