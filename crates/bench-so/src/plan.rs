//! A case, asked about and built.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use frazil::{
    Bindings, Buffer, Device, DeviceId, EngineId, Error, Executable, Launches, Plan,
    RegisteredEngine, Router, Stream, Workspace, cpu, cuda,
};
use frazil_conformance::case::{Case, CaseFile};
use frazil_conformance::declare::{Declared, DeclaredTensor, declare};
use frazil_conformance::run::short_name;
// Linked, it registers.
use frazil_engine_sm80 as _;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{BenchCall, BenchMemory};

/// A plan that is ready to run.
#[derive(Debug)]
pub struct BenchPlan {
    executable: Executable,
    tensors: Vec<DeclaredTensor>,
    description: CString,
}

impl BenchPlan {
    pub(crate) fn new(
        case: &str,
        engine: Option<&str>,
        device: &str,
        position: u32,
    ) -> Result<Self, Failure> {
        let case = read_case(case)?;
        let Declared { facts, tensors, .. } =
            declare(&case).map_err(|error| Failure::Misuse(error.to_string()))?;
        let device = open_device(device)?;
        let router = router(engine)?;
        let plans = router.plans(&facts, &Arc::new(device.target().clone()));
        let plans = plans.map_err(|error| Failure::Declined(error.to_string()))?;
        let at = usize::try_from(position).unwrap_or(usize::MAX);
        let Some(plan) = plans.get(at) else {
            let what = format!("no plan {position}: there are {}, from 0", plans.len());
            // How many there are is the engine's answer to this graph.
            return Err(Failure::Declined(what));
        };
        let built = router.build_first(std::slice::from_ref(plan), &device);
        let executable = built.map_err(failure)?.executable;
        let description = describe(executable.plan(), &device, &tensors).to_string();
        let description = CString::new(description)
            .map_err(|error| Failure::Fault(format!("a description: {error}")))?;
        Ok(Self { executable, tensors, description })
    }

    pub(crate) fn description(&self) -> &CStr {
        &self.description
    }

    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.executable.plan().workspace_bytes()
    }

    /// # Safety
    ///
    /// As `frazil_bench_execute`, for memory and stream.
    pub(crate) unsafe fn execute(
        &self,
        memory: &[BenchMemory],
        call: &BenchCall,
    ) -> Result<(), Failure> {
        if memory.len() != self.tensors.len() {
            let (found, need) = (memory.len(), self.tensors.len());
            return Err(Failure::Misuse(format!("{found} tensors, the plan has {need}")));
        }
        let device = self.executable.device().id();
        // SAFETY: the caller's promise.
        let buffer = |at: &BenchMemory| unsafe { Buffer::from_raw(at.addr, at.bytes, device) };
        let stream = match device {
            DeviceId::Host => Stream::HOST,
            // SAFETY: the caller's promise.
            _ => unsafe { Stream::from_raw(call.stream) },
        };
        let mut bindings = Bindings::new();
        for (tensor, at) in self.tensors.iter().zip(memory) {
            let bound = match tensor.overridden {
                true => bindings.bind_as(tensor.id, buffer(at), tensor.geometry),
                false => bindings.bind(tensor.id, buffer(at)),
            };
            bound.map_err(|error| Failure::Misuse(error.to_string()))?;
        }
        for _ in 0..call.repeats {
            let workspace = Workspace::new(buffer(&call.workspace));
            self.executable.execute(&bindings, workspace, stream).map_err(failure)?;
        }
        Ok(())
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Binding(_) | Error::Workspace(_) => Failure::Misuse(error.to_string()),
        Error::NoEngine(_) => Failure::Declined(error.to_string()),
        _ => Failure::Fault(error.to_string()),
    }
}

fn read_case(text: &str) -> Result<Case, Failure> {
    let file =
        CaseFile::parse_lines(text).map_err(|error| Failure::Misuse(format!("case: {error}")))?;
    let count = file.cases.len();
    match <[Case; 1]>::try_from(file.cases) {
        Ok([case]) => Ok(case),
        Err(_) => Err(Failure::Misuse(format!("{count} cases, one is needed"))),
    }
}

fn open_device(name: &str) -> Result<Device, Failure> {
    if name == "host" {
        return Ok(cpu::host());
    }
    let ordinal = name.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
    let ordinal = ordinal.ok_or_else(|| {
        Failure::Misuse(format!("no device is called `{name}`; there are: host, cuda:N"))
    })?;
    cuda::device(ordinal).map_err(|error| Failure::Fault(error.to_string()))
}

/// Over all engines, or over the one of that name, whole or after the operation.
fn router(engine: Option<&str>) -> Result<Router, Failure> {
    let router = Router::from_registrations().map_err(|error| Failure::Fault(error.to_string()))?;
    let Some(name) = engine else { return Ok(router) };
    let is_meant = |id: &&EngineId| id.as_str() == name || short_name(id) == name;
    let ids = router.engines().map(RegisteredEngine::id);
    let chosen: Vec<EngineId> = ids.filter(is_meant).cloned().collect();
    if chosen.is_empty() {
        let known: Vec<&str> = router.engines().map(|engine| engine.id().as_str()).collect();
        let known = known.join(", ");
        return Err(Failure::Misuse(format!("no engine is called `{name}`; there are: {known}")));
    }
    Ok(router.only(chosen))
}

fn describe(plan: &Plan, device: &Device, tensors: &[DeclaredTensor]) -> Value {
    let (names, is_foreign) = match plan.launches() {
        Launches::Own(names) => (names.as_slice(), false),
        Launches::Foreign { setup } => (setup.as_slice(), true),
        _ => (&[][..], true),
    };
    json!({
        "versions": concat!("frazil ", env!("CARGO_PKG_VERSION")),
        "plan": plan.name().to_string(),
        "engine": plan.engine().as_str(),
        "maturity": plan.maturity().to_string(),
        "device": device.id().to_string(),
        "target": device.target().device.to_string(),
        "workspace_bytes": plan.workspace_bytes(),
        "error_word": plan.error_word(),
        "launches": names,
        // What a foreign library adds is known when it has run.
        "launches_more": is_foreign,
        "tensors": tensors.iter().map(describe_tensor).collect::<Vec<_>>(),
    })
}

fn describe_tensor(tensor: &DeclaredTensor) -> Value {
    json!({
        "role": tensor.role.name(),
        "dtype": tensor.dtype.to_string(),
        "extents": tensor.geometry.extents(),
        "strides": tensor.geometry.strides(),
        "bytes": tensor.geometry.span() * tensor.dtype.bytes(),
        "output": tensor.role.is_output(),
    })
}
