//! The reference against answers worked out by hand.

use frazil_conformance::reference::{Head, Row};
use frazil_core::{Align, Band};

fn head<'a>((q, k, v): (&'a [f32], &'a [f32], &'a [f32]), dim: usize, dim_v: usize) -> Head<'a> {
    Head {
        len_q: q.len() / dim,
        len_kv: k.len() / dim,
        head_dim_qk: dim,
        head_dim_v: dim_v,
        q,
        k,
        v,
        softmax_scale: 1.0,
        soft_cap: None,
        bias: None,
        alibi: None,
        band: None,
        sink: None,
    }
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-12
}

/// One query, two keys with scores 0 and ln 3: weights 1/4 and 3/4.
#[test]
fn two_keys_by_hand() {
    let ln3 = 3_f32.ln();
    let (q, k, v) = ([1.0], [0.0, ln3], [8.0, 4.0]);
    let w = f64::from(ln3).exp() / (1.0 + f64::from(ln3).exp());
    let row = head((&q, &k, &v), 1, 1).row(0);
    assert!(near(row.o[0], 8.0 * (1.0 - w) + 4.0 * w));
    assert!((row.o[0] - 5.0).abs() < 1e-6);
    assert!(near(row.lse, (1.0 + f64::from(ln3).exp()).ln()));
    assert!(near(row.max, ln3.into()));
    assert!(near(row.sum_exp, 1.0 + (-f64::from(ln3)).exp()));
    assert!(near(row.sum_p2_v2[0], (8.0 * (1.0 - w)).powi(2) + (4.0 * w).powi(2)));
    assert!(near(row.sum_p_abs_v[0], row.o[0]));
    assert!(near(row.sum_abs_v[0], 12.0));
}

#[test]
fn modifiers_apply_in_order() {
    let (q, k, v) = ([2.0], [3.0], [1.0]);
    let mut head = head((&q, &k, &v), 1, 1);
    head.softmax_scale = 0.5;
    head.soft_cap = Some(2.0);
    head.bias = Some(&[10.0]);
    head.alibi = Some((0.25, Align::TopLeft));
    head.sink = Some(1.0);
    let score = 2.0 * 1.5_f64.tanh() + 10.0;
    let row = head.row(0);
    assert!(near(row.max, score));
    assert!(near(row.sum_exp, 1.0 + (1.0 - score).exp()));
    assert!(near(row.o[0], 1.0 / row.sum_exp));
}

/// Keys that each query sees, told by a one-hot V under equal scores.
fn visible(band: Band, len_q: usize, len_kv: usize) -> Vec<Vec<usize>> {
    let (q, k) = (vec![0.0; len_q], vec![0.0; len_kv]);
    let one_hot = |at: usize| if at / len_kv == at % len_kv { 1.0 } else { 0.0 };
    let v: Vec<f32> = (0..len_kv * len_kv).map(one_hot).collect();
    let mut head = head((&q, &k, &v), 1, len_kv);
    head.band = Some(band);
    let seen = |row: Row| (0..len_kv).filter(|&j| row.o[j] > 0.0).collect();
    (0..len_q).map(|i| seen(head.row(i))).collect()
}

/// The three examples at the end of `cases/README.md`; the peer's `left_bound` is one more.
#[test]
fn bands_show_the_sets_of_the_examples() {
    let band = |align, left, right| Band { align, left, right };
    let top_left = visible(band(Align::TopLeft, Some(0), Some(3)), 9, 12);
    assert_eq!(top_left[5], [5, 6, 7, 8]);
    let bottom_right = visible(band(Align::BottomRight, Some(1), Some(0)), 3, 5);
    assert_eq!(bottom_right, [[1, 2], [2, 3], [3, 4]]);
    let more_queries = visible(band(Align::BottomRight, None, Some(0)), 5, 2);
    let nothing: Vec<usize> = Vec::new();
    assert_eq!(more_queries, [nothing.clone(), nothing.clone(), nothing, vec![0], vec![0, 1]]);
}

#[test]
fn no_visible_key_gives_zero_and_minus_infinity() {
    let (q, k, v) = ([1.0, 1.0], [1.0], [f32::NAN]);
    let mut head = head((&q, &k, &v), 1, 1);
    head.band = Some(Band::causal(Align::BottomRight));
    let row = head.row(0);
    assert_eq!(row.o[0].to_bits(), 0);
    assert_eq!((row.lse, row.max, row.sum_exp), (f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0));
    head.sink = Some(-3.0);
    let row = head.row(0);
    assert_eq!(row.o[0].to_bits(), 0);
    assert_eq!((row.lse, row.max, row.sum_exp), (-3.0, -3.0, 1.0));
}
