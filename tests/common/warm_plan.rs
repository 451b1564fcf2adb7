//! How long a plan takes in a process that finds its kernel on disk: from a graph to an executable.
//!
//! Before the clock starts, the driver, its context and NVRTC are opened; the compiler is one that
//! forbids compiling. The clock covers reading the graph, asking the engine, and building: the entry
//! of the cache read and checked, and its module loaded.

#[path = "here.rs"]
pub(crate) mod here;
#[path = "setup.rs"]
mod setup;

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frazil_conformance::cuda::SetupEngine;
use frazil_core::{Device, Executable, Facts, Graph};
use frazil_cuda::compile::Forbidden;
use frazil_cuda::nvrtc::Nvrtc;
use frazil_cuda::{Artifacts, CudaDevice, DiskCache};
use here::or_skip;
use setup::problems;

const MOST: Duration = Duration::from_millis(5);
/// Processes of which the fastest counts: what else the computer does only adds time.
const PROCESSES: usize = 5;
/// What the line of a process begins with that says its time, in microseconds.
const MARK: &str = "a warm plan took ";

/// What a test of this process is given: its device and its compiler.
type Found = Result<(Device, Arc<Nvrtc>), String>;

/// Fills a cache, then has the test `reexecuted::child` read it in processes of its own.
pub(crate) fn takes_less_than_five_milliseconds(open: fn() -> Result<Device, String>) {
    let (device, nvrtc) = or_skip!(found(open));
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskCache::at(folder.path());
    let artifacts = Arc::new(Artifacts::new(nvrtc, Some(disk)));
    drop(build(&graph(), &artifacts, &device));
    assert_eq!(artifacts.counts().compiled, 1);
    let times: Vec<Duration> = (0..PROCESSES).map(|_| child(folder.path())).collect();
    let line = format!("{MARK}{times:?} in {PROCESSES} processes\n");
    // Not by a macro: libtest keeps to itself what those print in a test that ends well.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    assert!(times.iter().any(|&took| took < MOST), "{line}");
}

/// The body of the test `reexecuted::child`.
pub(crate) fn in_this_process(open: fn() -> Result<Device, String>) {
    let (device, nvrtc) = found(open).unwrap();
    CudaDevice::of(&device).unwrap().context().unwrap();
    let disk = DiskCache::of_user().unwrap();
    let artifacts = Arc::new(Artifacts::new(Arc::new(Forbidden(nvrtc.build())), Some(disk)));
    let graph = graph();
    let begin = Instant::now();
    let executable = build(&graph, &artifacts, &device);
    let took = begin.elapsed();
    drop(executable);
    assert_eq!(artifacts.counts().disk, 1);
    let line = format!("\n{MARK}{} us\n", took.as_micros());
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn found(open: fn() -> Result<Device, String>) -> Found {
    Ok((open()?, here::nvrtc()?))
}

fn graph() -> Graph {
    problems()[0].graph().unwrap()
}

fn build(graph: &Graph, artifacts: &Arc<Artifacts>, device: &Device) -> Executable {
    let facts = Arc::new(Facts::read(graph).unwrap());
    let target = Arc::new(device.target().clone());
    let engine = Arc::new(SetupEngine::registered(Arc::clone(artifacts)));
    let plan = engine.ask(&facts, &target).unwrap().remove(0);
    plan.build(device).unwrap()
}

fn child(cache: &std::path::Path) -> Duration {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["reexecuted::child", "--exact", "--ignored", "--nocapture"]);
    let output = command.env("FRAZIL_CACHE", cache).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| line.strip_prefix(MARK)?.strip_suffix(" us"));
    let micros =
        said.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    Duration::from_micros(micros.parse().unwrap())
}
