//! Cases drawn at random over the whole schema, for the promise that whatever an engine accepts
//! runs and is right.
//!
//! Every choice is drawn apart from the others and the case is put together from them, so that a
//! failing case shrinks in each. Most cases mean something; a few contradict themselves on purpose,
//! say so in their [`Case::note`], and must be refused when declared. Device tensors are hostile
//! now and then, with the bits that must be reported.

mod contradiction;
mod extras;
mod place;
mod side;

use std::collections::BTreeMap;

use frazil_core::DType;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::case::{Case, DeclaredCase, Places, RowLayout, SideCase};
use extras::{Extras, extras};
use place::layouts;
use side::{SideDraw, SideForm, sides};

/// What cases are drawn for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aim {
    /// The whole schema, most cases tiny.
    #[default]
    Schema,
    /// What engines serve that multiply on matrix units: f16 and bf16, head dims that are multiples of
    /// 8 up to 256, rows of whole chunks of 16 bytes. Everything else is as varied, and extents are
    /// larger: several tiles of keys, and several units for a block.
    MatrixUnits,
}

impl Aim {
    /// The case of that number: always the same one, so that a range of them can be resumed.
    ///
    /// # Panics
    ///
    /// Never: the strategy rejects nothing.
    pub fn case_from_seed(self, seed: u64) -> Case {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let tree = declarations(self).new_tree(&mut runner).expect("the strategy rejects nothing");
        let name = match self {
            Self::Schema => format!("seed_{seed}"),
            Self::MatrixUnits => format!("matrix_units_seed_{seed}"),
        };
        Case { name, ..tree.current() }
    }

    /// Most operations of a case. The mean of the schema is near 0.2 million, that of matrix units
    /// near 6 million.
    const fn max_flops(self) -> u64 {
        match self {
            Self::Schema => 3_000_000,
            Self::MatrixUnits => 100_000_000,
        }
    }
}

/// Most sequences of a case.
const MAX_BATCH: usize = 4;

/// Extents and types, drawn.
#[derive(Clone, Copy, Debug)]
struct Shape {
    dtype: DType,
    o_dtype: Option<DType>,
    batch: u64,
    group: u64,
    num_kv_heads: u64,
    head_dim_qk: u64,
    head_dim_v: Option<u64>,
    seqlen_q: u64,
    seqlen_kv: u64,
}

/// Cases at random.
pub fn declarations(aim: Aim) -> impl Strategy<Value = Case> {
    let contradiction =
        prop_oneof![15 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let declared =
        prop_oneof![9 => Just(None), 1 => (0..3_u64, 0..20_u64, 0..40_u64).prop_map(Some)];
    let draws = (shape(aim), sides(), extras(), layouts(), declared, contradiction, any::<u32>());
    draws.prop_map(move |(shape, sides, mut extras, mut layouts, larger, contradiction, seed)| {
        if aim == Aim::MatrixUnits {
            extras.keep_to_what_is_served();
            layouts.keep_rows_whole();
        }
        let mut case = assemble(&shape, &sides, &extras, larger);
        case.seed = seed.into();
        case.place = if larger.is_none() { layouts.places(&case) } else { Places::default() };
        if let Some(which) = contradiction {
            contradiction::contradict(&mut case, which);
        }
        case
    })
}

/// The case of that number, over the whole schema: always the same one, so that a range of them can
/// be resumed.
///
/// # Panics
///
/// Never: the strategy rejects nothing.
pub fn case_from_seed(seed: u64) -> Case {
    Aim::Schema.case_from_seed(seed)
}

fn shape(aim: Aim) -> BoxedStrategy<Shape> {
    match aim {
        Aim::Schema => shape_of_schema().boxed(),
        Aim::MatrixUnits => shape_of_matrix_units().boxed(),
    }
}

fn shape_of_matrix_units() -> impl Strategy<Value = Shape> {
    use DType::{Bf16, F16, F32};
    let dtype = prop_oneof![Just(F16), Just(Bf16)];
    let o_dtype = prop_oneof![
        6 => Just(None), 1 => Just(Some(F16)), 1 => Just(Some(Bf16)), 2 => Just(Some(F32))
    ];
    let batch = prop_oneof![1 => Just(0), 20 => 1..=MAX_BATCH as u64];
    let head_dim = || {
        prop_oneof![
            4 => Just(64_u64), 4 => Just(128), 1 => Just(96), 1 => Just(192), 2 => Just(256),
            6 => (1..=32_u64).prop_map(|d| 8 * d)
        ]
    };
    let head_dim_v = prop_oneof![3 => Just(None), 1 => head_dim().prop_map(Some)];
    let seqlen_q = prop_oneof![
        1 => Just(0_u64), 5 => Just(1), 2 => 2..=8_u64, 5 => 9..=130_u64, 3 => 131..=700_u64
    ];
    let seqlen_kv = prop_oneof![
        1 => Just(0_u64), 1 => Just(1), 4 => 2..=130_u64, 5 => 131..=700_u64, 3 => 701..=9000_u64
    ];
    let heads = (prop_oneof![3 => 1..=4_u64, 1 => 5..=16_u64], 1..=3_u64);
    let extents = (heads, head_dim(), head_dim_v, seqlen_q, seqlen_kv);
    (dtype, o_dtype, batch, extents).prop_map(|(dtype, o_dtype, batch, extents)| {
        let ((group, num_kv_heads), head_dim_qk, head_dim_v, seqlen_q, seqlen_kv) = extents;
        let shape = Shape {
            dtype,
            o_dtype,
            batch,
            group,
            num_kv_heads,
            head_dim_qk,
            head_dim_v,
            seqlen_q,
            seqlen_kv,
        };
        shape.at_most(Aim::MatrixUnits.max_flops())
    })
}

impl Shape {
    /// With so few rows that there are no more operations.
    fn at_most(mut self, max_flops: u64) -> Self {
        let columns = self.head_dim_qk + self.head_dim_v.unwrap_or(self.head_dim_qk);
        let per_pair = 2 * columns * self.group * self.num_kv_heads * self.batch;
        while per_pair * self.seqlen_q * self.seqlen_kv > max_flops {
            if self.seqlen_q > self.seqlen_kv { self.seqlen_q /= 2 } else { self.seqlen_kv /= 2 }
        }
        self
    }
}

fn shape_of_schema() -> impl Strategy<Value = Shape> {
    use DType::{Bf16, F8E4m3, F8E5m2, F16, F32};
    let dtype = prop_oneof![
        8 => Just(F16), 8 => Just(Bf16), 6 => Just(F32), 1 => Just(F8E4m3), 1 => Just(F8E5m2)
    ];
    let o_dtype = prop_oneof![
        12 => Just(None), 2 => Just(Some(F16)), 2 => Just(Some(Bf16)), 2 => Just(Some(F32)),
        1 => Just(Some(F8E4m3))
    ];
    let batch = prop_oneof![1 => Just(0), 14 => 1..=MAX_BATCH as u64];
    let head_dim =
        || prop_oneof![2 => (1..=17_u64).prop_map(|d| 8 * d), 2 => 1..=136_u64, 1 => 1..=9_u64];
    let head_dim_v = prop_oneof![2 => Just(None), 1 => head_dim().prop_map(Some)];
    let seqlen = || {
        prop_oneof![
            1 => Just(0_u64), 3 => Just(1_u64), 8 => 2..=24_u64, 3 => 24..=70_u64,
            1 => 120..=140_u64
        ]
    };
    let heads = (1..=4_u64, 1..=3_u64);
    (dtype, o_dtype, batch, heads, head_dim(), head_dim_v, seqlen(), seqlen()).prop_map(
        |(dtype, o_dtype, batch, heads, head_dim_qk, head_dim_v, seqlen_q, seqlen_kv)| {
            let (group, num_kv_heads) = heads;
            let shape = Shape {
                dtype,
                o_dtype,
                batch,
                group,
                num_kv_heads,
                head_dim_qk,
                head_dim_v,
                seqlen_q,
                seqlen_kv,
            };
            shape.at_most(Aim::Schema.max_flops())
        },
    )
}

/// Puts a case together; `larger` is by how much its declaration is larger than its run.
fn assemble(
    shape: &Shape,
    (q, kv): &(SideDraw, SideDraw),
    extras: &Extras,
    larger: Option<(u64, u64, u64)>,
) -> Case {
    let Shape { dtype, o_dtype, batch, seqlen_q, seqlen_kv, .. } = *shape;
    // Bounds belong to the declaration: what is hostile to them would be fine in a larger one.
    let hostile = larger.is_none();
    let q = q.side(SideForm { batch, seqlen: seqlen_q, is_q: true, hostile });
    let mut kv = kv.side(SideForm { batch, seqlen: seqlen_kv, is_q: false, hostile });
    let mut error_word = Vec::new();
    side::bits(&q, seqlen_q, ["q_length", "q_rows"], &mut error_word);
    let sees_all = extras.band.is_none_or(|band| !band.is_bounded());
    if !(sees_all && error_word.is_empty() && side::meet(&q, &kv, seqlen_q)) {
        side::keep_pages_inside(&mut kv);
    }
    side::bits(&kv, seqlen_kv, ["kv_length", "kv_rows"], &mut error_word);
    let num_q_heads = shape.group * shape.num_kv_heads;
    Case {
        name: "generated".into(),
        note: None,
        dtype,
        o_dtype: o_dtype.filter(|&o| o != dtype),
        batch,
        num_q_heads,
        num_kv_heads: shape.num_kv_heads,
        num_v_heads: None,
        head_dim_qk: shape.head_dim_qk,
        head_dim_v: shape.head_dim_v,
        seqlen_q,
        seqlen_kv,
        softmax_scale: extras.softmax_scale,
        band: extras.band,
        soft_cap: extras.soft_cap,
        bias: extras.bias(dtype),
        alibi: extras.alibi,
        sink: extras.sink,
        dropout: extras.dropout,
        block_mask: extras.block_mask,
        lse: extras.lse,
        max: extras.max,
        sum_exp: extras.sum_exp,
        row_outputs: if q.is_packed() { extras.row_layout(&q) } else { RowLayout::Natural },
        place: Places::default(),
        declared: larger.map(|(batches, on_q, on_kv)| DeclaredCase {
            batch: batch + batches,
            seqlen_q: seqlen_q + on_q,
            seqlen_kv: seqlen_kv + on_kv,
        }),
        q,
        kv,
        values: extras.values,
        seed: 0,
        error_word,
        answers: BTreeMap::new(),
    }
}

/// Rows of the buffers of a packed side.
fn capacity(side: &SideCase) -> u64 {
    match side {
        SideCase::PackedLengths { capacity, .. }
        | SideCase::PackedPrefix { capacity, .. }
        | SideCase::PackedStarts { capacity, .. } => capacity.unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_always_gives_the_same_case() {
        for seed in 0..20 {
            let text = |case| serde_json::to_string(&case).unwrap();
            assert_eq!(text(case_from_seed(seed)), text(case_from_seed(seed)));
        }
        assert_ne!(case_from_seed(0).seed, case_from_seed(1).seed);
    }

    /// Numbers in tables and reports name these cases: a change of the strategies is a new table.
    #[test]
    fn numbers_keep_their_cases() {
        let sum = |aim: Aim| {
            let text = |seed| serde_json::to_string(&aim.case_from_seed(seed)).unwrap();
            // FNV-1a.
            (0..200)
                .flat_map(|seed| text(seed).into_bytes())
                .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                    (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                })
        };
        assert_eq!(
            [sum(Aim::Schema), sum(Aim::MatrixUnits)],
            [2_245_662_398_564_479_920, 8_266_180_363_629_247_845]
        );
    }

    #[test]
    fn cases_for_matrix_units_have_what_these_need() {
        let cases: Vec<Case> =
            (0..1000).map(|seed| Aim::MatrixUnits.case_from_seed(seed)).collect();
        let is_served = |case: &Case| {
            let dims = [case.head_dim_qk, case.head_dim_v()];
            matches!(case.dtype, DType::F16 | DType::Bf16)
                && dims.iter().all(|dim| dim.is_multiple_of(8) && *dim <= 256)
                && case.dropout.is_none()
                && !case.block_mask
        };
        let meaningful = || cases.iter().filter(|case| case.note.is_none());
        assert!(meaningful().all(is_served));
        assert!(meaningful().count() > 900);
        let flops: Vec<u64> = cases.iter().map(Case::live_flops).collect();
        let mean = flops.iter().sum::<u64>() / 1000;
        assert!((2_000_000..20_000_000).contains(&mean), "{mean}");
        let large = flops.iter().filter(|&&flops| flops > 10_000_000).count();
        assert!(large > 50, "{large}");
        assert!(
            meaningful().filter(|case| case.seqlen_q == 1 && case.seqlen_kv > 1024).count() > 20
        );
    }

    /// Small enough to run by the thousand, large enough to mean something.
    #[test]
    fn the_mean_case_is_small() {
        let flops: Vec<u64> = (0..2000).map(|seed| case_from_seed(seed).live_flops()).collect();
        let mean = flops.iter().sum::<u64>() / 2000;
        assert!((100_000..400_000).contains(&mean), "{mean}");
        assert!(flops.iter().all(|&flops| flops <= Aim::Schema.max_flops()));
    }

    /// What a case is written as reads back as the same case: a failing one prints its repro.
    #[test]
    fn every_case_survives_json() {
        for seed in 0..500 {
            let text = serde_json::to_string(&case_from_seed(seed)).unwrap();
            let again: Case = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&again).unwrap(), text);
        }
    }
}
