//! Everything that was seen, as text and as one JSON object.

use std::io::Write;
use std::path::Path;

use frazil::Router;
use frazil_conformance::run::Status;
use frazil_cuda::find::{Kind, Library, Numbers, Roots, Source, search};
use serde::{Serialize, Serializer};

use super::driver::KernelDriver;
use super::engines::{self, Engine};
use super::findings::{Finding, Severity, findings};
use super::host::Host;
use super::opened::{Answer, Opened};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Tone};

/// One section a field. What libraries say when they are asked is a section of its own, beside what
/// is found: a file that lies somewhere need not load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    build: Build,
    host: Host,
    engines: Vec<Engine>,
    /// Engines of frazil's own that this program was built without.
    engines_not_linked: Vec<&'static str>,
    kernel_driver: KernelDriver,
    libraries: Vec<Line>,
    /// The driver and the compiler that would be used.
    opened: Opened,
    findings: Vec<Finding>,
}

/// This program.
#[derive(Clone, Debug, Serialize)]
struct Build {
    version: &'static str,
    arch: &'static str,
    os: &'static str,
    optimised: bool,
}

/// A library in the report.
#[derive(Clone, Debug, Serialize)]
struct Line {
    #[serde(serialize_with = "as_text")]
    library: Kind,
    version: Numbers,
    /// What of it is not UTF-8 is replaced, as JSON has no other text.
    path: String,
    package: Option<String>,
    source: Source,
    on_loader_path: bool,
    for_this_processor: bool,
}

fn as_text<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(kind)
}

impl From<&Library> for Line {
    fn from(library: &Library) -> Self {
        let package = library.package.as_ref();
        Self {
            library: library.kind.clone(),
            version: library.version.clone(),
            path: lossy(&library.path),
            package: package.map(|(name, version)| format!("{name} {version}")),
            source: library.source,
            on_loader_path: library.on_loader_path,
            for_this_processor: library.is_of_this_arch,
        }
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Report {
    pub(super) fn new(roots: &Roots, router: &Router, opened: Opened) -> Result<Self, Failure> {
        let engines = engines::engines(router)?;
        let (kernel_driver, found) = (KernelDriver::read(roots), search(roots));
        Ok(Self {
            build: Build {
                version: env!("CARGO_PKG_VERSION"),
                arch: std::env::consts::ARCH,
                os: std::env::consts::OS,
                optimised: !cfg!(debug_assertions),
            },
            host: Host::read(roots),
            engines_not_linked: engines::not_linked(&engines),
            engines,
            findings: findings(roots, &kernel_driver, &found, &opened),
            kernel_driver,
            libraries: found.libraries.iter().map(Line::from).collect(),
            opened,
        })
    }

    pub(super) fn outcome(&self) -> Outcome {
        engines::outcome(&self.engines)
    }

    pub(super) fn write(&self, out: &mut Output) -> Result<(), Failure> {
        let Build { version, arch, os, optimised } = self.build;
        let how = if optimised { "optimised" } else { "not optimised" };
        writeln!(out, "frazil {version} for {arch} {os}, {how}")?;
        writeln!(out, "host")?;
        for (name, value) in self.host.lines() {
            writeln!(out, "  {name:<14} {value}")?;
        }
        self.write_engines(out)?;
        self.write_driver(out)?;
        self.write_libraries(out)?;
        self.write_opened(out)?;
        self.write_findings(out)
    }

    fn write_engines(&self, out: &mut Output) -> Result<(), Failure> {
        writeln!(out, "engines, each tried on a small case on the host")?;
        for Engine { engine, maturity, status, reason, repro, .. } in &self.engines {
            let status = match status {
                Status::Right => out.paint(Tone::Good, "right".to_owned()),
                Status::Declined => out.paint(Tone::Faint, "declined".to_owned()),
                other => out.paint(Tone::Bad, format!("{other:?}").to_uppercase()),
            };
            write!(out, "  {engine:<14} {status}, {maturity}")?;
            match reason {
                Some(reason) => writeln!(out, "; {reason}")?,
                None => writeln!(out)?,
            }
            if let Some(repro) = repro {
                writeln!(out, "    {repro}")?;
            }
        }
        for engine in &self.engines_not_linked {
            writeln!(out, "  {engine:<14} not in this program")?;
        }
        Ok(())
    }

    fn write_driver(&self, out: &mut Output) -> Result<(), Failure> {
        let KernelDriver { version, gpus, device_nodes, is_wsl, is_container } =
            &self.kernel_driver;
        writeln!(out, "NVIDIA driver of the kernel, as /proc and /dev show it; none was asked")?;
        let version = version.as_ref().map_or("none".to_owned(), Numbers::to_string);
        let list = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        writeln!(out, "  {:<14} {version}", "version")?;
        writeln!(out, "  {:<14} {}", "GPUs", list(gpus))?;
        writeln!(out, "  {:<14} {}", "device nodes", list(device_nodes))?;
        if *is_wsl {
            writeln!(out, "  {:<14} Linux under Windows, GPUs through /dev/dxg", "system")?;
        }
        if *is_container {
            writeln!(out, "  {:<14} a container", "system")?;
        }
        Ok(())
    }

    fn write_libraries(&self, out: &mut Output) -> Result<(), Failure> {
        writeln!(out, "libraries, found by their names; one here may not load")?;
        let parts = |line: &&Line| matches!(line.library, Kind::CudnnPart(_));
        for line in self.libraries.iter().filter(|line| !parts(line)) {
            let Line { library, version, path, package, .. } = line;
            write!(out, "  {library:<14} {version:<12} {path}")?;
            match package {
                Some(package) => writeln!(out, " ({package})")?,
                None if line.source == Source::Compat => writeln!(out, " (for its toolkit alone)")?,
                None if !line.for_this_processor => writeln!(out, " (for another processor)")?,
                None => writeln!(out)?,
            }
        }
        match self.libraries.iter().filter(parts).count() {
            0 => {}
            count => writeln!(out, "  {:<14} {count} files; --json names them", "cuDNN's parts")?,
        }
        if self.libraries.is_empty() {
            writeln!(out, "  none")?;
        }
        Ok(())
    }

    fn write_opened(&self, out: &mut Output) -> Result<(), Failure> {
        writeln!(out, "opened in a process of its own, as engines for GPUs would")?;
        let driver = match &self.opened.driver {
            Answer::Opened(driver) => {
                let plural = if driver.num_gpus == 1 { "" } else { "s" };
                format!("CUDA {}, {} GPU{plural}", driver.cuda, driver.num_gpus)
            }
            Answer::Missing(reason) => reason.replace('\n', "\n  "),
        };
        writeln!(out, "  {:<14} {driver}", "driver")?;
        match &self.opened.nvrtc {
            Answer::Opened(nvrtc) => {
                writeln!(out, "  {:<14} {:<12} {}", "NVRTC", nvrtc.version, nvrtc.path)?;
                writeln!(out, "  {:<14} {}", "targets", nvrtc.targets.join(", "))?;
            }
            Answer::Missing(reason) => {
                writeln!(out, "  {:<14} {}", "NVRTC", reason.replace('\n', "\n  "))?;
            }
        }
        Ok(())
    }

    fn write_findings(&self, out: &mut Output) -> Result<(), Failure> {
        writeln!(out, "findings")?;
        for finding in &self.findings {
            let severity = match finding.severity() {
                Severity::Problem => out.paint(Tone::Bad, "problem"),
                Severity::Warning => out.paint(Tone::Bad, "warning"),
                Severity::Note => out.paint(Tone::Faint, "note"),
            };
            writeln!(out, "  {severity}  {finding}")?;
            writeln!(out, "    what to do: {}", finding.advice())?;
        }
        if self.findings.is_empty() {
            writeln!(out, "  none")?;
        }
        Ok(())
    }
}
