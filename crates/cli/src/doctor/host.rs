//! This computer, as far as the CPU engine cares.

use std::fs;

use frazil_cuda::find::Roots;
use serde::Serialize;

use crate::computer;

/// The processor and its memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Host {
    /// Name of the processor, where the system says it.
    processor: Option<String>,
    /// Threads that one execute may work on.
    num_threads: usize,
    /// What the vectors of the CPU engine are of.
    instructions: &'static str,
    /// Memory of the computer, and what of it is free or can be freed.
    memory_bytes: Option<u64>,
    available_bytes: Option<u64>,
    /// Most memory that the container, or the group of this process, may use.
    memory_limit_bytes: Option<u64>,
}

impl Host {
    pub(super) fn read(roots: &Roots) -> Self {
        let text = |path: &str| fs::read_to_string(roots.at(path)).unwrap_or_default();
        Self {
            processor: computer::processor(text),
            num_threads: std::thread::available_parallelism().map_or(1, usize::from),
            instructions: frazil::cpu::instructions(),
            memory_bytes: computer::memory_bytes(text),
            available_bytes: computer::available_bytes(text),
            memory_limit_bytes: computer::memory_limit_bytes(text),
        }
    }

    /// Lines for people: name and value.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let plural = if self.num_threads == 1 { "" } else { "s" };
        let processor = self.processor.as_deref().unwrap_or("not named by the system");
        let mut lines = vec![
            ("processor", format!("{processor}, {} thread{plural}", self.num_threads)),
            ("CPU engine", format!("computes with {}", self.instructions)),
        ];
        let gibibytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        if let Some(all) = self.memory_bytes {
            let part = |bytes: Option<u64>, what: &str| {
                bytes.map_or_else(String::new, |bytes| format!(", {} {what}", gibibytes(bytes)))
            };
            let available = part(self.available_bytes, "available");
            let limit = part(self.memory_limit_bytes, "at most for this process");
            lines.push(("memory", format!("{}{available}{limit}", gibibytes(all))));
        }
        lines
    }
}
