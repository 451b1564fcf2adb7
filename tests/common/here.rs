//! The compiler and the GPU of this computer, or why a test is skipped.
// Each test binary uses its part of this.
#![allow(dead_code, unused_imports, unused_macros)]

use std::fmt::Display;
use std::sync::Arc;

use frazil::Device;
use frazil_cuda::nvrtc::Nvrtc;

/// What was found, else the test is skipped, for the reason given.
macro_rules! or_skip {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(why) => return frazil_conformance::skip::because(why),
        }
    };
}
pub(crate) use or_skip;

/// The NVRTC of this computer.
pub(crate) fn nvrtc() -> Result<Arc<Nvrtc>, String> {
    frazil_cuda::nvrtc::nvrtc().map_err(|error| missing("no NVRTC", error))
}

/// The first GPU of this computer.
pub(crate) fn gpu() -> Result<Device, String> {
    frazil_cuda::device(0).map_err(|error| missing("no GPU", error))
}

/// One line: reasons are counted, and what else an error says, as every place that was looked into,
/// `frazil doctor` shows.
fn missing(what: &str, error: impl Display) -> String {
    format!("{what}: {}", error.to_string().lines().next().unwrap_or_default())
}
