//! Memory for the calls of one plan, with guard zones around every part of it.

use frazil_core::{
    Bindings, Buffer, DeviceHandle, DeviceId, Error, ErrorWord, Executable, Geometry, Plan, Stream,
    TensorId, Workspace,
};
use frazil_cuda::CudaDevice;
use frazil_cuda::tools::DeviceMemory;

use super::finding::{Blind, Finding, Stop, not_built};
use super::results::{Results, ResultsIn, first_difference};
use super::{Sample, Subject};
use crate::image::{GUARD, GUARD_BYTES, POISON, fill};

impl Subject<'_> {
    pub(super) fn cuda(&self) -> Result<&CudaDevice, Stop> {
        CudaDevice::of(self.device).map_err(|error| Blind::Failed(error.to_string()).into())
    }

    pub(super) fn build(&self, situation: &'static str) -> Result<Executable, Stop> {
        Ok((self.plan)().build(self.device).map_err(not_built(situation))?)
    }

    /// Memory for calls, with the inputs of a sample, outputs poisoned and a workspace of zeros.
    pub(super) fn job(&self, sample: usize) -> Result<Job, Stop> {
        let (plan, device) = ((self.plan)(), self.cuda()?);
        let mut tensors = Vec::new();
        for port in plan.facts().ports().iter() {
            let desc = port.desc();
            let (id, name) = (desc.id(), desc.name().to_owned());
            let overridden = self.overrides.iter().find(|(other, _)| *other == id);
            let overridden = overridden.map(|(_, geometry)| *geometry);
            let geometry = overridden.as_ref().unwrap_or(desc.geometry());
            let memory = Guarded::new(device, geometry.span() * desc.dtype().bytes())?;
            tensors.push(Tensor { id, name, is_output: port.is_output(), overridden, memory });
        }
        let mut workspace = Guarded::new(device, plan.workspace_bytes())?;
        workspace.fill([0; 2])?;
        let error_word = plan.error_word().map(host);
        let mut job = Job { tensors, workspace, regions: self.regions(&plan), error_word };
        job.write_inputs(&self.samples[sample])?;
        job.poison_outputs()?;
        Ok(job)
    }

    /// The regions that are results: name, offset and bytes.
    fn regions(&self, plan: &Plan) -> Vec<(&'static str, usize, usize)> {
        let is_result = self.results_in == ResultsIn::Workspace;
        let regions = plan.workspace().regions().filter(|_| is_result);
        regions.map(|(name, region)| (name, host(region.offset()), host(region.bytes()))).collect()
    }

    /// What the sample says of its results.
    pub(super) fn judge(
        &self,
        sample: usize,
        results: &Results,
        situation: &'static str,
    ) -> Result<(), Finding> {
        let judged = (self.samples[sample].judge)(results);
        judged.map_err(|message| Finding::Wrong { situation, message })
    }
}

/// Memory for the calls of one plan, one at a time.
pub(super) struct Job {
    tensors: Vec<Tensor>,
    workspace: Guarded,
    regions: Vec<(&'static str, usize, usize)>,
    /// Where it lies in the workspace.
    error_word: Option<usize>,
}

struct Tensor {
    id: TensorId,
    name: String,
    is_output: bool,
    overridden: Option<Geometry>,
    memory: Guarded,
}

/// What a call takes, made once for any number of calls one after another.
pub(super) struct Prepared<'a> {
    bindings: Bindings<'a>,
    workspace: &'a Guarded,
}

impl Prepared<'_> {
    /// Calls an executable. Nothing here allocates.
    pub(super) fn execute(&self, executable: &Executable, stream: Stream) -> Result<(), Error> {
        let workspace = Workspace::new(self.workspace.buffer());
        executable.execute(&self.bindings, workspace, stream)
    }
}

impl Job {
    pub(super) fn prepare(&mut self) -> Result<Prepared<'_>, Stop> {
        let mut bindings = Bindings::new();
        for Tensor { id, overridden, memory, .. } in &self.tensors {
            let bound = match *overridden {
                Some(geometry) => bindings.bind_as(*id, memory.buffer(), geometry),
                None => bindings.bind(*id, memory.buffer()),
            };
            bound.map_err(|error| Blind::Failed(error.to_string()))?;
        }
        Ok(Prepared { bindings, workspace: &self.workspace })
    }

    pub(super) fn write_inputs(&mut self, sample: &Sample<'_>) -> Result<(), Stop> {
        for tensor in self.tensors.iter_mut().filter(|tensor| !tensor.is_output) {
            let input = sample.inputs.iter().find(|(id, _)| *id == tensor.id);
            let bytes = input.map(|(_, bytes)| bytes);
            let bytes = bytes.filter(|bytes| bytes.len() == host(tensor.memory.body));
            let no_input =
                || Blind::Failed(format!("the sample lacks `{}`, or its size", tensor.name));
            tensor.memory.write(bytes.ok_or_else(no_input)?)?;
        }
        Ok(())
    }

    pub(super) fn poison_outputs(&mut self) -> Result<(), Stop> {
        let mut outputs = self.tensors.iter_mut().filter(|tensor| tensor.is_output);
        outputs.try_for_each(|tensor| tensor.memory.fill(POISON))
    }

    pub(super) fn fill_workspace(&mut self, pair: [u8; 2]) -> Result<(), Stop> {
        self.workspace.fill(pair)
    }

    pub(super) fn results(&self) -> Result<Results, Stop> {
        let outputs = self.tensors.iter().filter(|tensor| tensor.is_output);
        let outputs = outputs.map(|tensor| Ok((tensor.id, tensor.memory.body()?)));
        let outputs = outputs.collect::<Result<_, Stop>>()?;
        let workspace = self.workspace.body()?;
        let of = |&(name, at, bytes)| (name, workspace[at..at + bytes].to_vec());
        let regions = self.regions.iter().map(of).collect();
        let error_word = match self.error_word {
            Some(at) => {
                let word = workspace.get(at..).and_then(|rest| rest.first_chunk());
                let no_room = || Blind::Failed(format!("an error word at {at} of the workspace"));
                Some(ErrorWord(u32::from_le_bytes(*word.ok_or_else(no_room)?)))
            }
            None => None,
        };
        Ok(Results { outputs, regions, error_word })
    }

    /// Everything as it is now, guard zones included.
    pub(super) fn image(&self) -> Result<Vec<(String, Vec<u8>)>, Stop> {
        let tensors = self.tensors.iter().map(|tensor| (&*tensor.name, &tensor.memory));
        let all = tensors.chain([("workspace", &self.workspace)]);
        all.map(|(name, memory)| Ok((name.to_owned(), memory.whole()?))).collect()
    }

    /// What was written that a call of a sample must leave alone.
    pub(super) fn written(&self, sample: &Sample<'_>) -> Result<Vec<Finding>, Stop> {
        let mut guard = vec![0; GUARD_BYTES];
        fill(&mut guard, GUARD);
        let mut findings = Vec::new();
        let mut found = |memory: String, offset: i64| {
            findings.push(Finding::Written { memory, offset });
        };
        for (name, image) in self.image()? {
            let (front, rest) = image.split_at(GUARD_BYTES);
            let (body, back) = rest.split_at(rest.len() - GUARD_BYTES);
            if let Some(at) = first_difference(front, &guard) {
                found(format!("what lies before {name}"), signed(at) - signed(GUARD_BYTES));
            }
            if let Some(at) = first_difference(back, &guard) {
                found(format!("what lies behind {name}"), signed(body.len() + at));
            }
            let mut inputs = self.tensors.iter().filter(|tensor| !tensor.is_output);
            let tensor = inputs.find(|tensor| tensor.name == name);
            let input = tensor.and_then(|tensor| {
                sample.inputs.iter().find(|(id, _)| *id == tensor.id).map(|(_, bytes)| bytes)
            });
            if let Some(at) = input.and_then(|bytes| first_difference(body, bytes)) {
                found(format!("input {name}"), signed(at));
            }
        }
        Ok(findings)
    }
}

/// Memory between two guard zones.
struct Guarded {
    memory: DeviceMemory,
    device: DeviceId,
    body: u64,
}

impl Guarded {
    fn new(device: &CudaDevice, body: u64) -> Result<Self, Stop> {
        let mut image = vec![0; host(body) + 2 * GUARD_BYTES];
        fill(&mut image, GUARD);
        let memory = DeviceMemory::of(device, &image)?;
        Ok(Self { memory, device: device.id(), body })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        Ok(self.memory.write(GUARD_BYTES as u64, bytes)?)
    }

    fn fill(&mut self, pair: [u8; 2]) -> Result<(), Stop> {
        let mut bytes = vec![0; host(self.body)];
        fill(&mut bytes, pair);
        self.write(&bytes)
    }

    fn body(&self) -> Result<Vec<u8>, Stop> {
        Ok(self.memory.read(GUARD_BYTES as u64, host(self.body))?)
    }

    fn whole(&self) -> Result<Vec<u8>, Stop> {
        Ok(self.memory.read(0, host(self.memory.bytes()))?)
    }

    /// The body, to be written: whoever asks has borrowed the job as a whole.
    #[expect(unsafe_code, reason = "a part of a buffer is bound")]
    fn buffer(&self) -> Buffer<'_> {
        // SAFETY: the memory is this value's and has that many bytes behind its guard zone. Only the
        // calls of one `Prepared` use it, which borrows the job, and they come one after another:
        // what is written, read and freed here comes after all work that is queued.
        unsafe { Buffer::from_raw(self.memory.addr() + GUARD_BYTES as u64, self.body, self.device) }
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Sizes that memory of the host is made of here.
fn host(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX / 4)
}
