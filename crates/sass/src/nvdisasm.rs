//! NVIDIA's disassembler.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says where the disassembler is.
const VARIABLE: &str = "FRAZIL_NVDISASM";

/// Prints where the wheel `nvidia-cuda-nvdisasm` has it.
const OF_WHEELS: &str = "\
import glob, os, sys
for folder in sys.path:
    for found in glob.glob(os.path.join(folder, 'nvidia', '*', 'bin', 'nvdisasm')):
        print(found)
";

/// A disassembler that runs.
#[derive(Clone, Debug)]
pub struct Nvdisasm {
    program: PathBuf,
    /// What it calls itself.
    pub version: String,
}

impl Nvdisasm {
    /// The one that `FRAZIL_NVDISASM` names; else of the path, of a toolkit, of Python's packages.
    ///
    /// # Errors
    ///
    /// Where none of them runs: what to install.
    pub fn find() -> Result<Self, String> {
        if let Some(named) = std::env::var_os(VARIABLE) {
            let named = PathBuf::from(named);
            return Self::at(&named)
                .ok_or(format!("no nvdisasm: {VARIABLE} names {}", named.display()));
        }
        let found = [PathBuf::from("nvdisasm")].into_iter().chain(of_toolkits()).chain(of_wheels());
        found
            .into_iter()
            .find_map(|program| Self::at(&program))
            .ok_or_else(|| "no nvdisasm: `pip install nvidia-cuda-nvdisasm` has one".into())
    }

    fn at(program: &Path) -> Option<Self> {
        let output = Command::new(program).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let release = said.lines().find(|line| line.contains("release"))?;
        let version = release.rsplit(", ").next()?.trim().to_owned();
        output.status.success().then(|| Self { program: program.into(), version })
    }

    /// The text of a cubin.
    ///
    /// # Errors
    ///
    /// What the program, or the file system, says.
    pub fn disassemble(&self, cubin: &Path) -> Result<String, String> {
        let fault = |what: &str| format!("{}: {what}", self.program.display());
        let output = Command::new(&self.program).arg("-c").arg(cubin).output();
        let output = output.map_err(|error| fault(&error.to_string()))?;
        if !output.status.success() {
            return Err(fault(String::from_utf8_lossy(&output.stderr).trim()));
        }
        String::from_utf8(output.stdout).map_err(|error| fault(&error.to_string()))
    }
}

fn of_toolkits() -> impl Iterator<Item = PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let folders = named.chain([OsString::from("/usr/local/cuda")]);
    folders.map(|folder| Path::new(&folder).join("bin/nvdisasm"))
}

fn of_wheels() -> Vec<PathBuf> {
    let said = Command::new("python3").args(["-c", OF_WHEELS]).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.unwrap_or_default().lines().map(PathBuf::from).collect()
}
