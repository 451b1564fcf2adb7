//! What a caller did that the real driver does not define.

use std::fmt;

/// A use of the driver that its documentation leaves undefined: the simulated one answers with an
/// error and keeps what it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// A handle that was never given, or was destroyed.
    DeadHandle {
        /// What it should name.
        what: &'static str,
        /// The handle.
        handle: u64,
    },
    /// A launch of a kernel whose module is unloaded.
    UnloadedKernel {
        /// The kernel's symbol.
        kernel: String,
    },
    /// Parameters of another size than the kernel declares.
    ParameterBytes {
        /// The kernel's symbol.
        kernel: String,
        /// Bytes given.
        found: u64,
        /// Bytes declared.
        declared: u64,
    },
    /// A fill, in a graph, of memory that is not allocated any more.
    DeadFill {
        /// First address.
        address: u64,
        /// Bytes to be filled.
        bytes: u64,
    },
    /// PTX without the zero byte that ends it.
    UnendedPtx,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadHandle { what, handle } => {
                write!(f, "{handle:#x} is no live {what}")
            }
            Self::UnloadedKernel { kernel } => {
                write!(f, "{kernel} was launched after its module was unloaded")
            }
            Self::ParameterBytes { kernel, found, declared } => {
                write!(f, "{kernel} takes {declared} bytes of parameters and was given {found}")
            }
            Self::DeadFill { address, bytes } => {
                write!(f, "a graph fills {bytes} bytes at {address:#x}, which are not allocated")
            }
            Self::UnendedPtx => f.write_str("PTX without a zero byte at its end"),
        }
    }
}
