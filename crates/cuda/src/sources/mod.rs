//! Kernel sources: the text of every file of `kernels/`, in this crate, and of other crates'.

mod closure;

use std::borrow::Cow;

use sha2::{Digest, Sha256};

pub use closure::{CONFIG_HEADER, IncludeError};

/// A file that is part of this crate.
struct Embedded {
    path: &'static str,
    text: &'static str,
    sha256: [u8; 32],
}

// `FILES: &[Embedded]`, by path.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// One file of kernel code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path, as others include it.
    pub path: Cow<'static, str>,
    /// Its text.
    pub text: Cow<'static, str>,
    /// SHA-256 of the text.
    pub sha256: [u8; 32],
}

/// A kernel source and all that it includes: everything that a compiler reads.
///
/// Sources include one another by their paths from one folder, and [`CONFIG_HEADER`]; no header of
/// a toolkit, so that NVRTC alone is enough and the hashes name the code whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source(Vec<SourceFile>);

impl Source {
    /// A source of this crate: its path in `kernels/`.
    ///
    /// # Errors
    ///
    /// [`IncludeError`] where there is no such file. That all includes lead to files was seen when
    /// this crate was built.
    pub fn embedded(path: &str) -> Result<Self, IncludeError> {
        let file = |path: &str| FILES.iter().find(|file| file.path == path);
        let text_of = |path: &str| file(path).map(|file| (file.path, file.text));
        let hashed = |(path, _): (&str, _)| {
            let Embedded { path, text, sha256 } = *file(path)?;
            Some(SourceFile { path: path.into(), text: text.into(), sha256 })
        };
        let files = closure::closure(path, text_of)?;
        Ok(Self(files.into_iter().filter_map(hashed).collect()))
    }

    /// A source of another crate, among the files that it may include: path and text of each.
    ///
    /// # Errors
    ///
    /// [`IncludeError`] where the path, or one that is included, is not among them.
    pub fn new(path: &str, files: &[(&str, &str)]) -> Result<Self, IncludeError> {
        let text_of = |path: &str| files.iter().copied().find(|(known, _)| *known == path);
        let files = closure::closure(path, text_of)?;
        let own = |(path, text): (&str, &str)| SourceFile {
            path: path.to_owned().into(),
            text: text.to_owned().into(),
            sha256: Sha256::digest(text).into(),
        };
        Ok(Self(files.into_iter().map(own).collect()))
    }

    /// Its path.
    pub fn path(&self) -> &str {
        self.0.first().map_or("", |file| &file.path)
    }

    /// The source, then what it includes.
    pub fn files(&self) -> &[SourceFile] {
        &self.0
    }
}

/// Paths of all sources of this crate that hold a kernel.
pub fn embedded_paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.path).filter(|path| path.ends_with(".cu"))
}
