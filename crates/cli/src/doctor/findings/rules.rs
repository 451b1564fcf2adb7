//! From what lies where to what is amiss.

use std::path::PathBuf;

use frazil_cuda::find::{Found, Kind, Library, Numbers, Roots};

use super::super::driver::{CONTROL_NODES, KernelDriver};
use super::super::opened::{Answer, Opened};
use super::{Copy, Finding};

/// Parts that `libcudnn` of version 9 opens for attention.
const CUDNN_9_PARTS: [&str; 5] =
    ["graph", "ops", "heuristic", "engines_precompiled", "engines_runtime_compiled"];

/// Least driver for each major version of CUDA, from "CUDA Compatibility", table "CUDA Toolkit and
/// Minimum Required Driver Version for CUDA Minor Version Compatibility".
const LEAST_DRIVERS: [(u32, u32); 3] = [(11, 450), (12, 525), (13, 580)];

/// Everything amiss, the worst first.
pub(in super::super) fn findings(
    roots: &Roots,
    kernel: &KernelDriver,
    found: &Found,
    opened: &Opened,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    driver(kernel, found, &mut findings);
    driver_not_opened(found, opened, &mut findings);
    nvrtc(kernel, found, &mut findings);
    nvrtc_not_opened(roots, found, opened, &mut findings);
    for cudnn in found.of(Kind::Cudnn) {
        of_cudnn(cudnn, found, &mut findings);
    }
    for kind in [Kind::Driver, Kind::Cudnn, Kind::Nvrtc] {
        several(kind, found, &mut findings);
    }
    let folders = found.stubs.iter().cloned();
    findings.extend(folders.map(|folder| Finding::StubsOnLoaderPath { folder }));
    let broken = found.broken.iter().cloned();
    findings.extend(broken.map(|(path, why)| Finding::BrokenFile { path, why }));
    let unreadable = found.unreadable.iter().cloned();
    findings.extend(unreadable.map(|(path, error)| Finding::UnreadableFolder { path, error }));
    if !cfg!(target_os = "linux") {
        findings.push(Finding::OtherSystem);
    }
    if cfg!(debug_assertions) {
        findings.push(Finding::Unoptimised);
    }
    findings.sort_by_key(Finding::severity);
    findings
}

fn copy(library: &Library) -> Copy {
    (library.version.clone(), library.path.clone())
}

/// The two sides of the driver, and what lies between them.
fn driver(kernel: &KernelDriver, found: &Found, findings: &mut Vec<Finding>) {
    let is_container = kernel.is_container;
    let (is_loaded, has_node) = (kernel.is_loaded(), kernel.has_gpu_node());
    let library = found.drivers().next();
    let Some(library) = library else {
        findings.push(match (is_loaded, has_node) {
            (false, false) => Finding::NoGpu,
            (_, false) if is_container => {
                Finding::ContainerWithoutGpu { kernel: kernel.version.clone() }
            }
            _ => Finding::DriverLibraryMissing { is_container },
        });
        return;
    };
    if !is_loaded {
        findings.push(Finding::KernelDriverMissing { is_container });
        return;
    }
    let Some(version) = &kernel.version else { return };
    let mut missing: Vec<String> = CONTROL_NODES
        .into_iter()
        .filter(|node| !kernel.device_nodes.iter().any(|there| there == node))
        .map(str::to_owned)
        .collect();
    if !has_node {
        missing.insert(0, "nvidia0".into());
    }
    if !(missing.is_empty() || kernel.is_wsl) {
        findings.push(Finding::DeviceNodesMissing { missing });
    }
    if !library.version.may_be(version) {
        let (kernel, library) = (version.clone(), copy(library));
        findings.push(Finding::DriverVersionsDiffer { kernel, library });
    }
}

/// A library that lies where it should and says nothing amiss by that.
fn driver_not_opened(found: &Found, opened: &Opened, findings: &mut Vec<Finding>) {
    let is_explained = !findings.is_empty();
    if let (Answer::Missing(reason), Some(_)) = (&opened.driver, found.drivers().next())
        && !is_explained
    {
        findings.push(Finding::DriverNotOpened { reason: first_line(reason) });
    }
}

/// What `FRAZIL_NVRTC` names is the only one tried, whatever else is found, so that nothing else
/// explains it.
fn nvrtc_not_opened(roots: &Roots, found: &Found, opened: &Opened, findings: &mut Vec<Finding>) {
    let Answer::Missing(reason) = &opened.nvrtc else { return };
    let of_builtins = |finding: &Finding| matches!(finding, Finding::NvrtcBuiltinsMissing { .. });
    let is_unexplained =
        found.of(Kind::Nvrtc).next().is_some() && !findings.iter().any(of_builtins);
    if roots.named_nvrtc().is_some() || is_unexplained {
        findings.push(Finding::NvrtcNotOpened { reason: first_line(reason) });
    }
}

/// The rest is a list of every place or file, which stands where the report says what was opened.
fn first_line(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().to_owned()
}

fn nvrtc(kernel: &KernelDriver, found: &Found, findings: &mut Vec<Finding>) {
    let compilers: Vec<&Library> = found.of(Kind::Nvrtc).collect();
    if compilers.is_empty() && (kernel.is_loaded() || kernel.has_gpu_node()) {
        findings.push(Finding::NvrtcMissing);
    }
    for nvrtc in &compilers {
        let is_its_own = |builtins: &&Library| {
            (builtins.on_loader_path || builtins.folder() == nvrtc.folder())
                && builtins.version.may_be(&nvrtc.version)
        };
        if !found.of(Kind::NvrtcBuiltins).any(|builtins| is_its_own(&builtins)) {
            findings.push(Finding::NvrtcBuiltinsMissing { nvrtc: copy(nvrtc) });
        }
    }
    let of_library = || found.drivers().map(|library| library.version.clone()).next();
    let driver = kernel.version.clone().or_else(of_library);
    let Some((driver, number)) = driver.and_then(|driver| Some((driver.clone(), driver.major()?)))
    else {
        return;
    };
    let too_new = |nvrtc: &&Library| least_driver(&nvrtc.version).filter(|&least| least > number);
    if let Some(nvrtc) = compilers.first()
        && compilers.iter().all(|nvrtc| too_new(nvrtc).is_some())
        && let Some(least) = too_new(nvrtc)
    {
        findings.push(Finding::NvrtcNewerThanDriver { nvrtc: copy(nvrtc), driver, least });
    }
}

/// First number of the oldest driver that runs kernels of that CUDA; `None` where it is not known.
fn least_driver(cuda: &Numbers) -> Option<u32> {
    let major = cuda.major()?;
    LEAST_DRIVERS.into_iter().find(|&(cuda, _)| cuda == major).map(|(_, driver)| driver)
}

fn of_cudnn(cudnn: &Library, found: &Found, findings: &mut Vec<Finding>) {
    let is_part = |library: &&Library| matches!(library.kind, Kind::CudnnPart(_));
    let beside = |library: &&Library| library.folder() == cudnn.folder();
    let others: Vec<Copy> = found
        .libraries
        .iter()
        .filter(is_part)
        .filter(beside)
        .filter(|part| !part.version.may_be(&cudnn.version))
        .map(copy)
        .collect();
    if !others.is_empty() {
        findings.push(Finding::CudnnPartsDiffer { cudnn: copy(cudnn), parts: others });
    } else if cudnn.version.major() == Some(9) {
        // Its own folder comes first, then whatever the loader finds by name.
        let is_there = |part: &&str| {
            let mut parts = found.of(Kind::CudnnPart((*part).to_owned()));
            parts.any(|part| {
                (part.on_loader_path || beside(&part)) && part.version.major() == Some(9)
            })
        };
        let parts: Vec<&str> = CUDNN_9_PARTS.into_iter().filter(|part| !is_there(part)).collect();
        if !parts.is_empty() {
            findings.push(Finding::CudnnPartsMissing { cudnn: copy(cudnn), parts });
        }
    }
    // Which CUDA it was made for stands in the name of its package alone.
    let of_package = cudnn.package.as_ref().and_then(|(name, _)| name.rsplit_once("-cu"));
    let cuda = of_package.and_then(|(_, cuda)| cuda.parse().ok());
    let fits = |library: &Library| cuda.is_none() || library.version.major() == cuda;
    if !found.of(Kind::CublasLt).any(fits) {
        findings.push(Finding::CudnnWithoutCublasLt { cudnn: copy(cudnn), cuda });
    }
    if !found.of(Kind::Nvrtc).any(fits) {
        findings.push(Finding::CudnnWithoutNvrtc { cudnn: copy(cudnn) });
    }
}

/// Copies of one library that cannot be of one version.
fn several(kind: Kind, found: &Found, findings: &mut Vec<Finding>) {
    let libraries = found.of(kind.clone()).filter(|library| {
        // A toolkit's own driver is another version on purpose.
        kind != Kind::Driver || found.drivers().any(|driver| driver.path == library.path)
    });
    let copies: Vec<(Numbers, PathBuf)> = libraries.map(copy).collect();
    let differ = copies.iter().any(|(version, _)| !version.may_be(&copies[0].0));
    if differ {
        findings.push(Finding::SeveralVersions { kind, copies });
    }
}
