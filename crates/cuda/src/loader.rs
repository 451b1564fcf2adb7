//! What the system's loader of libraries says.

use std::error::Error;

/// The loader's own words, which stand behind the name of the call that failed.
pub(crate) fn words_of(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
