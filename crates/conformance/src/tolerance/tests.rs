//! A careful kernel passes, and one that drops a key does not.

use frazil_core::{Align, Band};
use half::{bf16, f16};

use super::*;
use crate::reference::Head;

const DIM: usize = 64;

/// What a careful kernel computes: f32 scores, sums block by block, weights rounded to the type
/// of the second product and summed before that, an output rounded to its type.
fn emulated(head: &Head<'_>, i: usize, dtype: DType, drop: Option<usize>) -> (Vec<f64>, f64) {
    let round = |x: f32| match dtype {
        DType::Bf16 => bf16::from_f32(x).to_f32(),
        DType::F16 => f16::from_f32(x).to_f32(),
        _ => x,
    };
    let q = &head.q[i * DIM..][..DIM];
    let scale = 1.0 / (DIM as f32).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "it came from an f32")]
    let cap = head.soft_cap.map(|cap| cap as f32);
    let visible = (0..head.len_kv).filter(|&j| head.band.is_none() || j <= i);
    let scores: Vec<(usize, f32)> = visible
        .filter(|&j| drop != Some(j))
        .map(|j| {
            let k = &head.k[j * DIM..][..DIM];
            let score = scale * q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>();
            let score = cap.map_or(score, |cap| cap * (score / cap).tanh());
            (j, score + head.bias.map_or(0.0, |bias| bias[i * head.len_kv + j]))
        })
        .collect();
    let max = scores.iter().map(|&(_, score)| score).fold(f32::NEG_INFINITY, f32::max);
    let mut o = vec![0.0_f32; head.head_dim_v];
    let mut sum = 0.0_f32;
    for block in scores.chunks(64) {
        let mut block_sum = 0.0;
        for &(j, score) in block {
            let p = (score - max).exp();
            block_sum += p;
            let v = &head.v[j * head.head_dim_v..][..head.head_dim_v];
            o.iter_mut().zip(v).for_each(|(o, v)| *o += round(p) * v);
        }
        sum += block_sum;
    }
    let o = o.iter().map(|&o| if sum == 0.0 { 0.0 } else { round(o / sum).into() }).collect();
    (o, (max + sum.ln()).into())
}

/// Greatest errors of O and of the LSE over all rows, as shares of the tolerance.
fn worst(head: &Head<'_>, dtype: DType, drop: Option<usize>) -> (f64, f64) {
    let tolerance = Tolerance::new(dtype, dtype, head.soft_cap);
    let (mut of_o, mut of_lse) = (0.0_f64, 0.0_f64);
    for i in 0..head.len_q {
        let row = head.row(i);
        let (o, lse) = emulated(head, i, dtype, drop);
        for (column, o) in o.iter().enumerate() {
            let err = (o - row.o[column]).abs();
            if err > 0.0 {
                of_o = of_o.max(err / tolerance.of_o(&row, column));
            }
        }
        if row.lse.is_finite() {
            of_lse = of_lse.max((lse - row.lse).abs() / tolerance.of_lse(&row));
        }
    }
    (of_o, of_lse)
}

fn values(dtype: DType, values: crate::case::Values, rows: (usize, usize)) -> [Vec<f32>; 3] {
    let case: crate::case::Case = serde_json::from_value(serde_json::json!({
        "name": "emulated", "dtype": dtype, "values": values, "batch": 1, "num_q_heads": 1,
        "num_kv_heads": 1, "head_dim_qk": DIM, "seqlen_q": rows.0, "seqlen_kv": rows.1,
    }))
    .unwrap();
    [(frazil_core::Role::Q, rows.0), (frazil_core::Role::K, rows.1), (frazil_core::Role::V, rows.1)]
        .map(|(role, rows)| crate::data::head(&case, role, (0, 0), (rows, DIM)))
}

/// The key that counts most for query 0.
fn heaviest_key(head: &Head<'_>) -> usize {
    let score = |j: usize| -> f32 {
        head.q[..DIM].iter().zip(&head.k[j * DIM..]).map(|(q, k)| q * k).sum()
    };
    (0..head.len_kv).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap()
}

/// A head without modifiers.
fn plain<'a>([q, k, v]: &'a [Vec<f32>; 3]) -> Head<'a> {
    Head {
        len_q: q.len() / DIM,
        len_kv: k.len() / DIM,
        head_dim_qk: DIM,
        head_dim_v: DIM,
        q,
        k,
        v,
        softmax_scale: (1.0 / (DIM as f32).sqrt()).into(),
        soft_cap: None,
        bias: None,
        alibi: None,
        band: None,
        sink: None,
    }
}

#[rstest::rstest]
fn a_correct_kernel_passes_and_one_that_drops_a_key_fails(
    #[values(DType::Bf16, DType::F16, DType::F32)] dtype: DType,
    #[values(1, 33, 1000)] len_kv: usize,
    #[values(
        crate::case::Values::Normal,
        crate::case::Values::SparseInts,
        crate::case::Values::OneHotV,
        crate::case::Values::Large,
        crate::case::Values::ConstantV,
        crate::case::Values::NegativeScores
    )]
    kind: crate::case::Values,
    #[values(None, Some(2.0))] soft_cap: Option<f64>,
) {
    let len_q = 40;
    let inputs = values(dtype, kind, (len_q, len_kv));
    let mut head = Head { soft_cap, ..plain(&inputs) };
    for band in [None, Some(Band::causal(Align::TopLeft))] {
        head.band = band;
        let (of_o, of_lse) = worst(&head, dtype, None);
        assert!(of_o <= 0.8 && of_lse <= 0.8, "correct: {of_o} of o, {of_lse} of the lse");
    }
    head.band = None;
    let (of_o, of_lse) = worst(&head, dtype, Some(heaviest_key(&head)));
    assert!(of_lse > 1.0, "one key dropped: {of_lse} of the lse");
    // The mean of equal values is the same without one of them: no O can tell, and of V with
    // zeros in most places only a row that has something there.
    let tells = matches!(kind, crate::case::Values::Normal | crate::case::Values::OneHotV);
    assert!(!tells || of_o > 1.0, "one key dropped: {of_o} of o");
}

/// Keys hidden by a finite number: every other one, of which no weight is left.
fn hiding(len_q: usize, len_kv: usize) -> Vec<f32> {
    (0..len_q * len_kv).map(|at| if at % len_kv % 2 == 1 { -1e9 } else { 0.0 }).collect()
}

#[rstest::rstest]
fn a_bias_that_hides_keys_widens_nothing(
    #[values(DType::Bf16, DType::F16, DType::F32)] dtype: DType,
    #[values(33, 1000)] len_kv: usize,
) {
    let inputs = values(dtype, crate::case::Values::Normal, (40, len_kv));
    let bias = hiding(40, len_kv);
    let plain = plain(&inputs);
    let hidden = Head { bias: Some(&bias), ..plain };
    let tolerance = Tolerance::new(dtype, dtype, None);
    // The same keys, by themselves.
    let every_other = |rows: &[f32]| -> Vec<f32> {
        rows.chunks_exact(DIM).step_by(2).flatten().copied().collect()
    };
    let (k, v) = (every_other(plain.k), every_other(plain.v));
    let alone = Head { k: &k, v: &v, len_kv: len_kv.div_ceil(2), ..plain };
    for i in 0..40 {
        let (hidden, alone) = (hidden.row(i), alone.row(i));
        for column in 0..DIM {
            let (is, was) = (tolerance.of_o(&hidden, column), tolerance.of_o(&alone, column));
            assert!((is - was).abs() <= 1e-9 * was, "{is} with the bias, {was} without keys");
        }
        assert!((tolerance.of_lse(&hidden) - tolerance.of_lse(&alone)).abs() < 1e-12);
        assert!((tolerance.of_max(&hidden) - tolerance.of_max(&alone)).abs() < 1e-12);
    }
    let (of_o, of_lse) = worst(&hidden, dtype, None);
    assert!(of_o <= 0.8 && of_lse <= 0.8, "correct: {of_o} of o, {of_lse} of the lse");
    let score = |j: usize| -> f32 {
        plain.q[..DIM].iter().zip(&plain.k[j * DIM..]).map(|(q, k)| q * k).sum()
    };
    let heaviest = (0..len_kv).step_by(2).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap();
    let (of_o, of_lse) = worst(&hidden, dtype, Some(heaviest));
    assert!(of_o > 1.0 && of_lse > 1.0, "one key dropped: {of_o} of o, {of_lse} of the lse");
}

/// Column 0 of V is 0 but for one key of hardly any weight: its output is that key's alone, with all
/// that f32 loses on its score.
#[test]
fn an_output_of_a_faint_key_has_its_tolerance() {
    for below in [29.0_f32, 40.0, 60.0, 80.0] {
        let mut inputs = values(DType::F32, crate::case::Values::Normal, (40, 33));
        inputs[2].chunks_exact_mut(DIM).for_each(|row| row[0] = 0.0);
        inputs[2][32 * DIM] = 1.0;
        let bias: Vec<f32> =
            (0..40 * 33).map(|at| if at % 33 == 32 { -below - 0.37 } else { 0.0 }).collect();
        let head = Head { bias: Some(&bias), ..plain(&inputs) };
        let (of_o, _) = worst(&head, DType::F32, None);
        assert!(of_o <= 0.8, "{below}: {of_o}");
    }
}

#[test]
fn a_tolerance_has_an_end() {
    let inputs = values(DType::F32, crate::case::Values::Normal, (4, 33));
    let head = Head { softmax_scale: 1e12, ..plain(&inputs) };
    let tolerance = Tolerance::new(DType::F32, DType::F32, None);
    for row in (0..4).map(|i| head.row(i)) {
        for column in 0..DIM {
            let end = row.o[column].abs() + row.max_abs_v[column];
            assert!(tolerance.of_o(&row, column) <= 1.001 * end);
        }
    }
}

/// Half the distance from 1 to the next number of the type.
#[test]
fn units_are_those_of_the_types() {
    let next = |one: f64| (one - 1.0) / 2.0;
    let bf16 = bf16::from_bits(bf16::ONE.to_bits() + 1);
    let f16 = f16::from_bits(f16::ONE.to_bits() + 1);
    assert_eq!(unit(DType::Bf16), next(bf16.to_f64()));
    assert_eq!(unit(DType::F16), next(f16.to_f64()));
    assert_eq!(unit(DType::F32), next(1.0_f32.next_up().into()));
}
