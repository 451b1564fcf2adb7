//! `frazil warm`: compiles kernels ahead, for a GPU that need not be here.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use frazil::target::fixtures;
use frazil::{BuildError, Compiled, DeviceProps, Facts, Launches, Plan, Router, Target, Toolchain};
use frazil_conformance::declare::declare;
use frazil_cuda::compile::{Arch, Request, gate, shared_kernels};
use frazil_cuda::nvrtc::{OLDEST_NVRTC, nvrtc};
use frazil_cuda::{Artifacts, ImageKind, artifacts, device};
use serde::Serialize;

use crate::args;
use crate::cases;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Tone, one_line};
use crate::select;

/// One kernel, as one JSON object.
#[derive(Serialize)]
struct Line<'a> {
    kernel: &'a str,
    target: &'a str,
    key: &'a str,
    /// `compiled`, `disk` or `memory`.
    origin: String,
    ms: f64,
    image_bytes: u64,
    registers: Option<u32>,
    /// Bytes that a thread stores to and loads from local memory for want of registers.
    spill_bytes: Option<u32>,
}

/// One kernel that would be made.
#[derive(Serialize)]
struct Listed<'a> {
    kernel: &'a str,
    target: &'a str,
}

/// The last JSON object.
#[derive(Default, Serialize)]
struct Totals {
    kernels: usize,
    compiled: usize,
    /// Kernels that were made and are not in the cache.
    not_kept: u64,
    /// Cases that no engine serves on the target.
    declined: usize,
    /// Folder of the cache, where there is one.
    folder: Option<String>,
}

pub(crate) fn warm(args: &args::Warm, out: &mut Output) -> Result<Outcome, Failure> {
    let target = Arc::new(target(&args.target, args.list)?);
    let arch = if args.list { Arch::of(&target) } else { gate(&target, OLDEST_NVRTC) };
    let arch = arch.map_err(|declined| Failure::Declined(declined.to_string()))?;
    let shared = shared_kernels(arch, ImageKind::Cubin);
    let router = select::router(None)?;
    let (plans, declined) = plans(args, &router, &target)?;
    if args.list {
        list(&shared, &plans, arch, out)?;
    } else {
        let store = artifacts().map_err(|error| Failure::Declined(error.to_string()))?;
        let folder = store.disk().map(|disk| disk.folder().to_string_lossy().into_owned());
        let mut totals = Totals { declined, folder, ..Totals::default() };
        make(&shared, &plans, store, &mut totals, out)?;
        let counts = store.counts();
        totals.not_kept = if totals.folder.is_none() { counts.compiled } else { counts.not_kept };
        write_totals(&totals, out)?;
        if totals.not_kept > 0 {
            let what =
                "kernels were made and could not be kept, so the next process makes them anew";
            return Err(Failure::Fault(what.into()));
        }
    }
    Ok(if declined > 0 { Outcome::Declined } else { Outcome::Right })
}

/// The first GPU of this computer, or the stand-in of that name with the compiler of this computer.
fn target(name: &str, is_list: bool) -> Result<Target, Failure> {
    let gpus = || fixtures::ALL.iter().filter(|(_, make)| !is_host(&make())).map(|(name, _)| *name);
    let known = || gpus().collect::<Vec<_>>().join(", ");
    if name == "this" {
        let gpu = device(0).map_err(|error| {
            let known = known();
            Failure::Declined(format!("{error}\nfor a GPU elsewhere: --target {known}"))
        })?;
        return Ok(gpu.target().clone());
    }
    let Some(target) = gpus().find(|known| *known == name).and_then(fixtures::by_name) else {
        return Err(Failure::Input(format!("no GPU `{name}`; there are: this, {}", known())));
    };
    if is_list {
        return Ok(target);
    }
    let nvrtc = nvrtc().map_err(|error| Failure::Declined(error.to_string()))?;
    // The driver of a computer that is not here is not known.
    let toolchain = Toolchain { nvrtc: Some(nvrtc.props()), ..Toolchain::default() };
    Ok(Target { toolchain, ..target })
}

fn is_host(target: &Target) -> bool {
    matches!(target.device, DeviceProps::Host(_))
}

/// The best plan of every case, or all of them; and how many cases have none.
fn plans(
    args: &args::Warm,
    router: &Router,
    target: &Arc<Target>,
) -> Result<(Vec<Plan>, usize), Failure> {
    let (mut plans, mut declined) = (Vec::new(), 0);
    // Runs and cases that differ in values alone ask the same question.
    let mut asked: Vec<Arc<Facts>> = Vec::new();
    for source in &args.sources {
        for case in cases::read(source, router)?.iter().flat_map(|entry| &entry.runs) {
            let declared = declare(case);
            let invalid = |error| Failure::Input(format!("case `{}`: {error}", case.name));
            let facts = declared.map_err(invalid)?.facts;
            if asked.contains(&facts) {
                continue;
            }
            match router.plans(&facts, target) {
                Ok(all) => {
                    plans.extend(all.into_iter().take(if args.all { usize::MAX } else { 1 }))
                }
                Err(_) => declined += 1,
            }
            asked.push(facts);
        }
    }
    Ok((plans, declined))
}

fn list(shared: &[Request], plans: &[Plan], arch: Arch, out: &mut Output) -> Result<(), Failure> {
    let target = arch.to_string();
    let own = plans.iter().flat_map(|plan| match plan.launches() {
        Launches::Own(names) | Launches::Foreign { setup: names } => names.as_slice(),
        _ => &[],
    });
    let kernels: BTreeSet<&str> =
        shared.iter().map(|request| &*request.symbol).chain(own.map(|name| &**name)).collect();
    for kernel in kernels {
        if out.json {
            out.object(&Listed { kernel, target: &target })?;
        } else {
            writeln!(out, "{kernel}  {target}")?;
        }
    }
    Ok(())
}

/// Makes every kernel, and writes each once.
fn make(
    shared: &[Request],
    plans: &[Plan],
    store: &Artifacts,
    totals: &mut Totals,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut written = BTreeSet::new();
    let mut write = |compiled: &[Compiled], out: &mut Output| -> Result<(), Failure> {
        for kernel in compiled {
            if written.insert(kernel.key.clone()) {
                totals.kernels += 1;
                totals.compiled += usize::from(kernel.origin == frazil::Origin::Compiled);
                write_line(kernel, out)?;
            }
        }
        Ok(())
    };
    for request in shared {
        let compiled = store.get(request)?.compiled(request);
        write(&[compiled], out)?;
    }
    for plan in plans {
        let compiled = plan.compile().map_err(|error| match error {
            BuildError::Declined(declined) => Failure::Declined(declined.to_string()),
            BuildError::Fault(fault) => fault.into(),
        })?;
        write(&compiled, out)?;
    }
    Ok(())
}

fn write_line(kernel: &Compiled, out: &mut Output) -> Result<(), Failure> {
    let resources = kernel.resources;
    let spill_bytes = resources.map(|used| used.spill_store_bytes + used.spill_load_bytes);
    let line = Line {
        kernel: &kernel.kernel,
        target: &kernel.target,
        key: &kernel.key,
        origin: kernel.origin.to_string(),
        ms: kernel.took.as_secs_f64() * 1e3,
        image_bytes: kernel.image_bytes,
        registers: resources.map(|used| used.registers),
        spill_bytes,
    };
    if out.json {
        return out.object(&line);
    }
    let Line { kernel, target, origin, ms, .. } = &line;
    write!(out, "{kernel}  {target}  {origin:<8} {ms:>8.1} ms")?;
    if let Some(resources) = resources {
        write!(out, "  {:>3} registers", resources.registers)?;
    }
    match spill_bytes {
        Some(0) | None => writeln!(out)?,
        Some(bytes) => {
            let spilled = out.paint(Tone::Bad, format!("{bytes} bytes spilled"));
            writeln!(out, "  {spilled}")?;
        }
    }
    Ok(())
}

fn write_totals(totals: &Totals, out: &mut Output) -> Result<(), Failure> {
    if out.json {
        return out.object(totals);
    }
    let Totals { kernels, compiled, not_kept, declined, folder } = totals;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    write!(out, "{kernels} kernel{}, {compiled} of them compiled now", plural(*kernels))?;
    match folder {
        _ if *not_kept > 0 => write!(out, "; {not_kept} could not be kept")?,
        Some(folder) => write!(out, "; kept in {}", one_line(folder))?,
        None => {}
    }
    if *declined > 0 {
        write!(out, "; {declined} case{} that no engine serves there", plural(*declined))?;
    }
    writeln!(out)?;
    Ok(())
}
