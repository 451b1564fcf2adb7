//! Graphs that are accepted, executed on the host with hostile device tensors.
//!
//! Lengths, prefixes, starts and page tables hold any int32. Whatever they say, the engine neither
//! fails nor writes a byte that is not a live row's, leaves its inputs alone, writes every byte that
//! it owes, reads nothing beyond the tensors into a result, and reports what was out of bounds. On one
//! thread a second execute gives the same bits.

mod contract;
mod live;
mod memory;
#[cfg(test)]
mod tests;
mod values;

use std::sync::{Arc, LazyLock};

use frazil::{
    Bindings, DType, Device, ErrorWord, Executable, Facts, Geometry, Graph, GraphBuilder, Role,
    SdpaFwdFacts, Stream, TensorId, WORKSPACE_ALIGN, Workspace, cpu,
};

use crate::Reached;
use crate::ask::ROUTER;
use crate::draft::{OpDraft, TensorDraft};
use crate::draw::{self, Scale};
use crate::recipe::Draft;
use crate::source::Source;
use live::Live;
use memory::Memory;

/// Most multiplications of an execute.
const MAX_WORK: u64 = 3_000_000;

/// The host on the calling thread alone, and on three.
static HOSTS: LazyLock<[Device; 2]> = LazyLock::new(|| [1, 3].map(cpu::host_with_threads));

/// A tensor of a call: what it is, where it lies and what it held before.
#[derive(Debug)]
struct Bound {
    id: TensorId,
    draft: TensorDraft,
    geometry: Geometry,
    memory: Memory,
}

/// A graph that an engine serves, and tensors to execute it on.
struct Trial {
    executable: Executable,
    tensors: Vec<Bound>,
    roles: Vec<(Role, TensorId)>,
    live: Live,
    /// Whether extents and strides are given anew.
    overridden: bool,
    on_one_thread: bool,
    /// Whether no number of the operation makes results other than finite.
    tame: bool,
}

/// The body of the target.
///
/// # Panics
///
/// When the engine, or anything before it, breaks a promise.
pub(crate) fn execute(input: &[u8]) -> Reached {
    let Some(mut trial) = Trial::of(input) else { return Reached::Declared };
    let word = trial.launch(0xFF);
    trial.judge(word);
    if trial.on_one_thread {
        let all = |tensors: &[Bound]| -> Vec<Vec<u8>> {
            tensors.iter().map(|bound| bound.memory.all().to_vec()).collect()
        };
        let first = all(&trial.tensors);
        trial.tensors.iter_mut().for_each(|bound| bound.memory.restore());
        assert_eq!(trial.launch(0x3C), word, "another error word the second time");
        assert!(all(&trial.tensors) == first, "a second execute gives other bits");
    }
    Reached::Executed
}

impl Trial {
    /// `None` where there is too much to compute.
    fn of(input: &[u8]) -> Option<Self> {
        let mut source = Source::new(input);
        let (recipe, rows) = draw::recipe(&mut source, Scale::Executed);
        let draft = recipe.draft(rows);
        let (graph, op) = declare(&draft, recipe.overridable);
        let facts = Arc::new(Facts::read(&graph).expect("one operation"));
        let Facts::SdpaFwd(sdpa) = facts.as_ref() else { panic!("facts of {}", facts.op_name()) };
        if work(sdpa) > MAX_WORK {
            return None;
        }
        let on_one_thread = !source.flag();
        let device = &HOSTS[usize::from(!on_one_thread)];
        let plans = ROUTER.plans(&facts, &Arc::new(device.target().clone())).expect("it is served");
        let executable = ROUTER.build_first(&plans, device).expect("a plan is built").executable;
        let overridden = recipe.overridable && source.flag();
        let run = match overridden {
            true => recipe.draft(draw::smaller(&mut source, &recipe, rows)),
            false => draft,
        };
        let tight = source.flag();
        let declared = run.tensors.into_iter().zip(graph.tensors());
        let mut tensors: Vec<Bound> = declared
            .map(|(draft, desc)| Bound::new(draft, (desc.id(), desc.align()), tight))
            .collect();
        let roles = op.ids();
        values::fill(&mut source, &mut tensors, &roles, sdpa);
        let live = Live::of(sdpa, &roles, &tensors);
        values::poison_dead_rows(&live, &mut tensors, &roles);
        let tame = values::are_tame(&op);
        Some(Self { executable, tensors, roles, live, overridden, on_one_thread, tame })
    }

    /// # Panics
    ///
    /// When an execute that gave this error word left behind what it must not.
    fn judge(&self, word: Option<ErrorWord>) {
        contract::check_word(&self.live, word);
        contract::check_memory(&self.live, &self.roles, &self.tensors);
        contract::check_results(&self.live, &self.roles, &self.tensors, self.tame);
    }

    /// One execute over a workspace that holds a byte repeated; gives the error word.
    fn launch(&mut self, garbage: u8) -> Option<ErrorWord> {
        let plan = self.executable.plan();
        let bytes = usize::try_from(plan.workspace_bytes()).expect("small");
        let align = u32::try_from(WORKSPACE_ALIGN).expect("small");
        let mut scratch = Memory::new(bytes, align, false);
        scratch.bytes_mut().fill(garbage);
        let mut bindings = Bindings::new();
        for Bound { id, draft, geometry, memory } in &mut self.tensors {
            let buffer = memory.buffer(draft.dtype);
            let bound = match self.overridden {
                true => bindings.bind_as(*id, buffer, *geometry),
                false => bindings.bind(*id, buffer),
            };
            bound.expect("few tensors");
        }
        let workspace = Workspace::new(scratch.buffer(DType::U8));
        self.executable
            .execute(&bindings, workspace, Stream::HOST)
            .unwrap_or_else(|why| panic!("a sound call is refused: {why}"));
        assert!(scratch.is_whole_outside(), "bytes written outside of the workspace");
        plan.error_word().map(|at| {
            let at = usize::try_from(at).expect("inside the workspace");
            let word = scratch.bytes()[at..at + 4].try_into().expect("four bytes");
            ErrorWord(u32::from_ne_bytes(word))
        })
    }
}

/// The graph of a draft, and its operation with ids.
fn declare(draft: &Draft, overridable: bool) -> (Graph, OpDraft) {
    let mut builder = GraphBuilder::new();
    let declared = draft.tensors.iter().map(|tensor| builder.tensor(tensor.spec()));
    let ids: Vec<TensorId> =
        declared.collect::<Result<_, _>>().unwrap_or_else(|why| panic!("a sound tensor: {why}"));
    let op = draft.op.map_ids(|TensorId(at)| ids[usize::try_from(at).expect("a position")]);
    builder.sdpa_fwd(op.op()).unwrap_or_else(|why| panic!("a sound graph: {why}\n{draft:?}"));
    if overridable {
        builder.overridable();
    }
    (builder.finish().expect("each tensor is used"), op)
}

fn work(sdpa: &SdpaFwdFacts) -> u64 {
    let shape = sdpa.shape();
    let pairs =
        shape.q.max_len.max(shape.q.rows).saturating_mul(shape.kv.max_len.max(shape.kv.rows));
    let columns = shape.head_dim_qk + shape.head_dim_v;
    pairs.saturating_mul(shape.batch * shape.num_q_heads * columns)
}

impl Bound {
    fn new(draft: TensorDraft, (id, align): (TensorId, u32), tight: bool) -> Self {
        let geometry = match &draft.strides {
            Some(strides) => Geometry::strided(&draft.extents, strides),
            None => Geometry::contiguous(&draft.extents),
        };
        let geometry = geometry.expect("no larger than declared");
        let bytes = usize::try_from(geometry.span() * draft.dtype.bytes()).expect("small");
        Self { id, draft, geometry, memory: Memory::new(bytes, align, tight) }
    }
}
