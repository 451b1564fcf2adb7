//! Computers that are not here, as trees of files.

mod computers;
mod found;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::driver::KernelDriver;
use super::findings::{Finding, findings};
use super::library::THIS_MACHINE;
use super::roots::Roots;
use super::search::{Found, search};

/// A file system under construction.
struct Tree {
    /// Removed when dropped.
    _folder: TempDir,
    roots: Roots,
}

const TOOLKIT: &str = "/usr/local/cuda-12.4/lib64";
const CUDNN: &str = "/usr/lib/x86_64-linux-gnu";
const PACKAGES: &str = "/venv/lib/python3.11/site-packages";
const VERSION: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n";

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let roots = Roots { root, current: "/home/me".into(), variables: BTreeMap::new() };
        Self { _folder: folder, roots }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.roots.at(path)
    }

    fn file(&mut self, path: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// The head of a shared object for this processor.
    fn library(&mut self, path: &str) -> &mut Self {
        self.file(path, elf(THIS_MACHINE.unwrap_or(0)))
    }

    fn libraries(&mut self, folder: &str, names: &[&str]) -> &mut Self {
        names.iter().for_each(|name| {
            self.library(&format!("{folder}/{name}"));
        });
        self
    }

    #[cfg(unix)]
    fn link(&mut self, path: &str, to: &str) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
        self
    }

    fn variable(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.roots.variables.insert(name, value.into());
        self
    }

    /// Kernel driver 550.54.14, its nodes and its library.
    fn driver(&mut self) -> &mut Self {
        self.file("/proc/driver/nvidia/version", VERSION);
        self.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA H200\n");
        for node in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
            self.file(&format!("/dev/{node}"), "");
        }
        self.library(&format!("{CUDNN}/libcuda.so.550.54.14"))
    }

    fn nvrtc(&mut self) -> &mut Self {
        let names =
            ["libnvrtc.so.12.4.127", "libnvrtc-builtins.so.12.4.127", "libcublasLt.so.12.4.5.8"];
        self.libraries(TOOLKIT, &names)
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

    /// A wheel of NVIDIA in the virtual environment: its files, without and with their `RECORD`.
    fn wheel(&mut self, part: &str, name: &str, version: &str, files: &[&str]) -> &mut Self {
        let folder = format!("nvidia/{part}/lib");
        self.libraries(&format!("{PACKAGES}/{folder}"), files);
        let record: String =
            files.iter().map(|file| format!("{folder}/{file},sha256=x,1\n")).collect();
        self.file(&format!("{PACKAGES}/{name}-{version}.dist-info/RECORD"), record);
        self.variable("VIRTUAL_ENV", "/venv")
    }

    fn search(&self) -> Found {
        search(&self.roots)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = findings(&KernelDriver::read(&self.roots), &self.search());
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

/// First bytes of a shared object of 64 bits for a machine.
fn elf(machine: u16) -> Vec<u8> {
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend([3_u16.to_le_bytes(), machine.to_le_bytes()].concat());
    head.resize(64, 0);
    head
}
