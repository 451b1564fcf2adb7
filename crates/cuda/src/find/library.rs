//! A library as its file says it, without opening it as one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::roots::Source;

/// What a library is, by its file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `libcuda`, the driver's own library.
    Driver,
    /// `libnvrtc`, the run-time compiler.
    Nvrtc,
    /// `libnvrtc-builtins`, which the compiler opens while it compiles.
    NvrtcBuiltins,
    /// `libcudnn`, which opens its parts.
    Cudnn,
    /// A part of cuDNN: `graph` for `libcudnn_graph`.
    CudnnPart(String),
    /// `libcublasLt`, which cuDNN opens.
    CublasLt,
}

/// Numbers of a version, as many as are known, and how they are written: `580.65.06`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    numbers: Vec<u32>,
    text: String,
}

/// A library file.
#[derive(Clone, Debug)]
pub struct Library {
    /// What it is.
    pub kind: Kind,
    /// The file itself, links followed.
    pub path: PathBuf,
    /// From its name, or from the package that it came in; empty where neither says.
    pub version: Numbers,
    /// The Python package that it came in: name and version.
    pub package: Option<(String, Numbers)>,
    /// Where it was found first.
    pub source: Source,
    /// Whether the loader finds it by its name alone.
    pub on_loader_path: bool,
    /// Whether it is for this kind of processor.
    pub is_of_this_arch: bool,
}

/// Why a file cannot be the library that its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A link that leads nowhere, or in a circle; or a name that the loader's cache still has.
    Missing,
    /// Nothing is in it: a place where a container runtime should have mounted a file.
    Empty,
    /// No shared object.
    NotElf,
    /// It may not be read.
    Unreadable(String),
}

impl Kind {
    /// Reads a file name: `libnvrtc.so.12.4.127` is NVRTC, with the numbers 12.4.127.
    pub fn of_name(name: &str) -> Option<(Self, Numbers)> {
        let (stem, rest) = name.strip_prefix("lib")?.split_once(".so")?;
        let version = match rest.strip_prefix('.') {
            Some(numbers) => Numbers::parse(numbers)?,
            None if rest.is_empty() => Numbers::default(),
            None => return None,
        };
        let kind = match stem {
            "cuda" => Self::Driver,
            "nvrtc" => Self::Nvrtc,
            "nvrtc-builtins" => Self::NvrtcBuiltins,
            "cudnn" => Self::Cudnn,
            "cublasLt" => Self::CublasLt,
            _ => Self::CudnnPart(stem.strip_prefix("cudnn_")?.to_owned()),
        };
        Some((kind, version))
    }

    /// Whether those numbers of a file name are a version. The driver's library is called
    /// `libcuda.so.1` whatever its version; drivers count from 100 on.
    pub fn is_version(&self, numbers: &Numbers) -> bool {
        *self != Self::Driver || numbers.major().is_some_and(|first| first >= FIRST_DRIVER)
    }
}

/// Least first number of a driver's version.
pub const FIRST_DRIVER: u32 = 100;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver => f.pad("libcuda"),
            Self::Nvrtc => f.pad("NVRTC"),
            Self::NvrtcBuiltins => f.pad("NVRTC builtins"),
            Self::Cudnn => f.pad("cuDNN"),
            Self::CudnnPart(part) => f.pad(&format!("cuDNN {part}")),
            Self::CublasLt => f.pad("cuBLASLt"),
        }
    }
}

impl Numbers {
    /// Reads `12.4.127`; `None` where anything else than numbers and dots is in it.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        Some(Self { numbers, text: text.to_owned() })
    }

    /// How many are known.
    pub fn depth(&self) -> usize {
        self.numbers.len()
    }

    /// The first.
    pub fn major(&self) -> Option<u32> {
        self.numbers.first().copied()
    }

    /// The numbers, the most significant first.
    pub fn as_slice(&self) -> &[u32] {
        &self.numbers
    }

    /// Whether both may be one version, known to different depths.
    pub fn may_be(&self, other: &Self) -> bool {
        self.numbers.iter().zip(&other.numbers).all(|(a, b)| a == b)
    }
}

/// `12.4.127`; `?` where nothing is known.
impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.numbers.is_empty() { "?" } else { &self.text })
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.numbers.is_empty() {
            serializer.serialize_none()
        } else {
            serializer.collect_str(self)
        }
    }
}

impl Library {
    /// The folder that it lies in.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// Looks at the first bytes of a file: whether it is a shared object, and for this processor.
pub(super) fn is_of_this_arch(path: &Path) -> Result<bool, Broken> {
    let unreadable = |error: io::Error| Broken::Unreadable(error.to_string());
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    // A pipe would be waited for.
    if !metadata.is_file() {
        return Err(Broken::NotElf);
    }
    if metadata.len() == 0 {
        return Err(Broken::Empty);
    }
    // ELF, 64 bits, little end first; the machine is at 18 (System V ABI, "ELF Header").
    let mut head = [0; 20];
    match File::open(path).and_then(|mut file| file.read_exact(&mut head)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Broken::NotElf),
        read => read.map_err(unreadable)?,
    }
    if head[..4] != *b"\x7fELF" {
        return Err(Broken::NotElf);
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    Ok(head[4..6] == [2, 1] && THIS_MACHINE.is_none_or(|this| this == machine))
}

/// This processor in ELF headers; `None` where nothing of NVIDIA's is made for it.
pub(super) const THIS_MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else {
    None
};

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("leads to no file"),
            Self::Empty => f.write_str("is empty"),
            Self::NotElf => f.write_str("is no shared library"),
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}
