//! Facts against the declaration they were read from.

use frazil::{
    Align, Facts, Feature, FeatureSet, Graph, LengthBounds, LseForm, Role, SdpaFwdFacts, Sequences,
    SideFacts, Storage,
};

use crate::draft::OpDraft;

/// # Panics
///
/// When the facts say anything but what was declared.
pub(crate) fn check_facts(facts: &Facts, op: &OpDraft, graph: &Graph) {
    let Facts::SdpaFwd(sdpa) = facts else { panic!("facts of {}", facts.op_name()) };
    assert_eq!(facts.op_name(), "sdpa_fwd");
    assert_eq!(facts.is_overridable(), graph.is_overridable());
    check_ports(sdpa, op, graph);
    check_shape(sdpa);
    assert_eq!(side_bounds(&sdpa.q_side()), storage_bounds(&op.q_storage));
    assert_eq!(side_bounds(&sdpa.kv_side()), storage_bounds(&op.kv_storage));
    match op.softmax_scale {
        Some(scale) => assert_eq!(sdpa.softmax_scale().to_bits(), scale.to_bits()),
        None => {
            let scale = f64::from(sdpa.softmax_scale()).powi(2) * lossy(sdpa.shape().head_dim_qk);
            assert!((scale - 1.0).abs() < 1e-6, "the default scale is 1/sqrt(head_dim_qk)");
        }
    }
    assert_eq!(sdpa.band(), op.band.filter(|band| band.left.is_some() || band.right.is_some()));
    assert_eq!(sdpa.soft_cap(), op.soft_cap);
    let corner = op.band.map_or(Align::TopLeft, |band| band.align);
    assert_eq!(sdpa.alibi(), op.alibi.map(|_| corner));
    assert_eq!(sdpa.lse(), op.lse.map(|(_, form)| form));
    assert_eq!(facts.features(), features(sdpa, op), "features of {op:?}");
}

#[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
fn lossy(count: u64) -> f64 {
    count as f64
}

/// Every tensor of the operation is a port with the description that the graph holds.
fn check_ports(sdpa: &SdpaFwdFacts, op: &OpDraft, graph: &Graph) {
    let ids = op.ids();
    for (role, id) in &ids {
        let port = sdpa.ports().get(*role).expect("each role has a port");
        let desc = graph.tensors().iter().find(|desc| desc.id() == *id);
        assert_eq!(Some(port.desc()), desc, "{}", role.name());
        assert_eq!(port.is_output(), role.is_output(), "{}", role.name());
        assert_eq!(sdpa.dtype(*role), desc.map(frazil::TensorDesc::dtype));
    }
    for port in sdpa.ports().iter() {
        let id = port.desc().id();
        assert!(ids.iter().any(|(_, known)| *known == id), "a port that nobody declared: {id}");
    }
    assert_eq!(sdpa.ports().iter().len(), graph.tensors().len(), "each tensor is one port");
}

/// Numbers of the shape against the extents of the tensors.
fn check_shape(sdpa: &SdpaFwdFacts) {
    let shape = sdpa.shape();
    let extent = |role: Role, axis: usize| {
        let port = sdpa.ports().get(role).expect("the role is there");
        port.desc().geometry().extent(axis)
    };
    let columns = |side: SideFacts| if side.is_packed() { 2 } else { 3 };
    let (q, kv) = (columns(sdpa.q_side()), columns(sdpa.kv_side()));
    assert_eq!(shape.num_q_heads, extent(Role::Q, 1));
    assert_eq!(shape.num_q_heads, extent(Role::O, 1));
    assert_eq!([shape.num_kv_heads; 2], [extent(Role::K, 1), extent(Role::V, 1)]);
    assert!(shape.num_kv_heads > 0);
    assert!(shape.num_q_heads.is_multiple_of(shape.num_kv_heads));
    assert_eq!([shape.head_dim_qk; 2], [extent(Role::Q, q), extent(Role::K, kv)]);
    assert_eq!([shape.head_dim_v; 2], [extent(Role::O, q), extent(Role::V, kv)]);
    assert!(shape.head_dim_qk > 0 && shape.head_dim_v > 0);
    let sides = [
        (sdpa.q_side(), shape.q, Role::Q, [Role::QLengths, Role::QPrefix]),
        (sdpa.kv_side(), shape.kv, Role::K, [Role::KvLengths, Role::KvPrefix]),
    ];
    for (facts, side, first, [lengths, prefix]) in sides {
        assert_eq!(side.batch, shape.batch);
        let batch = match facts {
            SideFacts::Dense => extent(first, 0),
            SideFacts::PackedPrefix { .. } => extent(prefix, 0) - 1,
            _ => extent(lengths, 0),
        };
        assert_eq!(side.batch, batch, "batch of {facts:?}");
        let rows = match facts {
            SideFacts::Dense | SideFacts::Padded { .. } => extent(first, 2),
            SideFacts::Paged { page_size, .. } => {
                assert_eq!([page_size; 2], [extent(Role::K, 2), extent(Role::V, 2)]);
                extent(Role::TableK, 1).min(extent(Role::TableV, 1)) * page_size
            }
            _ => extent(first, 0),
        };
        assert_eq!(side.rows, rows, "rows of {facts:?}");
        let bound = facts.bounds().map_or(u64::MAX, |bounds| bounds.max.into());
        let held = if facts.is_packed() { u64::MAX } else { rows };
        assert_eq!(side.max_len, bound.min(held), "greatest length of {facts:?}");
    }
}

/// Name of a storage form with its host numbers.
type Numbers = (&'static str, Option<LengthBounds>, Option<u32>);

fn side_bounds(side: &SideFacts) -> Numbers {
    match *side {
        SideFacts::Dense => ("dense", None, None),
        SideFacts::Padded { bounds } => ("padded", Some(bounds), None),
        SideFacts::PackedLengths { bounds, max_total } => {
            ("lengths", Some(bounds), Some(max_total))
        }
        SideFacts::PackedPrefix { bounds, max_total } => ("prefix", Some(bounds), Some(max_total)),
        SideFacts::PackedStarts { bounds, max_total } => ("starts", Some(bounds), Some(max_total)),
        SideFacts::Paged { bounds, .. } => ("paged", Some(bounds), None),
        other => panic!("a storage form that no draft has: {other:?}"),
    }
}

fn storage_bounds(storage: &Storage) -> Numbers {
    match *storage {
        Storage::Dense => ("dense", None, None),
        Storage::Padded { bounds, .. } => ("padded", Some(bounds), None),
        Storage::Packed { sequences, bounds, max_total } => {
            let name = match sequences {
                Sequences::Lengths(_) => "lengths",
                Sequences::Prefix(_) => "prefix",
                Sequences::Starts { .. } => "starts",
                other => panic!("rows found in a way that no draft has: {other:?}"),
            };
            (name, Some(bounds), Some(max_total))
        }
        Storage::Paged { bounds, .. } => ("paged", Some(bounds), None),
        other => panic!("a storage form that no draft has: {other:?}"),
    }
}

/// The features that an operation uses, from its declaration.
fn features(sdpa: &SdpaFwdFacts, op: &OpDraft) -> FeatureSet {
    let rank = |role| sdpa.ports().get(role).map(|port| port.desc().geometry().rank());
    let (q, kv) = (storage_bounds(&op.q_storage).0, storage_bounds(&op.kv_storage).0);
    let packed_q = matches!(op.q_storage, Storage::Packed { .. });
    let padded_rows = |role| packed_q && rank(role) == Some(3);
    let dtype = |role| sdpa.dtype(role);
    let used = [
        (Feature::Dropout, op.dropout.is_some()),
        (Feature::BlockMask, op.block_mask.is_some()),
        (Feature::MixedTypes, dtype(Role::Q) != dtype(Role::K) || dtype(Role::Q) != dtype(Role::V)),
        (Feature::Band, op.band.is_some_and(|band| band.left.is_some() || band.right.is_some())),
        (Feature::SoftCap, op.soft_cap.is_some()),
        (Feature::Bias, op.bias.is_some()),
        (Feature::Alibi, op.alibi.is_some()),
        (Feature::AlibiPerSequence, rank(Role::AlibiSlopes) == Some(2)),
        (Feature::Sink, op.sink.is_some()),
        (Feature::LseNatural, op.lse.is_some_and(|(_, form)| form == LseForm::Natural)),
        (Feature::LseBase2, op.lse.is_some_and(|(_, form)| form == LseForm::Base2)),
        (Feature::Max, op.max.is_some()),
        (Feature::SumExp, op.sum_exp.is_some()),
        (Feature::QPadded, q == "padded"),
        (Feature::QPackedLengths, q == "lengths"),
        (Feature::QPackedPrefix, q == "prefix"),
        (Feature::QPackedStarts, q == "starts"),
        (Feature::KvPadded, kv == "padded"),
        (Feature::KvPackedLengths, kv == "lengths"),
        (Feature::KvPackedPrefix, kv == "prefix"),
        (Feature::KvPackedStarts, kv == "starts"),
        (Feature::KvPaged, kv == "paged"),
        (
            Feature::PaddedRowOutputs,
            [Role::Lse, Role::Max, Role::SumExp].into_iter().any(padded_rows),
        ),
    ];
    let used = used.into_iter().filter(|(_, used)| *used);
    used.fold(FeatureSet::EMPTY, |set, (feature, _)| set.with(feature))
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use frazil::{Band, GraphBuilder, TensorId};

    use super::*;
    use crate::draw::{self, Scale};
    use crate::source::Source;

    type Change = (&'static str, fn(&mut OpDraft));

    /// Facts that say anything else than what was declared are seen: the declaration they are held
    /// against is changed in one place.
    #[test]
    fn facts_of_another_declaration_are_seen() {
        let mut source = Source::new(&[]);
        let (recipe, rows) = draw::recipe(&mut source, Scale::Declared);
        let draft = recipe.draft(rows);
        let mut builder = GraphBuilder::new();
        for tensor in &draft.tensors {
            builder.tensor(tensor.spec()).expect("a sound tensor");
        }
        builder.sdpa_fwd(draft.op.op()).expect("a sound graph");
        let graph = builder.finish().expect("a sound graph");
        let facts = Facts::read(&graph).expect("one operation");
        check_facts(&facts, &draft.op, &graph);
        let changes: [Change; 8] = [
            ("scale", |op| op.softmax_scale = Some(0.5)),
            ("band", |op| op.band = Some(Band::causal(Align::TopLeft))),
            ("soft cap", |op| op.soft_cap = Some(1.0)),
            ("role", |op| std::mem::swap(&mut op.k, &mut op.v)),
            ("another output", |op| op.max = Some(op.o)),
            ("sink", |op| op.sink = Some(TensorId(0))),
            ("LSE", |op| op.lse = Some((op.o, LseForm::Base2))),
            ("storage", |op| {
                let bounds = LengthBounds::up_to(1);
                op.kv_storage = Storage::Padded { lengths: op.q, bounds };
            }),
        ];
        for (what, change) in changes {
            let mut op = draft.op.clone();
            change(&mut op);
            let seen = catch_unwind(|| check_facts(&facts, &op, &graph)).is_err();
            assert!(seen, "{what}");
        }
    }
}
