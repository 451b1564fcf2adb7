//! What the system says of NVIDIA's kernel driver, without asking the driver.

use std::fs;
use std::path::Path;

use frazil_cuda::find::{FIRST_DRIVER, Numbers, Roots};
use serde::Serialize;

/// The kernel's side of the driver.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct KernelDriver {
    /// Version of the module that is loaded.
    pub(super) version: Option<Numbers>,
    /// Names of the GPUs that the module lists.
    pub(super) gpus: Vec<String>,
    /// Nodes in `/dev` of GPUs (`nvidia0`), of the control device, and of unified memory.
    pub(super) device_nodes: Vec<String>,
    /// Whether Windows gives its GPUs to this Linux: there is no module then, and no other node.
    pub(super) is_wsl: bool,
    /// Whether this is the inside of a container, which brings its own files and not its own kernel.
    pub(super) is_container: bool,
}

/// Nodes that every CUDA program opens, beside that of a GPU.
pub(super) const CONTROL_NODES: [&str; 2] = ["nvidiactl", "nvidia-uvm"];

impl KernelDriver {
    pub(super) fn read(roots: &Roots) -> Self {
        let proc = roots.at("/proc/driver/nvidia");
        let text = fs::read_to_string(proc.join("version")).unwrap_or_default();
        let mut nodes = names(&roots.at("/dev"));
        nodes.retain(|name| is_gpu_node(name) || CONTROL_NODES.contains(&name.as_str()));
        let gpus = names(&proc.join("gpus"));
        let gpus = gpus.iter().filter_map(|gpu| model(&proc.join("gpus").join(gpu)));
        Self {
            version: version(&text),
            gpus: gpus.collect(),
            device_nodes: nodes,
            is_wsl: roots.at("/dev/dxg").exists(),
            is_container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|mark| roots.at(mark).exists()),
        }
    }

    /// Whether a GPU can be reached, as far as the kernel's side goes.
    pub(super) fn has_gpu_node(&self) -> bool {
        self.is_wsl || self.device_nodes.iter().any(|name| is_gpu_node(name))
    }

    /// Whether the kernel's side is there.
    pub(super) fn is_loaded(&self) -> bool {
        self.is_wsl || self.version.is_some()
    }
}

/// `nvidia0`, `nvidia1`, …
fn is_gpu_node(name: &str) -> bool {
    let number = name.strip_prefix("nvidia").unwrap_or("");
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 …`.
fn version(text: &str) -> Option<Numbers> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let mut numbers = line.split_whitespace().filter_map(Numbers::parse);
    numbers.find(|numbers| numbers.depth() > 1 && numbers.major() >= Some(FIRST_DRIVER))
}

/// The name in a GPU's `information`: `Model:  NVIDIA H200`.
fn model(gpu: &Path) -> Option<String> {
    let text = fs::read_to_string(gpu.join("information")).ok()?;
    let model = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(model.trim().to_owned())
}

/// Names in a folder, sorted; none where it is not there.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_every_form_of_module_is_read() {
        for (text, expected) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version: 12.2.0",
                Some("550.54.14"),
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)  Sun Jul 27",
                Some("580.65.06"),
            ),
            (
                "NVRM version: NVIDIA UNIX aarch64 Kernel Module  470.256.02  2024",
                Some("470.256.02"),
            ),
            ("GCC version:  gcc version 113.2.0", None),
            ("NVRM version: unknown", None),
            ("", None),
        ] {
            assert_eq!(version(text).map(|version| version.to_string()).as_deref(), expected);
        }
    }

    #[test]
    fn nodes_of_gpus_are_told_from_others() {
        let names = ["nvidia0", "nvidia15", "nvidia", "nvidiactl", "nvidia-uvm", "nvidia0x"];
        assert_eq!(names.map(is_gpu_node), [true, true, false, false, false, false]);
    }
}
