//! One plan, one case, executed between guard zones.

use std::panic::{AssertUnwindSafe, catch_unwind};

use frazil_core::{
    BindingError, Bindings, BuildError, Error, ErrorWord, Executable, Plan, Unsupported,
    WORKSPACE_ALIGN, Workspace,
};

use crate::case::Case;
use crate::compare::{Findings, compare};
use crate::data::Random;
use crate::expected::Reference;
use crate::image::{DEAD, GUARD, GUARD_BYTES, fill};
use crate::instance::Instance;
use crate::live::word_names;
use crate::memory::{Block, DeviceMemory, Exposed, MemoryError};
use crate::run::panic_text;

/// How a trial ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The work was done; what it gave is judged.
    Done(Findings),
    /// A foreign planner refused at build.
    Declined(Unsupported),
    /// Core refused the call, before the engine heard of it: the case contradicts itself in what it
    /// binds.
    Invalid(BindingError),
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
    Invalid(BindingError),
    Fault(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            // What strides a plan takes is its engine's doing, and overrides were asked for.
            Error::Binding(
                why
                @ (BindingError::OverrideStride { .. } | BindingError::OverridesNotTaken { .. }),
            ) => Self::Fault(why.to_string()),
            Error::Binding(why) => Self::Invalid(why),
            fault => Self::Fault(fault.to_string()),
        }
    }
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

/// Memory for the buffers of a case, and copies of what came back. Used by all its trials, since
/// fresh memory costs more than the small cases do.
#[derive(Debug)]
pub(crate) struct Stage {
    blocks: Vec<Box<dyn Block>>,
    images: Vec<Vec<u8>>,
}

impl Stage {
    pub(crate) fn new(instance: &Instance, memory: &dyn DeviceMemory) -> Result<Self, MemoryError> {
        let images = &instance.images;
        let blocks = images.iter().map(|image| memory.alloc(image.bytes.len() as u64));
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            images: images.iter().map(|image| vec![0; image.bytes.len()]).collect(),
        })
    }

    /// Puts every buffer in the state before an execute.
    fn reset(&mut self, instance: &Instance) -> Result<(), MemoryError> {
        let mut blocks = self.blocks.iter_mut().zip(&instance.images);
        blocks.try_for_each(|(block, image)| block.upload(0, &image.bytes))
    }

    /// Copies every buffer back.
    fn fetch(&mut self) -> Result<(), MemoryError> {
        let mut blocks = self.blocks.iter().zip(&mut self.images);
        blocks.try_for_each(|(block, image)| block.download(0, image))
    }

    /// Whether the buffers hold what was fetched before.
    fn is_as_fetched(&self) -> Result<bool, MemoryError> {
        const PIECE: usize = 1 << 20;
        let mut piece = vec![0; PIECE];
        for (block, image) in self.blocks.iter().zip(&self.images) {
            for (at, before) in image.chunks(PIECE).enumerate() {
                let now = &mut piece[..before.len()];
                block.download((at * PIECE) as u64, now)?;
                if now != before {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// What one execute left in the workspace.
#[derive(PartialEq, Eq)]
struct After {
    error_word: Option<u32>,
    /// Whether guard zones of the workspace were written.
    workspace_burst: bool,
}

impl Trial<'_> {
    /// Builds and executes a plan, panics included, and judges what it did.
    pub(crate) fn run(&self, plan: &Plan, stage: &mut Stage) -> Outcome {
        match catch_unwind(AssertUnwindSafe(|| self.try_run(plan, stage))) {
            Ok(Ok(findings)) => Outcome::Done(findings),
            Ok(Err(Stop::Declined(why))) => Outcome::Declined(why),
            Ok(Err(Stop::Invalid(why))) => Outcome::Invalid(why),
            Ok(Err(Stop::Fault(why))) => Outcome::Fault(why),
            Err(panic) => Outcome::Fault(format!("panicked: {}", panic_text(panic.as_ref()))),
        }
    }

    fn try_run(&self, plan: &Plan, stage: &mut Stage) -> Result<Findings, Stop> {
        let executable = plan.build(self.memory.device()).map_err(|error| match error {
            BuildError::Declined(why) => Stop::Declined(why),
            BuildError::Fault(fault) => Stop::Fault(fault.to_string()),
        })?;
        let first = self.execute(&executable, stage, Pass::First)?;
        stage.fetch()?;
        let stable = !self.twice
            || self.execute(&executable, stage, Pass::Second)? == first && stage.is_as_fetched()?;
        let mut findings = compare(self.case, self.instance, self.reference, &mut stage.images);
        let wrong = &mut findings.wrong;
        if first.workspace_burst {
            wrong.push("bytes written outside of the workspace".into());
        }
        let want = self.instance.live.error_word;
        match first.error_word {
            Some(found) if found != want.0 => {
                let (found, want) = (word_names(ErrorWord(found)), word_names(want));
                wrong.push(format!("error word says {found}, want {want}"));
            }
            None if self.steered() => {
                wrong.push("the plan has no error word, but device tensors steer it".into());
            }
            _ => {}
        }
        if !stable {
            wrong.push("a second execute gave other bits".into());
        }
        Ok(findings)
    }

    /// Whether a device tensor says which rows are live.
    fn steered(&self) -> bool {
        !(self.case.q.is_dense() && self.case.kv.is_dense())
    }

    /// One execute, from fresh buffers.
    fn execute(
        &self,
        executable: &Executable,
        stage: &mut Stage,
        pass: Pass,
    ) -> Result<After, Stop> {
        stage.reset(self.instance)?;
        let garbage = garbage(executable.plan().workspace_bytes(), pass)?;
        let mut workspace = self.memory.alloc(garbage.len() as u64)?;
        workspace.upload(0, &garbage)?;
        self.launch(executable, &mut stage.blocks, workspace.as_mut())?;
        self.memory.sync()?;
        let end = garbage.len() - GUARD_BYTES;
        let mut guard = [0; GUARD_BYTES];
        let mut workspace_burst = false;
        for at in [0, end] {
            workspace.download(at as u64, &mut guard)?;
            workspace_burst |= guard != garbage[at..][..GUARD_BYTES];
        }
        let mut word = [0; 4];
        let error_word = match executable.plan().error_word() {
            None => None,
            Some(offset) if offset.saturating_add(4) > (end - GUARD_BYTES) as u64 => {
                let text = format!("the error word at {offset} is not in the workspace");
                return Err(Stop::Fault(text));
            }
            Some(offset) => {
                workspace.download(GUARD_BYTES as u64 + offset, &mut word)?;
                Some(u32::from_le_bytes(word))
            }
        };
        Ok(After { error_word, workspace_burst })
    }

    fn launch(
        &self,
        executable: &Executable,
        blocks: &mut [Box<dyn Block>],
        workspace: &mut dyn Block,
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
        Ok(executable.execute(&bindings, workspace, self.memory.stream())?)
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
