//! The reader against the meaning of each field, on rows written out here.

use frazil_core::{Align, Band, DType, EngineId, LseForm};
use serde_json::{Map, Value, json};

use super::{PeerFile, read};
use crate::case::{Case, PageOrder, SideCase, TableOrder, Values};

/// A plain row with some fields changed; null removes one.
fn row(changes: &Value) -> String {
    let mut row: Map<String, Value> = serde_json::from_value(json!({
        "id": "peer-1", "suite": "s", "family": "fp16", "data_type": "bfloat16",
        "rng_data_seed": 7, "is_infer": true, "diag_align": "BOTTOM_RIGHT",
        "batches": 2, "d_qk": 16, "d_v": 8, "s_q": 3, "s_kv": 5, "h_q": 4, "h_k": 2, "h_v": 2,
        "shape_q": [2, 4, 3, 16], "stride_q": [192, 48, 16, 1],
        "shape_k": [2, 2, 5, 16], "stride_k": [160, 80, 16, 1],
        "shape_v": [2, 2, 5, 8], "stride_v": [99990001, 40, 8, 1],
        "shape_o": [2, 4, 3, 8], "stride_o": [96, 24, 8, 1],
        "shape_stats": [2, 4, 3, 1], "stride_stats": [12, 3, 1, 1],
    }))
    .unwrap();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            row.remove(name);
        } else {
            row.insert(name.clone(), value.clone());
        }
    }
    Value::Object(row).to_string()
}

fn runs(changes: &Value) -> Vec<Case> {
    let PeerFile { entries, .. } = read(&row(changes)).unwrap();
    entries.into_iter().next().unwrap().runs
}

fn strides<'a>(case: &'a Case, role: &str) -> Option<&'a [i64]> {
    case.place.get(role)?.strides.as_deref()
}

#[test]
fn a_plain_row_runs_with_integers_and_with_normals() {
    let runs = runs(&json!({}));
    assert_eq!(
        runs.iter().map(|case| case.values).collect::<Vec<_>>(),
        [Values::SparseInts, Values::Normal]
    );
    let case = &runs[0];
    assert_eq!((case.dtype, case.o_dtype, case.softmax_scale), (DType::Bf16, None, Some(0.125)));
    assert_eq!((case.band, case.lse, case.seed), (None, None, 7));
    assert!(case.q.is_dense() && case.kv.is_dense() && !case.max && !case.sum_exp);
    assert_eq!(strides(case, "v"), Some(&[99_990_001, 40, 8, 1][..]), "noise is passed on");
    assert_eq!(strides(case, "lse"), None);
}

#[test]
fn a_row_without_is_infer_asks_for_the_lse() {
    let case = &runs(&json!({ "is_infer": null, "with_score_max": true }))[0];
    assert_eq!((case.lse, case.max, case.sum_exp), (Some(LseForm::Natural), true, false));
    assert_eq!(strides(case, "lse"), Some(&[12, 3, 1][..]));
    assert_eq!(strides(case, "max"), Some(&[12, 3, 1][..]));
}

/// Keys that each query sees under a case's band, by the definition.
fn visible(band: Band, len_q: i64, len_kv: i64) -> Vec<Vec<i64>> {
    let off = band.align.offset(len_q, len_kv);
    let sees = |i: i64, j: i64| {
        band.left.is_none_or(|left| j >= i + off - i64::from(left))
            && band.right.is_none_or(|right| j <= i + off + i64::from(right))
    };
    (0..len_q).map(|i| (0..len_kv).filter(|&j| sees(i, j)).collect()).collect()
}

#[test]
fn bounds_show_the_keys_that_the_peer_shows() {
    let band = |changes| runs(&changes)[0].band.unwrap();
    let top_left = band(json!({ "diag_align": "TOP_LEFT", "left_bound": 1, "right_bound": 3 }));
    assert_eq!(visible(top_left, 6, 20)[5], [5, 6, 7, 8]);
    let window = band(json!({ "left_bound": 2, "right_bound": 0 }));
    assert_eq!(visible(window, 3, 5), [[1, 2], [2, 3], [3, 4]]);
    let causal = band(json!({ "right_bound": 0 }));
    assert_eq!(visible(causal, 5, 2), [vec![], vec![], vec![], vec![0], vec![0, 1]]);
}

#[test]
fn an_alignment_without_bounds_is_for_alibi_alone() {
    assert_eq!(runs(&json!({}))[0].band, None);
    let band = Band { align: Align::BottomRight, left: None, right: None };
    assert_eq!(runs(&json!({ "is_alibi": true }))[0].band, Some(band));
}

#[test]
fn a_ragged_row_runs_in_three_forms() {
    let runs = runs(&json!({
        "is_padding": true, "is_ragged": true, "is_infer": null,
        "seq_len_q": [3, 0], "seq_len_kv": [5, 60], "stride_v": [80, 8, 16, 1],
    }));
    assert_eq!(runs.len(), 6);
    assert!(runs.iter().all(|case| case.place.is_empty()), "token-major rows are the plain ones");
    let capacity_of = |side: &SideCase| match side {
        SideCase::PackedLengths { capacity, .. } | SideCase::PackedPrefix { capacity, .. } => {
            *capacity
        }
        other => panic!("{other:?}"),
    };
    for case in &runs {
        assert_eq!((capacity_of(&case.q), capacity_of(&case.kv)), (Some(64), Some(128)));
    }
    let bases: Vec<Option<i32>> = runs
        .iter()
        .map(|case| match case.q {
            SideCase::PackedPrefix { base, .. } => Some(base),
            _ => None,
        })
        .collect();
    assert_eq!(bases, [None, None, Some(0), Some(0), Some(1000), Some(1000)]);
}

#[test]
fn a_paged_row_has_the_peers_tables_and_padded_queries() {
    let lengths = json!({ "is_padding": true, "is_paged": true, "block_size": 4,
        "seq_len_q": [3, 1], "seq_len_kv": [5, 0] });
    let case = &runs(&lengths)[0];
    assert!(matches!(&case.q, SideCase::Padded { lengths, .. } if *lengths == [3, 1]));
    let SideCase::Paged {
        page_size: 4,
        table: TableOrder::ColumnMajor,
        pages: PageOrder::Interleaved,
        one_table: false,
        ..
    } = case.kv
    else {
        panic!("{:?}", case.kv)
    };
    assert_eq!((strides(case, "k"), strides(case, "v")), (None, None), "unused for pools");
    assert_eq!(strides(case, "q"), Some(&[192, 48, 16, 1][..]));
}

#[test]
fn eight_bit_rows_ignore_what_the_peers_runner_ignores() {
    let padded = |family: &str| {
        let changes = json!({ "family": family, "data_type": "float8_e4m3fn", "output_type": "float16",
            "is_padding": true, "seq_len_q": [3, 1], "seq_len_kv": [5, 0], "rescale_threshold": 0.0 });
        runs(&changes).remove(0)
    };
    let fp8 = padded("fp8");
    assert_eq!((fp8.dtype, fp8.o_dtype()), (DType::F8E4m3, DType::F16));
    assert!(fp8.q.is_dense() && fp8.kv.is_dense(), "lengths are ignored");
    assert_eq!(strides(&fp8, "k"), Some(&[160, 16, 32, 1][..]), "token-major");
    assert_eq!(strides(&padded("mxfp8"), "k"), Some(&[160, 80, 16, 1][..]), "head-major");
}

#[test]
fn unequal_heads_of_k_and_v_stay_unequal() {
    let case = &runs(&json!({ "h_v": 1, "shape_v": [2, 1, 5, 8] }))[0];
    assert_eq!((case.num_kv_heads, case.num_v_heads()), (2, 1));
}

#[test]
fn a_bad_line_is_named_with_its_field() {
    let good = row(&json!({}));
    let twice = read(&format!("{good}\n\n{good}")).unwrap_err().to_string();
    assert_eq!(twice, "line 3: id `peer-1` is there twice");
    let broken = read(&format!("{good}\n{{\"id\": }}")).unwrap_err().to_string();
    assert_eq!(broken, "line 2: not a JSON object: expected value at column 8");
    for (changes, field) in [
        (json!({ "s_q": null }), "`s_q`: is missing"),
        (json!({ "s_q": "3" }), "`s_q`: invalid type"),
        (json!({ "s_q": -3 }), "`s_q`: invalid value"),
        (json!({ "left_bound": 0 }), "`left_bound`"),
        (json!({ "colour": "red" }), "`colour`: is unknown"),
        (json!({ "is_ragged": true }), "`is_padding`"),
        (json!({ "is_padding": true, "seq_len_q": [1, 1] }), "`seq_len_kv`: is missing"),
        (
            json!({ "is_padding": true, "seq_len_q": [1], "seq_len_kv": [1, 1] }),
            "`seq_len_q`: has 1",
        ),
        (
            json!({ "shape_o": [2, 4, 3, 16] }),
            "`shape_o`: is [2, 4, 3, 16], the extents say [2, 4, 3, 8]",
        ),
        (json!({ "data_type": "float4" }), "`data_type`: unknown variant"),
        (json!({ "stride_q": [1, 1, 1] }), "`stride_q`: invalid length"),
    ] {
        let error = read(&format!("{good}\n{}", row(&changes))).unwrap_err().to_string();
        assert!(error.starts_with("line 2: field ") && error.contains(field), "{error}");
    }
    let headed = format!("\n  \n{{\"rules\": [\"cpu: else -> served\"]}}\n{good}");
    assert!(!read(&headed).unwrap().rules.is_empty(), "the head is the first line with a text");
    let error = read("{\"rules\": [\"cpu: dropuot -> served\"]}").unwrap_err().to_string();
    assert!(error.starts_with("line 1: field `rules`: rule `cpu: dropuot"), "{error}");
    assert!(read("[]").unwrap_err().to_string().starts_with("line 1: not a JSON object"));
    assert!(read(&format!("{good}\n{{\"rules\": []}}")).is_err(), "rules stand at the head");
}

/// The runner counts an engine that is not named as a failure.
#[test]
fn an_engine_without_a_rule_is_not_named() {
    let text = format!("{{\"rules\": [\"cpu: else -> served\"]}}\n{}", row(&json!({})));
    let engines = ["sdpa_fwd_cpu", "sdpa_fwd_sm80"].map(EngineId::new);
    let expect = read(&text).unwrap().entries(&engines).remove(0).expect.unwrap();
    assert_eq!(expect.into_iter().collect::<Vec<_>>(), [("sdpa_fwd_cpu".into(), "served".into())]);
    assert_eq!(read(&row(&json!({}))).unwrap().entries(&engines)[0].expect, None);
}
