//! Why an entry is not used, and why one was not kept.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::Key;

/// What a look into the cache found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The artifact.
    Hit(crate::Artifact),
    /// There is no entry.
    Absent,
    /// There is something that is not used; compile anew, and say so.
    Refused(Refusal),
}

/// Why an entry is not used. The next store of its key replaces it, unless it is a folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It does not begin as an entry does.
    #[error("not an entry of this cache")]
    Foreign,
    /// It is of another format.
    #[error("format {found}, not {known}")]
    Format {
        /// Version of its format.
        found: u64,
        /// Version that is read here.
        known: u64,
    },
    /// Its end is missing.
    #[error("{found} bytes of {need}: its end is missing")]
    Truncated {
        /// Bytes that are there.
        found: u64,
        /// Bytes of the whole, or of the least that an entry can be.
        need: u64,
    },
    /// Something is behind its end.
    #[error("{found} bytes instead of {need}: something is behind its end")]
    Overlong {
        /// Bytes that are there.
        found: u64,
        /// Bytes of the whole.
        need: u64,
    },
    /// Its bytes are not those that were written.
    #[error("its bytes are not those that were written: the checksum differs")]
    Checksum,
    /// Its bytes are those that were written, and say what this version does not understand.
    #[error("its metadata is not understood: {why}")]
    Metadata {
        /// What is wrong with it.
        why: String,
    },
    /// It is the entry of another key, under this one's name.
    #[error("the entry of {found}, under a foreign name")]
    OtherKey {
        /// The key that it is of.
        found: Key,
    },
    /// It is larger than any entry.
    #[error("{found} bytes, above the limit of {limit}")]
    TooLarge {
        /// Its size.
        found: u64,
        /// Most bytes of an entry.
        limit: u64,
    },
    /// A folder, a pipe or a device has its name.
    #[error("not a file")]
    NotAFile,
    /// Somebody else may have written it.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The operating system did not let it be read.
    #[error("it cannot be read: {0}")]
    Io(io::ErrorKind),
}

/// A file or folder that somebody else may have written: what it holds would be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not trusted: {why}", path.display())]
pub struct Untrusted {
    /// The file or folder.
    pub path: PathBuf,
    /// What tells.
    pub why: Distrust,
}

/// What tells that somebody else may have written a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// It belongs to neither this user nor root.
    Owner {
        /// Who it belongs to.
        owner: u32,
        /// This process's effective user.
        user: u32,
    },
    /// Its group or everybody may write to it.
    Writable {
        /// Its permission bits.
        mode: u32,
    },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { owner, user } => {
                write!(f, "it belongs to user {owner}, neither to {user}, who asks, nor to root")
            }
            Self::Writable { mode } => {
                write!(f, "others may write to it (mode {mode:04o}); `chmod go-w` forbids it")
            }
        }
    }
}

/// Why an artifact was not kept. The work goes on without: the next process compiles again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A step failed.
    #[error("cannot {step} {}: {kind}", path.display())]
    Io {
        /// The step.
        step: StoreStep,
        /// The file or folder.
        path: PathBuf,
        /// How it failed.
        kind: io::ErrorKind,
    },
    /// What is kept in this folder would not be used.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// It is larger than any entry.
    #[error("an entry of {found} bytes is above the limit of {limit}")]
    TooLarge {
        /// Its size.
        found: u64,
        /// Most bytes of an entry.
        limit: u64,
    },
}

/// The steps of a store that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreStep {
    /// Making the folder of the entries.
    MakeFolder,
    /// Creating a temporary file beside the entry.
    Create,
    /// Writing to it.
    Write,
    /// Giving it the entry's name.
    Rename,
}

impl fmt::Display for StoreStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MakeFolder => "make the folder",
            Self::Create => "create",
            Self::Write => "write",
            Self::Rename => "rename",
        })
    }
}

/// There is no place for a cache: nothing names one, and the user has no home folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no folder for the cache: neither FRAZIL_CACHE nor XDG_CACHE_HOME names one, and the user has no home folder"
)]
pub struct NoFolder;
