//! What a bench needs of a device: memory that holds a cell's tensors, and a clock.
//!
//! One implementation a kind of device. The road from graph to launch is the same for all of them;
//! only how tensors are stored and how an execute is timed is theirs.

use std::time::Duration;

use frazil::{Device, Executable};

use super::inputs::Image;
use crate::failure::Failure;

/// A device that cells are timed on.
pub(super) trait BenchDevice {
    /// What plans are built on.
    fn device(&self) -> &Device;

    /// Product name, with what sets its speed.
    fn name(&self) -> &str;

    /// What drives it, and the version.
    fn driver(&self) -> &str;

    /// Memory that is free, in bytes, where the system says.
    fn free_bytes(&self) -> Option<u64>;

    /// Measures what the device does at most.
    fn limits(&mut self) -> Result<Limits, Failure>;

    /// Puts tensors into its memory, and readies executables to be timed on them.
    fn load<'a>(
        &'a self,
        images: &[Image],
        contenders: Vec<Executable>,
        cache: Cache,
    ) -> Result<Box<dyn Loaded + 'a>, Failure>;
}

/// Tensors in the memory of a device, and the executables that are timed on them. All of them write
/// the same output.
pub(super) trait Loaded {
    /// Replaces what every tensor holds.
    fn store(&mut self, images: &[Image]) -> Result<(), Failure>;

    /// Executes a contender that often and gives the time of one execute, by the device's clock.
    fn time(&mut self, contender: usize, executes: u32) -> Result<Duration, Failure>;

    /// Bytes of a tensor, by its place among the images.
    fn fetch(&self, image: usize) -> Result<Vec<u8>, Failure>;
}

/// What the caches hold before an execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Cache {
    /// Nothing of its tensors, as between the layers of a model.
    Cold,
    /// What the execute before left there.
    Warm,
}

impl Cache {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// The rates that no engine exceeds, and how they were measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Operations a second of the greatest product, and what was multiplied.
    pub(super) flops: (f64, &'static str),
    /// Bytes a second, and what was read.
    pub(super) bytes: (f64, &'static str),
}
