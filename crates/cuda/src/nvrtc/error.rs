//! Why there is no compiler.

use std::fmt;
use std::io;
use std::path::PathBuf;

use frazil_core::Version;

use crate::find::NVRTC_VARIABLE;

/// How to get NVRTC, in one line.
pub const GET_NVRTC: &str = "get it with `pip install nvidia-cuda-nvrtc` into the active Python \
                             environment, or with a CUDA toolkit";

/// Why NVRTC was not opened. Says where it was looked for, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoNvrtc {
    /// No file of its name anywhere.
    Absent {
        /// Folders looked into, there or not, in order.
        looked: Vec<PathBuf>,
    },
    /// What [`NVRTC_VARIABLE`] names does not serve; nothing else is tried then.
    Named {
        /// What it names.
        path: PathBuf,
        /// What is wrong with it.
        why: Refusal,
    },
    /// Files of its name, and what is wrong with each, in the order tried.
    Unusable(Vec<(PathBuf, Refusal)>),
}

/// What is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Neither a file nor a folder with an NVRTC in it.
    NoFile,
    /// The loader refuses it, or the builtins beside it; its own words.
    Unloadable(String),
    /// The operating system does not say what it is.
    Unreadable(io::ErrorKind),
    /// A function is not in it.
    Lacks(&'static str),
    /// Its builtins lie neither beside it nor where the loader looks: it would compile nothing.
    NoBuiltins {
        /// The library that it asks for.
        name: String,
        /// The loader's own words.
        reason: String,
    },
    /// It failed when asked for its version and targets.
    Failed {
        /// The function.
        call: &'static str,
        /// Name of its code.
        name: String,
    },
    /// It is older than frazil's kernels need.
    TooOld {
        /// Its version.
        found: Version,
        /// The oldest that serves.
        need: Version,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("is neither a libnvrtc nor a folder that holds one"),
            Self::Unloadable(reason) => write!(f, "cannot be opened: {reason}"),
            Self::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
            Self::Lacks(symbol) => write!(f, "has no {symbol}"),
            Self::NoBuiltins { name, reason } => {
                write!(f, "lacks {name}, beside it and on the loader's path: {reason}")
            }
            Self::Failed { call, name } => write!(f, "failed in {call}: {name}"),
            Self::TooOld { found, need } => {
                write!(
                    f,
                    "is NVRTC {}.{}, need {}.{}",
                    found.major, found.minor, need.major, need.minor
                )
            }
        }
    }
}

impl fmt::Display for NoNvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { looked } => {
                write!(f, "no NVRTC in any of {} places; {GET_NVRTC}; looked into", looked.len())?;
                looked.iter().try_for_each(|folder| write!(f, "\n  {}", folder.display()))
            }
            Self::Named { path, why } => {
                write!(f, "{NVRTC_VARIABLE} names {}, which {why}; ", path.display())?;
                f.write_str(
                    "name an NVRTC or its folder, or unset the variable to have it searched",
                )
            }
            Self::Unusable(refused) => {
                write!(f, "no NVRTC that can be used; {GET_NVRTC}; found")?;
                refused.iter().try_for_each(|(path, why)| write!(f, "\n  {} {why}", path.display()))
            }
        }
    }
}

impl std::error::Error for NoNvrtc {}
