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

/// Most operations of a case. The mean is near 0.2 million.
const MAX_FLOPS: u64 = 3_000_000;

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
pub fn declarations() -> impl Strategy<Value = Case> {
    let contradiction =
        prop_oneof![15 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let declared =
        prop_oneof![9 => Just(None), 1 => (0..3_u64, 0..20_u64, 0..40_u64).prop_map(Some)];
    let draws = (shape(), sides(), extras(), layouts(), declared, contradiction, any::<u32>());
    draws.prop_map(|(shape, sides, extras, layouts, larger, contradiction, seed)| {
        let mut case = assemble(&shape, &sides, &extras, larger);
        case.seed = seed.into();
        case.place = if larger.is_none() { layouts.places(&case) } else { Places::default() };
        if let Some(which) = contradiction {
            contradiction::contradict(&mut case, which);
        }
        case
    })
}

/// The case of that number: always the same one, so that a range of them can be resumed.
///
/// # Panics
///
/// Never: the strategy rejects nothing.
pub fn case_from_seed(seed: u64) -> Case {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = declarations().new_tree(&mut runner).expect("the strategy rejects nothing");
    Case { name: format!("seed_{seed}"), ..tree.current() }
}

fn shape() -> impl Strategy<Value = Shape> {
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
        |(
            dtype,
            o_dtype,
            batch,
            (group, num_kv_heads),
            head_dim_qk,
            head_dim_v,
            mut seqlen_q,
            mut seqlen_kv,
        )| {
            let columns = head_dim_qk + head_dim_v.unwrap_or(head_dim_qk);
            let per_pair = 2 * columns * group * num_kv_heads * batch;
            while per_pair * seqlen_q * seqlen_kv > MAX_FLOPS {
                if seqlen_q > seqlen_kv { seqlen_q /= 2 } else { seqlen_kv /= 2 }
            }
            Shape {
                dtype,
                o_dtype,
                batch,
                group,
                num_kv_heads,
                head_dim_qk,
                head_dim_v,
                seqlen_q,
                seqlen_kv,
            }
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

    /// Small enough to run by the thousand, large enough to mean something.
    #[test]
    fn the_mean_case_is_small() {
        let flops: Vec<u64> = (0..2000).map(|seed| case_from_seed(seed).live_flops()).collect();
        let mean = flops.iter().sum::<u64>() / 2000;
        assert!((100_000..400_000).contains(&mean), "{mean}");
        assert!(flops.iter().all(|&flops| flops <= MAX_FLOPS));
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
