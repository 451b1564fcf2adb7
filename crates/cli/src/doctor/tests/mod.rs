//! Computers that are not here, as trees of files.

mod computers;
mod found;

use std::ops::{Deref, DerefMut};

use frazil_cuda::find::fixtures;
use tempfile::TempDir;

use super::driver::KernelDriver;
use super::findings::{Finding, findings};
use super::opened::{self, Answer, Opened};

/// A file system under construction, with what a doctor says of it.
struct Tree {
    /// Removed when dropped.
    _folder: TempDir,
    files: fixtures::Tree,
    /// What opening its libraries would show; that they are sound, unless it is said otherwise.
    opened: Opened,
}

const TOOLKIT: &str = "/usr/local/cuda-12.4/lib64";
const CUDNN: &str = "/usr/lib/x86_64-linux-gnu";
const VERSION: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n";

impl Deref for Tree {
    type Target = fixtures::Tree;

    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

impl DerefMut for Tree {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.files
    }
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = fixtures::Tree::new(folder.path());
        let driver = Answer::Opened(opened::Driver { cuda: "12.4".into(), num_gpus: 1 });
        let (version, path) = ("12.4".into(), "libnvrtc.so.12".into());
        let nvrtc = Answer::Opened(opened::Nvrtc { version, path, targets: Vec::new() });
        Self { _folder: folder, files, opened: Opened { driver, nvrtc } }
    }

    /// Kernel driver 550.54.14, its nodes and its library.
    fn driver(&mut self) -> &mut Self {
        self.file("/proc/driver/nvidia/version", VERSION);
        self.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA H200\n");
        for node in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
            self.file(&format!("/dev/{node}"), "");
        }
        self.library(&format!("{CUDNN}/libcuda.so.550.54.14"));
        self
    }

    fn nvrtc(&mut self) -> &mut Self {
        let names =
            ["libnvrtc.so.12.4.127", "libnvrtc-builtins.so.12.4.127", "libcublasLt.so.12.4.5.8"];
        self.libraries(TOOLKIT, &names);
        self
    }

    /// cuDNN of one version, whole.
    fn cudnn(&mut self, folder: &str, version: &str) -> &mut Self {
        for part in [
            "",
            "_graph",
            "_ops",
            "_heuristic",
            "_engines_precompiled",
            "_engines_runtime_compiled",
            "_adv",
        ] {
            self.library(&format!("{folder}/libcudnn{part}.so.{version}"));
        }
        self
    }

    fn findings(&self) -> Vec<Finding> {
        let kernel = KernelDriver::read(&self.roots);
        let mut findings = findings(&self.roots, &kernel, &self.search(), &self.opened);
        // Of this program, not of the tree.
        findings.retain(|finding| !matches!(finding, Finding::Unoptimised | Finding::OtherSystem));
        findings
    }

    fn codes(&self) -> Vec<&'static str> {
        self.findings().iter().map(Finding::code).collect()
    }

    /// What is said of the one finding with that code.
    fn said(&self, code: &str) -> String {
        let findings = self.findings();
        let found: Vec<&Finding> = findings.iter().filter(|f| f.code() == code).collect();
        assert_eq!(found.len(), 1, "{code}: {findings:#?}");
        assert!(!found[0].advice().is_empty());
        found[0].to_string()
    }
}
