//! What is asked: one thing varied at a time from a plain attention.

use std::sync::Arc;

use frazil_core::{
    Align, Band, DType, Facts, GraphBuilder, InvalidGraph, LseForm, SdpaFwd, TensorSpec,
};

use crate::case::{
    AlibiCase, BiasCase, BiasValues, Case, DeclaredCase, PageOrder, Place, Places, PoolOrder,
    RowLayout, SideCase, SinkCase, TableOrder, Values,
};
use crate::declare::{CaseError, declare};

/// One question.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The heading it stands under.
    pub group: &'static str,
    /// What is varied.
    pub name: &'static str,
    /// What is asked.
    pub facts: Arc<Facts>,
}

/// Every question, by group.
///
/// # Errors
///
/// [`CaseError`] when one means nothing.
pub fn probes() -> Result<Vec<Probe>, CaseError> {
    let mut probes = Vec::new();
    for &(group, changes) in PROBES {
        for &(name, change) in changes {
            let mut case = plain();
            change(&mut case);
            probes.push(Probe { group, name, facts: declare(&case)?.facts });
        }
        if group == TYPES {
            probes.push(Probe { group, name: "K and V f16 under Q bf16", facts: mixed_types()? });
        }
    }
    Ok(probes)
}

const BATCH: u64 = 2;
const HEADS: u64 = 8;
const COLUMNS: u64 = 128;
const ROWS: u64 = 256;

/// bf16, 2 sequences of 256 rows, 8 heads of 128 columns, no mask.
fn plain() -> Case {
    Case {
        name: "probe".into(),
        note: None,
        dtype: DType::Bf16,
        o_dtype: None,
        batch: BATCH,
        num_q_heads: HEADS,
        num_kv_heads: HEADS,
        num_v_heads: None,
        head_dim_qk: COLUMNS,
        head_dim_v: None,
        seqlen_q: ROWS,
        seqlen_kv: ROWS,
        q: SideCase::Dense,
        kv: SideCase::Dense,
        softmax_scale: None,
        band: None,
        soft_cap: None,
        bias: None,
        alibi: None,
        sink: None,
        dropout: None,
        block_mask: false,
        lse: None,
        max: false,
        sum_exp: false,
        row_outputs: RowLayout::Natural,
        place: Places::default(),
        declared: None,
        values: Values::Normal,
        seed: 0,
        error_word: Vec::new(),
        answers: std::collections::BTreeMap::new(),
    }
}

/// A change to the plain case.
type Change = fn(&mut Case);

const TYPES: &str = "types";

const PROBES: &[(&str, &[(&str, Change)])] = &[
    (
        TYPES,
        &[
            ("f16", |case| case.dtype = DType::F16),
            ("bf16", |_| {}),
            ("f32", |case| case.dtype = DType::F32),
            ("f16 with O in f32", |case| {
                (case.dtype, case.o_dtype) = (DType::F16, Some(DType::F32));
            }),
            ("bf16 with O in f32", |case| case.o_dtype = Some(DType::F32)),
            ("f8_e4m3 with O in bf16", |case| {
                (case.dtype, case.o_dtype) = (DType::F8E4m3, Some(DType::Bf16));
            }),
        ],
    ),
    (
        "head dims (Q and K / V)",
        &[
            ("8", |case| case.head_dim_qk = 8),
            ("32", |case| case.head_dim_qk = 32),
            ("64", |case| case.head_dim_qk = 64),
            ("80", |case| case.head_dim_qk = 80),
            ("96", |case| case.head_dim_qk = 96),
            ("100", |case| case.head_dim_qk = 100),
            ("128", |_| {}),
            ("192", |case| case.head_dim_qk = 192),
            ("192 / 128", |case| (case.head_dim_qk, case.head_dim_v) = (192, Some(128))),
            ("256", |case| case.head_dim_qk = 256),
            ("512", |case| case.head_dim_qk = 512),
            ("576 / 512", |case| (case.head_dim_qk, case.head_dim_v) = (576, Some(512))),
        ],
    ),
    (
        "heads (Q : K and V)",
        &[
            ("8 : 8", |_| {}),
            ("8 : 2", |case| case.num_kv_heads = 2),
            ("6 : 2", |case| (case.num_q_heads, case.num_kv_heads) = (6, 2)),
            ("8 : 1", |case| case.num_kv_heads = 1),
        ],
    ),
    (
        "rows (Q × K)",
        &[
            ("1 × 4096", |case| (case.seqlen_q, case.seqlen_kv) = (1, 4096)),
            ("257 × 300", |case| (case.seqlen_q, case.seqlen_kv) = (257, 300)),
            ("300 × 257", |case| (case.seqlen_q, case.seqlen_kv) = (300, 257)),
            ("256 × 0", |case| case.seqlen_kv = 0),
        ],
    ),
    (
        "masks",
        &[
            ("causal from the top left", |case| case.band = band(Align::TopLeft, None, Some(0))),
            ("causal from the bottom right", |case| {
                case.band = band(Align::BottomRight, None, Some(0));
            }),
            ("sliding window", |case| case.band = band(Align::BottomRight, Some(127), Some(0))),
            ("band on both sides", |case| {
                case.band = band(Align::BottomRight, Some(64), Some(32));
            }),
            ("block mask", |case| case.block_mask = true),
        ],
    ),
    (
        "scores",
        &[
            ("negative scale", |case| case.softmax_scale = Some(-0.1)),
            ("soft cap", |case| case.soft_cap = Some(50.0)),
            ("bias in f32", |case| case.bias = bias(DType::F32, false)),
            ("bias in the type of Q", |case| case.bias = bias(DType::Bf16, false)),
            ("bias of each sequence and head", |case| case.bias = bias(DType::F32, true)),
            ("ALiBi", |case| case.alibi = Some(AlibiCase::PerHead)),
            ("ALiBi of each sequence", |case| case.alibi = Some(AlibiCase::PerBatchAndHead)),
            ("sink", |case| case.sink = Some(SinkCase::AsInputs)),
            ("dropout", |case| case.dropout = Some(0.1)),
        ],
    ),
    (
        "storage of Q",
        &[
            ("dense", |_| {}),
            ("padded", |case| case.q = padded()),
            ("packed by lengths", |case| case.q = packed_lengths()),
            ("packed by a prefix", |case| case.q = packed_prefix()),
            ("packed by starts", |case| case.q = packed_starts()),
        ],
    ),
    (
        "storage of K and V",
        &[
            ("dense", |_| {}),
            ("padded", |case| case.kv = padded()),
            ("packed by lengths", |case| case.kv = packed_lengths()),
            ("packed by a prefix", |case| case.kv = packed_prefix()),
            ("packed by starts", |case| case.kv = packed_starts()),
            ("pages of 1", |case| case.kv = paged(1, PoolOrder::Hnd)),
            ("pages of 16", |case| case.kv = paged(16, PoolOrder::Hnd)),
            ("pages of 16 with rows outside heads", |case| case.kv = paged(16, PoolOrder::Nhd)),
            ("pages of 48", |case| case.kv = paged(48, PoolOrder::Hnd)),
            ("pages of 256", |case| case.kv = paged(256, PoolOrder::Hnd)),
        ],
    ),
    (
        "storage of both",
        &[
            ("padded", |case| (case.q, case.kv) = (padded(), padded())),
            ("packed by a prefix", |case| (case.q, case.kv) = (packed_prefix(), packed_prefix())),
            ("packed by a prefix over pages of 16", |case| {
                (case.q, case.kv) = (packed_prefix(), paged(16, PoolOrder::Hnd));
            }),
        ],
    ),
    (
        "outputs beside O",
        &[
            ("natural LSE", |case| case.lse = Some(LseForm::Natural)),
            ("LSE in base 2", |case| case.lse = Some(LseForm::Base2)),
            ("max", |case| case.max = true),
            ("sum-exp", |case| case.sum_exp = true),
            ("LSE by row of packed Q", |case| {
                (case.q, case.lse) = (packed_prefix(), Some(LseForm::Natural));
            }),
            ("LSE by head of packed Q", |case| {
                (case.q, case.lse) = (packed_prefix(), Some(LseForm::Natural));
                case.row_outputs = RowLayout::HeadMajor { pitch: 512 };
            }),
            ("LSE by sequence of packed Q", |case| {
                (case.q, case.lse) = (packed_prefix(), Some(LseForm::Natural));
                case.row_outputs = RowLayout::Padded;
            }),
        ],
    ),
    (
        "layouts",
        &[
            ("heads outside rows", |_| {}),
            ("rows outside heads", |case| {
                strided(case, [ROWS * HEADS * COLUMNS, COLUMNS, HEADS * COLUMNS, 1]);
            }),
            ("columns outside rows", |case| {
                strided(case, [HEADS * ROWS * COLUMNS, ROWS * COLUMNS, 1, ROWS]);
            }),
            ("aligned to an element alone", |case| {
                let place = Place { align: Some(2), ..Place::default() };
                case.place.0 = ["q", "k", "v", "o"].map(|role| (role.into(), place.clone())).into();
            }),
            ("extents and strides given anew", |case| {
                case.declared =
                    Some(DeclaredCase { batch: BATCH, seqlen_q: ROWS, seqlen_kv: ROWS });
            }),
        ],
    ),
];

/// Bound on each side, where there is one.
fn band(align: Align, left: Option<u32>, right: Option<u32>) -> Option<Band> {
    Some(Band { align, left, right })
}

fn bias(dtype: DType, of_each: bool) -> Option<BiasCase> {
    let (per_batch, per_head) = (of_each, of_each);
    Some(BiasCase { dtype, per_batch, per_head, values: BiasValues::AsInputs })
}

fn lengths() -> Vec<i32> {
    vec![256, 200]
}

fn padded() -> SideCase {
    SideCase::Padded { lengths: lengths(), min_len: 0 }
}

fn packed_lengths() -> SideCase {
    SideCase::PackedLengths { lengths: lengths(), max_total: None, capacity: None }
}

fn packed_prefix() -> SideCase {
    let (base, prefix, max_total, capacity) = (0, None, None, None);
    SideCase::PackedPrefix { lengths: lengths(), base, prefix, max_total, capacity }
}

fn packed_starts() -> SideCase {
    let starts = vec![0, 300];
    SideCase::PackedStarts { starts, lengths: lengths(), max_total: None, capacity: None }
}

fn paged(page_size: u64, pool: PoolOrder) -> SideCase {
    SideCase::Paged {
        lengths: lengths(),
        page_size,
        num_pages: None,
        one_table: false,
        table: TableOrder::RowMajor,
        pool,
        pages: PageOrder::Shuffled,
    }
}

/// Strides of Q, K, V and O.
fn strided(case: &mut Case, strides: [u64; 4]) {
    let strides = strides.iter().map(|&stride| i64::try_from(stride).unwrap_or(i64::MAX));
    let place = Place { strides: Some(strides.collect()), ..Place::default() };
    case.place.0 = ["q", "k", "v", "o"].map(|role| (role.into(), place.clone())).into();
}

/// Cases have one type for all three.
fn mixed_types() -> Result<Arc<Facts>, InvalidGraph> {
    let mut graph = GraphBuilder::new();
    let extents = [BATCH, HEADS, ROWS, COLUMNS].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let mut tensor = |name, dtype| graph.tensor(TensorSpec::contiguous(name, dtype, extents));
    let [q, k, v, o] = [
        tensor("q", DType::Bf16)?,
        tensor("k", DType::F16)?,
        tensor("v", DType::F16)?,
        tensor("o", DType::Bf16)?,
    ];
    graph.sdpa_fwd(SdpaFwd::new(q, k, v, o))?;
    Ok(Arc::new(Facts::read(&graph.finish()?)?))
}
