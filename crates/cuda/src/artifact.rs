//! A compiled kernel and its name.

use std::fmt;

use frazil_core::{Resources, Version};

use crate::ImageKind;

/// Names an artifact: a SHA-256 over everything that it is made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 32]);

/// As 64 lower-case hexadecimal digits.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A kernel for one target: what a driver loads, and what the compiler said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its name.
    pub key: Key,
    /// What the image is.
    pub kind: ImageKind,
    /// The image. PTX ends in a zero byte.
    pub image: Vec<u8>,
    /// Names of its kernels; each begins with `frazil_`.
    pub symbols: Vec<String>,
    /// What a thread and a block of it take; known of machine code alone.
    pub resources: Option<Resources>,
    /// Version of the compiler.
    pub compiler: Version,
}
