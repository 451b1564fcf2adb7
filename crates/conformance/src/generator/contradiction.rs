//! Cases that contradict themselves, each in one way.

use frazil_core::DType;
use proptest::sample::Index;

use crate::case::{BiasCase, BiasValues, Case, Place, Places, RowLayout, SideCase};

type Contradiction = (&'static str, fn(&mut Case));

const CONTRADICTIONS: &[Contradiction] = &[
    ("query heads that do not divide among key heads", |case| {
        (case.num_q_heads, case.num_kv_heads) = (3, 2);
        case.place = Places::default();
    }),
    ("other heads of V than of K", |case| {
        case.num_v_heads = Some(case.num_kv_heads + 1);
        case.place = Places::default();
    }),
    ("no query heads", |case| {
        case.num_q_heads = 0;
        case.place = Places::default();
    }),
    ("no columns", |case| {
        case.head_dim_qk = 0;
        case.place = Places::default();
    }),
    ("a soft cap of 0", |case| case.soft_cap = Some(0.0)),
    ("a soft cap below 0", |case| case.soft_cap = Some(-2.0)),
    ("a weight is always dropped", |case| case.dropout = Some(1.0)),
    ("a bias of integers", |case| {
        let (per_batch, per_head, values) = (false, false, BiasValues::AsInputs);
        case.bias = Some(BiasCase { dtype: DType::I32, per_batch, per_head, values });
        case.place = Places::default();
    }),
    ("an alignment that is no power of two", |case| {
        case.place = Places::default();
        case.place.0.insert("q".into(), Place { align: Some(12), ..Place::default() });
    }),
    ("a negative stride", |case| {
        let strides = if case.q.is_packed() { vec![-1, 1, 1] } else { vec![1, 1, -1, 1] };
        case.place = Places::default();
        case.place.0.insert("q".into(), Place { strides: Some(strides), ..Place::default() });
    }),
    ("an output that writes an element twice", |case| {
        dense(case);
        let place = Place { strides: Some(vec![0, 1, 1, 1]), ..Place::default() };
        case.place.0.insert("o".into(), place);
    }),
    ("a head pitch below the rows", |case| {
        dense(case);
        case.q =
            SideCase::PackedLengths { lengths: vec![1, 1], max_total: None, capacity: Some(8) };
        case.num_q_heads = 2 * case.num_kv_heads;
        case.max = true;
        case.row_outputs = RowLayout::HeadMajor { pitch: 7 };
    }),
    ("a total above the buffers", |case| {
        dense(case);
        case.q =
            SideCase::PackedLengths { lengths: vec![1, 1], max_total: Some(9), capacity: Some(8) };
    }),
    ("a least length above the greatest", |case| {
        dense(case);
        case.kv = SideCase::Padded { lengths: vec![1, 1], min_len: 1000 };
    }),
];

/// Two plain sequences.
fn dense(case: &mut Case) {
    (case.batch, case.seqlen_q, case.seqlen_kv) = (2, 3, 5);
    (case.q, case.kv) = (SideCase::Dense, SideCase::Dense);
    case.row_outputs = RowLayout::Natural;
    case.error_word.clear();
    case.declared = None;
    case.place = Places::default();
}

/// Makes the case contradict itself and says so in its note.
pub(super) fn contradict(case: &mut Case, which: Index) {
    let (what, apply) = which.get(CONTRADICTIONS);
    apply(case);
    case.note = Some(format!("contradiction: {what}"));
}
