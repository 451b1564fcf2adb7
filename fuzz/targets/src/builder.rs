//! Any calls of a graph builder.
//!
//! Most inputs begin as a graph that means something and are then spoiled in a few places, so that
//! every check is reached. Whatever the calls, the builder gives a graph that holds exactly what was
//! accepted, or a refusal that names what is wrong; facts say what was declared; every engine
//! answers on every target.

use std::sync::Arc;

use frazil::{DType, Facts, Geometry, Graph, GraphBuilder, InvalidGraph, TensorDesc, TensorId};

use crate::Reached;
use crate::ask::ask_everywhere;
use crate::draft::{OpDraft, TensorDraft};
use crate::draw::{self, Scale};
use crate::read_back;
use crate::source::Source;
use crate::spoil;

/// A call of a graph builder. Operations name tensors by the position of their call.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Tensor(TensorDraft),
    Op(Box<OpDraft>),
    Overridable,
}

/// What the builder must hold, by its answers.
#[derive(Default)]
struct Accepted {
    tensors: Vec<(TensorId, TensorDraft)>,
    ops: Vec<OpDraft>,
    overridable: bool,
}

/// The body of the target.
///
/// # Panics
///
/// When the builder, the facts or an engine break a promise.
pub(crate) fn builder(input: &[u8]) -> Reached {
    let mut source = Source::new(input);
    let num_spoils = source.pick(&[0, 0, 1, 1, 2, 8]);
    let (recipe, rows) = draw::recipe(&mut source, Scale::Declared);
    let draft = recipe.draft(rows);
    let mut calls: Vec<Call> = draft.tensors.into_iter().map(Call::Tensor).collect();
    calls.push(Call::Op(Box::new(draft.op)));
    if recipe.overridable {
        calls.push(Call::Overridable);
    }
    for _ in 0..num_spoils {
        spoil::spoil(&mut source, &mut calls);
    }
    let (builder, accepted) = make(&calls);
    let graph = match builder.finish() {
        Ok(graph) => graph,
        Err(why) => {
            check_unfinished(&why, &accepted);
            return Reached::Refused;
        }
    };
    check_graph(&graph, &accepted);
    let facts = match Facts::read(&graph) {
        Ok(facts) => facts,
        Err(why) => {
            let count = accepted.ops.len();
            assert_eq!(why, InvalidGraph::TooManyOperations { count });
            assert!(count > 1, "one operation is never too many");
            return Reached::Refused;
        }
    };
    assert_eq!(accepted.ops.len(), 1, "facts of {} operations", accepted.ops.len());
    read_back::check_facts(&facts, &accepted.ops[0], &graph);
    assert_eq!(Facts::read(&graph).as_ref(), Ok(&facts), "facts differ when read again");
    match ask_everywhere(&Arc::new(facts)) {
        true => Reached::Served,
        false => Reached::Declared,
    }
}

/// Makes the calls, and notes what was accepted.
fn make(calls: &[Call]) -> (GraphBuilder, Accepted) {
    let mut builder = GraphBuilder::new();
    let mut accepted = Accepted::default();
    // Ids by the position of the call; a tensor that was refused has one that nobody has.
    let mut ids: Vec<TensorId> = Vec::new();
    for call in calls {
        let mut id = TensorId(i64::MIN + i64::try_from(ids.len()).unwrap_or(0));
        match call {
            Call::Tensor(draft) => match builder.tensor(draft.spec()) {
                Ok(given) => {
                    assert!(draft.id.is_none_or(|asked| asked == given.0), "another id");
                    accepted.tensors.push((given, draft.clone()));
                    id = given;
                }
                Err(why) => check_names_tensor(&why, draft),
            },
            Call::Op(draft) => {
                let at = |TensorId(at)| usize::try_from(at).ok().and_then(|at| ids.get(at));
                let draft = draft.map_ids(|id| at(id).copied().unwrap_or(id));
                match builder.sdpa_fwd(draft.op()) {
                    Ok(()) => accepted.ops.push(draft),
                    Err(why) => {
                        let text = why.to_string();
                        assert!(text.starts_with("sdpa_fwd: "), "names no operation: {text}");
                    }
                }
            }
            Call::Overridable => {
                builder.overridable();
                accepted.overridable = true;
            }
        }
        ids.push(id);
    }
    (builder, accepted)
}

fn check_names_tensor(why: &InvalidGraph, draft: &TensorDraft) {
    let text = why.to_string();
    assert!(text.starts_with(&format!("tensor `{}`: ", draft.name)), "names no tensor: {text}");
}

fn check_unfinished(why: &InvalidGraph, accepted: &Accepted) {
    match why {
        InvalidGraph::NoOperation => assert!(accepted.ops.is_empty(), "there is an operation"),
        InvalidGraph::UnusedTensor { tensor } => {
            let used: Vec<_> = accepted.ops.iter().flat_map(OpDraft::ids).collect();
            let is_unused = |(id, draft): &(TensorId, TensorDraft)| {
                draft.name == *tensor && used.iter().all(|(_, used)| used != id)
            };
            assert!(accepted.tensors.iter().any(is_unused), "`{tensor}` is used");
        }
        other => panic!("no reason to refuse a graph whose calls were accepted: {other}"),
    }
}

/// The graph holds what was accepted, in order, and nothing else.
fn check_graph(graph: &Graph, accepted: &Accepted) {
    assert_eq!(graph.tensors().len(), accepted.tensors.len());
    for (desc, (id, draft)) in graph.tensors().iter().zip(&accepted.tensors) {
        check_tensor(desc, *id, draft);
    }
    assert_eq!(graph.nodes().len(), accepted.ops.len());
    assert_eq!(graph.is_overridable(), accepted.overridable);
    let used: Vec<_> = accepted.ops.iter().flat_map(OpDraft::ids).collect();
    for (id, draft) in &accepted.tensors {
        assert!(used.iter().any(|(_, used)| used == id), "`{}` is used by nothing", draft.name);
    }
}

fn check_tensor(desc: &TensorDesc, id: TensorId, draft: &TensorDraft) {
    let name = &draft.name;
    assert_eq!((desc.id(), desc.name(), desc.dtype()), (id, name.as_str(), draft.dtype));
    let plain = match draft.dtype {
        DType::U8 => 1,
        DType::I32 => 4,
        DType::I64 => 8,
        _ => 16,
    };
    assert_eq!(desc.align(), draft.align.unwrap_or(plain), "alignment of `{name}`");
    let signed = |numbers: &[u64]| -> Vec<i64> {
        numbers.iter().map(|&number| i64::try_from(number).expect("fits")).collect()
    };
    assert_eq!(signed(desc.geometry().extents()), draft.extents, "extents of `{name}`");
    match &draft.strides {
        Some(strides) => assert_eq!(signed(desc.geometry().strides()), *strides, "`{name}`"),
        None => check_row_major(desc.geometry()),
    }
    let span: u128 = 1
        + (0..desc.geometry().rank())
            .map(|axis| u128::from(desc.geometry().extent(axis).saturating_sub(1)))
            .zip(0..)
            .map(|(steps, axis)| steps * u128::from(desc.geometry().stride(axis)))
            .sum::<u128>();
    let span = if draft.extents.contains(&0) { 0 } else { span };
    let bytes = span * u128::from(draft.dtype.bytes());
    assert!(bytes <= i64::MAX.unsigned_abs().into(), "`{name}` spans {bytes} bytes");
    assert_eq!(u128::from(desc.span_bytes()), bytes, "span of `{name}`");
}

fn check_row_major(geometry: &Geometry) {
    let mut next = 1_u64;
    for axis in (0..geometry.rank()).rev() {
        if geometry.extent(axis) > 1 {
            assert_eq!(geometry.stride(axis), next, "{geometry} is not row-major");
        }
        next = next.saturating_mul(geometry.extent(axis).max(1));
    }
}
