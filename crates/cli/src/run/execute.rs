//! From a plan to an answer.

use std::time::{Duration, Instant};

use frazil::{
    Bindings, Buffer, DType, Device, Error, Executable, PlanName, Router, Stream, Workspace,
};

use super::problem::Problem;
use crate::failure::Failure;
use crate::input::{Input, Rows, Side, Tensor, memory};

/// Largest workspace that is allocated. A header of a few bytes can make extents huge whose tensors
/// hold nothing, and workspaces grow with extents.
const MAX_WORKSPACE_BYTES: u64 = 4 << 30;

/// What an engine gave.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) plan: PlanName,
    pub(super) o: Tensor,
    pub(super) lse: Tensor,
    /// Best of all repeats.
    pub(super) time: Duration,
    /// Bits of the plan's error word.
    pub(super) error_word: u32,
}

/// Asks the router, builds the best plan on the device and runs it that many times.
pub(super) fn answer(
    router: &Router,
    device: &Device,
    input: &mut Input,
    problem: &Problem,
    repeat: u32,
) -> Result<Answer, Failure> {
    let target = std::sync::Arc::new(device.target().clone());
    let plans = router.plans(&problem.facts, &target).map_err(Error::from)?;
    let executable = router.build_first(&plans, device)?.executable;
    let plan = executable.plan();
    if plan.workspace_bytes() > MAX_WORKSPACE_BYTES {
        let what = format!(
            "plan {} takes a workspace of {} bytes, the limit is {MAX_WORKSPACE_BYTES}",
            plan.name(),
            plan.workspace_bytes()
        );
        return Err(Failure::in_file(&input.path, what));
    }
    let in_memory = |what: String| Failure::Fault(format!("{}: {what}", input.path.display()));
    let workspace_bytes = usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX);
    let mut workspace =
        memory(workspace_bytes).map_err(|what| in_memory(format!("the workspace {what}")))?;
    let mut o = Tensor::zeroed(problem.o.0, problem.o.1.clone())
        .map_err(|what| in_memory(format!("tensor `o` {what}")))?;
    let mut lse = Tensor::zeroed(DType::F32, problem.lse.clone())
        .map_err(|what| in_memory(format!("tensor `lse` {what}")))?;
    let mut time = Duration::MAX;
    for _ in 0..repeat {
        // All bits set is NaN in every float type, so what an engine leaves out is seen.
        for memory in [&mut workspace, &mut o.bytes, &mut lse.bytes] {
            memory.as_bytes_mut().fill(0xff);
        }
        let outputs = (&mut o, &mut lse);
        let workspace = Workspace::new(workspace.buffer());
        time = time.min(execute(&executable, problem, input, outputs, workspace)?);
    }
    let offset = plan.error_word().and_then(|offset| usize::try_from(offset).ok());
    let word = offset.and_then(|offset| workspace.as_bytes().get(offset..)?.first_chunk());
    let error_word = word.map_or(0, |word| u32::from_ne_bytes(*word));
    Ok(Answer { plan: plan.name(), o, lse, time, error_word })
}

fn execute(
    executable: &Executable,
    problem: &Problem,
    input: &mut Input,
    outputs: (&mut Tensor, &mut Tensor),
    workspace: Workspace<'_>,
) -> Result<Duration, Error> {
    let ids = problem.ids;
    let mut bindings = Bindings::new();
    let floats = [
        (ids.q, &mut input.q),
        (ids.k, &mut input.k),
        (ids.v, &mut input.v),
        (ids.o, outputs.0),
        (ids.lse, outputs.1),
    ];
    for (id, tensor) in floats {
        bindings.bind(id, tensor.bytes.buffer().with_dtype(tensor.dtype))?;
    }
    for (id, side) in [(ids.q_rows, &input.q_side), (ids.kv_rows, &input.kv_side)] {
        if let Some(id) = id {
            bindings.bind(id, Buffer::from_slice(entries(side)))?;
        }
    }
    let start = Instant::now();
    executable.execute(&bindings, workspace, Stream::HOST)?;
    Ok(start.elapsed())
}

/// What the length tensor of a side holds.
fn entries(side: &Side) -> &[i32] {
    match &side.rows {
        Rows::Dense => &[],
        Rows::Padded(entries) | Rows::Lengths(entries) | Rows::Prefix(entries) => entries,
    }
}
