//! Which libraries of NVIDIA lie where, without opening one.
//!
//! [`Roots`] says where to look: the loader's folders and cache, CUDA toolkits, conda, the packages
//! of Python, and the place that `FRAZIL_NVRTC` names. [`search()`] looks there and tells libraries by
//! their file names and the packages that brought them.
//!
//! Names and folders are those of Linux. Elsewhere nothing of that is there, and a file that
//! `FRAZIL_NVRTC` names is the only NVRTC.
//!
//! Used both by what opens NVRTC and by `frazil doctor`, so that what is shown is what is tried.

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod library;
mod loader_cache;
mod roots;
mod search;
#[cfg(test)]
mod tests;

pub use library::{Broken, FIRST_DRIVER, Kind, Library, Numbers};
pub use roots::{NVRTC_VARIABLE, Roots, Source};
pub use search::{Found, search, search_folder};
