//! One plan, one case, executed between guard zones.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use frazil_core::{
    Bindings, BuildError, Executable, Plan, Stream, Unsupported, WORKSPACE_ALIGN, Workspace,
};

use crate::case::Case;
use crate::compare::{Findings, compare};
use crate::data::Random;
use crate::expected::Reference;
use crate::image::{DEAD, GUARD, GUARD_BYTES, fill};
use crate::instance::Instance;
use crate::memory::{Block, DeviceMemory, Exposed, MemoryError};

/// How a trial ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The work was done; what it gave is judged.
    Done(Findings),
    /// A foreign planner refused at build.
    Declined(Unsupported),
    /// Something broke: an `Err`, a panic, the memory.
    Fault(String),
}

/// What a trial needs, the same for all plans.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) instance: &'a Instance,
    pub(crate) reference: &'a Reference,
    pub(crate) memory: &'a dyn DeviceMemory,
    /// Whether a second execute must give the same bits.
    pub(crate) twice: bool,
}

/// Why a trial ended early.
enum Stop {
    Declined(Unsupported),
    Fault(String),
}

impl From<MemoryError> for Stop {
    fn from(error: MemoryError) -> Self {
        Self::Fault(error.to_string())
    }
}

/// Which execute of a trial: they differ in what the workspace holds before.
#[derive(Clone, Copy, Debug)]
enum Pass {
    /// No number in any float type.
    First,
    /// Random bytes.
    Second,
}

/// What one execute left behind.
#[derive(PartialEq, Eq)]
struct After {
    images: Vec<Vec<u8>>,
    error_word: Option<u32>,
    /// Whether guard zones of the workspace were written.
    workspace_burst: bool,
}

impl Trial<'_> {
    /// Builds and executes a plan, panics included, and judges what it did.
    pub(crate) fn run(&self, plan: &Plan) -> Outcome {
        match catch_unwind(AssertUnwindSafe(|| self.try_run(plan))) {
            Ok(Ok(findings)) => Outcome::Done(findings),
            Ok(Err(Stop::Declined(why))) => Outcome::Declined(why),
            Ok(Err(Stop::Fault(why))) => Outcome::Fault(why),
            Err(panic) => Outcome::Fault(format!("panicked: {}", text_of(panic.as_ref()))),
        }
    }

    fn try_run(&self, plan: &Plan) -> Result<Findings, Stop> {
        let executable = plan.build(self.memory.device()).map_err(|error| match error {
            BuildError::Declined(why) => Stop::Declined(why),
            BuildError::Fault(fault) => Stop::Fault(fault.to_string()),
        })?;
        let mut first = self.execute(&executable, Pass::First)?;
        let again = if self.twice { Some(self.execute(&executable, Pass::Second)?) } else { None };
        let unlike = again.is_some_and(|again| again != first);
        let mut findings = compare(self.case, self.instance, self.reference, &mut first.images);
        let wrong = &mut findings.wrong;
        if first.workspace_burst {
            wrong.push("bytes written outside of the workspace".into());
        }
        let want = self.instance.live.error_word.0;
        match first.error_word {
            Some(found) if found != want => {
                wrong.push(format!("error word {found:#b}, want {want:#b}"));
            }
            None if self.steered() => {
                wrong.push("the plan has no error word, but device tensors steer it".into());
            }
            _ => {}
        }
        if unlike {
            wrong.push("a second execute gave other bits".into());
        }
        Ok(findings)
    }

    /// Whether a device tensor says which rows are live.
    fn steered(&self) -> bool {
        !(self.case.q.is_dense() && self.case.kv.is_dense())
    }

    /// One execute in memory of its own.
    fn execute(&self, executable: &Executable, pass: Pass) -> Result<After, Stop> {
        let memory = self.memory;
        let mut blocks = Vec::new();
        for image in &self.instance.images {
            let mut block = memory.alloc(image.bytes.len() as u64)?;
            block.upload(0, &image.bytes)?;
            blocks.push(block);
        }
        let workspace_bytes = executable.plan().workspace_bytes();
        let garbage = garbage(workspace_bytes, pass)?;
        let mut workspace = memory.alloc(garbage.len() as u64)?;
        workspace.upload(0, &garbage)?;
        self.launch(executable, &mut blocks, workspace.as_mut(), memory.stream())?;
        memory.sync()?;
        let mut images = Vec::new();
        for (block, image) in blocks.iter().zip(&self.instance.images) {
            let mut bytes = vec![0; image.bytes.len()];
            block.download(0, &mut bytes)?;
            images.push(bytes);
        }
        let mut scratch = vec![0; garbage.len()];
        workspace.download(0, &mut scratch)?;
        let body = GUARD_BYTES..scratch.len() - GUARD_BYTES;
        let workspace_burst = scratch[..body.start] != garbage[..body.start]
            || scratch[body.end..] != garbage[body.end..];
        let error_word = match executable.plan().error_word() {
            None => None,
            Some(offset) => {
                let at = body.start + usize::try_from(offset).unwrap_or(usize::MAX / 2);
                let word = scratch[..body.end].get(at..at + 4).ok_or_else(|| {
                    Stop::Fault(format!("the error word at {offset} is not in the workspace"))
                })?;
                Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            }
        };
        Ok(After { images, error_word, workspace_burst })
    }

    fn launch(
        &self,
        executable: &Executable,
        blocks: &mut [Box<dyn Block>],
        workspace: &mut dyn Block,
        stream: Stream,
    ) -> Result<(), Stop> {
        let device = self.memory.device().id();
        let guard = GUARD_BYTES as u64;
        let exposed: Vec<Exposed<'_>> =
            blocks.iter_mut().map(|block| Exposed::new(block.as_mut(), device)).collect();
        let mut bindings = Bindings::new();
        for placed in &self.instance.tensors {
            let tensor = &placed.tensor;
            let buffer = exposed[placed.image]
                .part(guard + tensor.offset_bytes, placed.span_bytes())
                .with_dtype(tensor.dtype);
            let bound = if tensor.overridden {
                bindings.bind_as(tensor.id, buffer, tensor.geometry)
            } else {
                bindings.bind(tensor.id, buffer)
            };
            bound.map_err(|error| Stop::Fault(error.to_string()))?;
        }
        let bytes = executable.plan().workspace_bytes();
        let workspace = Workspace::new(Exposed::new(workspace, device).part(guard, bytes));
        executable
            .execute(&bindings, workspace, stream)
            .map_err(|error| Stop::Fault(error.to_string()))
    }
}

const _: () = assert!((GUARD_BYTES as u64).is_multiple_of(WORKSPACE_ALIGN));

/// A workspace of garbage between guard zones.
fn garbage(bytes: u64, pass: Pass) -> Result<Vec<u8>, Stop> {
    let body = usize::try_from(bytes).ok().filter(|&bytes| bytes < usize::MAX / 4);
    let body = body.ok_or_else(|| Stop::Fault(format!("a workspace of {bytes} bytes")))?;
    let mut image = vec![0; body + 2 * GUARD_BYTES];
    fill(&mut image, GUARD);
    let scratch = &mut image[GUARD_BYTES..][..body];
    match pass {
        Pass::First => fill(scratch, DEAD),
        Pass::Second => {
            let mut random = Random::at(0, &[]);
            for chunk in scratch.chunks_mut(8) {
                chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
            }
        }
    }
    Ok(image)
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
