//! Every config that engines offer for the named cases, compiled.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use frazil::cuda::compile::{gate, shared_kernels};
use frazil::cuda::nvrtc::{OLDEST_NVRTC, nvrtc};
use frazil::cuda::{Artifact, Artifacts, ImageKind, Resources, artifacts};
use frazil::target::fixtures;
use frazil::{Facts, Plan, Router, Target, Toolchain};
use frazil_conformance::case::CaseFile;
use frazil_conformance::declare::declare;
use rayon::prelude::*;

// Linked, it registers.
use frazil_engine_sm80 as _;

use crate::function::functions;
use crate::measure::measure;
use crate::nvdisasm::Nvdisasm;
use crate::table::Row;

/// Whose machine code is looked at: the oldest that the universal engine is for, and the one that we
/// measure on.
const TARGETS: [&str; 2] = ["sm80", "sm90"];

/// Cases whose kernels are looked at.
const CASES: &str = include_str!("../cases.toml");

/// A kernel, compiled.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its symbol.
    pub symbol: String,
    /// What is compiled in.
    pub config: String,
    /// What it is compiled for.
    pub target: String,
    /// Version of NVRTC, `13.5`.
    pub nvrtc: String,
    /// What the compiler says of it.
    pub resources: Resources,
    /// Its image.
    pub artifact: Arc<Artifact>,
}

impl Kernel {
    /// A kernel of an artifact.
    ///
    /// # Errors
    ///
    /// Where its log said nothing of registers.
    pub fn new(artifact: Arc<Artifact>, config: String, target: String) -> Result<Self, String> {
        let symbol = artifact.symbols.join(" ");
        let resources =
            artifact.resources.ok_or_else(|| format!("{symbol}: no word of its resources"))?;
        let nvrtc = format!("{}.{}", artifact.compiler.major, artifact.compiler.minor);
        Ok(Self { symbol, config, target, nvrtc, resources, artifact })
    }

    /// Its rows.
    ///
    /// # Errors
    ///
    /// Where it cannot be disassembled.
    pub fn rows(&self, nvdisasm: &Nvdisasm) -> Result<Vec<Row>, String> {
        let text = nvdisasm.disassemble_image(&self.artifact.image)?;
        let found = functions(&text);
        let function = found.iter().find(|function| function.name == self.symbol);
        let function = function.ok_or_else(|| format!("{}: not in its cubin", self.symbol))?;
        Ok(Row::of(self, &measure(function)))
    }
}

/// Every kernel of every case, once, in the order of targets and cases.
///
/// # Errors
///
/// Where NVRTC is missing or cannot compile one.
pub fn kernels() -> Result<Vec<Kernel>, String> {
    let store = artifacts().map_err(|error| error.to_string())?;
    let cases = CaseFile::parse(CASES).map_err(|error| format!("cases.toml: {error}"))?.cases;
    let facts = cases.iter().map(|case| declare(case).map(|declared| declared.facts));
    let facts: Vec<Arc<Facts>> =
        facts.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let mut kernels = Vec::new();
    let mut seen = BTreeSet::new();
    for name in TARGETS {
        let target = target(name)?;
        let arch = gate(&target, OLDEST_NVRTC).map_err(|declined| declined.to_string())?;
        for request in shared_kernels(arch, ImageKind::Cubin) {
            let artifact = store.get(&request).map_err(|error| error.to_string())?.artifact;
            seen.insert(artifact.key.to_string());
            kernels.push(Kernel::new(artifact, request.config.to_string(), arch.to_string())?);
        }
        let plans = plans(&facts, &Arc::new(target))?;
        let made: Vec<Vec<Kernel>> =
            plans.par_iter().map(|plan| of_plan(plan, store)).collect::<Result<_, _>>()?;
        for kernel in made.into_iter().flatten() {
            if seen.insert(kernel.artifact.key.to_string()) {
                kernels.push(kernel);
            }
        }
    }
    Ok(kernels)
}

fn of_plan(plan: &Plan, store: &Artifacts) -> Result<Vec<Kernel>, String> {
    let compiled = plan.compile().map_err(|error| format!("{}: {error}", plan.name()))?;
    let kernel = |one: frazil::Compiled| {
        let artifact = store.find(&one.key);
        let artifact = artifact.ok_or_else(|| format!("{}: not in the store", one.kernel))?;
        Kernel::new(artifact, plan.config().to_string(), one.target)
    };
    compiled.into_iter().map(kernel).collect()
}

/// The fixture, with the compiler of this computer.
fn target(name: &str) -> Result<Target, String> {
    let nvrtc = nvrtc().map_err(|error| error.to_string())?;
    let fixture = fixtures::by_name(name).ok_or_else(|| format!("no fixture {name}"))?;
    let toolchain = Toolchain { nvrtc: Some(nvrtc.props()), ..Toolchain::default() };
    Ok(Target { toolchain, ..fixture })
}

/// Every plan of every engine, each once.
fn plans(facts: &[Arc<Facts>], target: &Arc<Target>) -> Result<Vec<Plan>, String> {
    let router = Router::from_registrations().map_err(|error| error.to_string())?;
    let mut plans: Vec<Plan> = Vec::new();
    for facts in facts {
        // What no engine serves has no kernel.
        for plan in router.plans(facts, target).unwrap_or_default() {
            if plans.iter().all(|other| other.name() != plan.name()) {
                plans.push(plan);
            }
        }
    }
    Ok(plans)
}

impl Nvdisasm {
    /// The text of a cubin in memory.
    ///
    /// # Errors
    ///
    /// As for [`Nvdisasm::disassemble`].
    pub fn disassemble_image(&self, image: &[u8]) -> Result<String, String> {
        let fault = |error: std::io::Error| format!("a temporary file: {error}");
        let mut file = tempfile::NamedTempFile::new().map_err(fault)?;
        file.write_all(image).map_err(fault)?;
        self.disassemble(file.path())
    }
}
