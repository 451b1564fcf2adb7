//! What a driver call that failed says.

use std::fmt;

/// A call, and the `CUresult` that it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The driver's function.
    pub call: &'static str,
    /// Its code; never 0.
    pub code: i32,
}

impl DriverError {
    /// Name of the code in `cuda.h`; `CUDA_ERROR_UNKNOWN` for one that is not in the table.
    pub fn name(self) -> &'static str {
        match self.code {
            1 => "CUDA_ERROR_INVALID_VALUE",
            2 => "CUDA_ERROR_OUT_OF_MEMORY",
            3 => "CUDA_ERROR_NOT_INITIALIZED",
            _ => "CUDA_ERROR_UNKNOWN",
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {} ({})", self.call, self.name(), self.code)
    }
}

impl std::error::Error for DriverError {}

impl From<DriverError> for frazil_core::Error {
    fn from(error: DriverError) -> Self {
        Self::Driver { call: error.call, name: error.name().into(), code: error.code }
    }
}
