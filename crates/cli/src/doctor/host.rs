//! This computer, as far as the CPU engine cares.

use std::fs;

use serde::Serialize;

use super::roots::Roots;

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
        let memory = text("/proc/meminfo");
        let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        let memory_bytes = kibibytes(&memory, "MemTotal:");
        let limit = limits.iter().find_map(|path| text(path).trim().parse().ok());
        Self {
            processor: processor(&text("/proc/cpuinfo")),
            num_threads: std::thread::available_parallelism().map_or(1, usize::from),
            instructions: frazil::cpu::instructions(),
            memory_bytes,
            available_bytes: kibibytes(&memory, "MemAvailable:"),
            // Where there is none, a number larger than any memory may stand for it.
            memory_limit_bytes: limit.filter(|&limit| memory_bytes.is_none_or(|all| limit < all)),
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

/// `model name : AMD EPYC` of x86; other processors have numbers there, or nothing.
fn processor(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The number of a line `MemTotal:  24684084 kB`, which means KiB, in bytes.
fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t: avx2\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("AMD EPYC 9654"));
        assert_eq!(processor("processor\t: 0\nCPU part\t: 0xd4f\n"), None);
        let meminfo = "MemTotal:       24684084 kB\nMemFree:  1 kB\nMemAvailable: 2 MB\n";
        assert_eq!(kibibytes(meminfo, "MemTotal:"), Some(24_684_084 * 1024));
        assert_eq!(kibibytes(meminfo, "MemAvailable:"), None);
        assert_eq!(kibibytes("MemTotal: 18446744073709551615 kB", "MemTotal:"), None);
    }
}
