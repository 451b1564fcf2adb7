//! `frazil check` and `frazil explain` as processes.

mod common;

use common::{frazil, write};
use serde_json::{Value, json};

const PLAIN: &str = r#"
[[case]]
name = "plain"
dtype = "f16"
batch = 2
num_q_heads = 4
num_kv_heads = 2
head_dim_qk = 16
seqlen_q = 5
seqlen_kv = 7
lse = "natural"
answers = { cpu = "served" }
"#;

const DROPOUT: &str = r#"
[[case]]
name = "with_dropout"
dtype = "bf16"
batch = 1
num_q_heads = 1
num_kv_heads = 1
head_dim_qk = 8
seqlen_q = 3
seqlen_kv = 3
dropout = 0.1
answers = { cpu = "Feature(dropout)" }
"#;

/// Lines for cases, then the totals.
fn checked(args: &[&str], code: i32) -> (Vec<Value>, Value) {
    let said = frazil(["check", "--json"].iter().chain(args));
    let mut lines = said.assert_code(code).json();
    let last = lines.pop().expect("a line of totals");
    (lines, last["totals"].clone())
}

#[test]
fn right_and_declined_cases_pass() {
    let path = write("good.toml", format!("{PLAIN}{DROPOUT}"));
    let (lines, totals) = checked(&[path.to_str().unwrap()], 0);
    assert_eq!(lines.len(), 2);
    for key in ["id", "engine", "status", "max_err", "tol", "reason"] {
        assert!(lines.iter().all(|line| line.get(key).is_some()), "{key}");
    }
    assert_eq!(lines[0]["status"], "right");
    assert!(lines[0]["max_err"].as_f64().unwrap() <= lines[0]["tol"].as_f64().unwrap());
    assert_eq!(
        (&lines[1]["id"], &lines[1]["status"]),
        (&json!("with_dropout"), &json!("declined"))
    );
    assert_eq!(
        (&totals["right"], &totals["declined"], &totals["wrong"]),
        (&json!(1), &json!(1), &json!(0))
    );

    let said = frazil(["check", path.to_str().unwrap()]);
    assert!(
        said.assert_code(0).stdout.contains("with_dropout  sdpa_fwd_cpu  declined"),
        "{said:?}"
    );
    assert!(!said.stdout.contains("plain  "), "a right case needs no line");
}

#[test]
fn another_answer_than_the_file_states_is_an_error() {
    let lies = [
        PLAIN.replace("cpu = \"served\"", "cpu = \"DType\""),
        DROPOUT.replace("Feature(dropout)", "served"),
    ];
    for (at, text) in lies.iter().enumerate() {
        let path = write(&format!("lie_{at}.toml"), text);
        let (lines, totals) = checked(&[path.to_str().unwrap()], 1);
        assert!(["wrong", "error"].contains(&lines[0]["status"].as_str().unwrap()), "{lines:?}");
        let reason = lines[0]["reason"].as_str().unwrap();
        assert!(reason.contains("served"), "{reason}");
        assert_eq!(totals["right"], 0);
    }
}

#[test]
fn cases_are_chosen_by_text_and_work() {
    let path = write("chosen.toml", format!("{PLAIN}{DROPOUT}"));
    let path = path.to_str().unwrap();
    let (lines, _) = checked(&["--filter", "pla", path], 0);
    assert_eq!(lines.len(), 1);
    let (lines, totals) = checked(&["--max-gflop", "0", "--filter", "plain", path], 0);
    assert_eq!((&lines[0]["status"], &totals["skipped"]), (&json!("skipped"), &json!(1)));
    assert!(lines[0]["reason"].as_str().unwrap().contains("GFLOP"));
    let said = frazil(["check", "--filter", "nothing_like_it", path]);
    assert!(said.assert_code(2).stderr.contains("nothing_like_it"));
}

#[test]
fn verdicts_come_in_order_from_any_number_of_jobs() {
    let name = |at: usize| format!("plain_{at}");
    let text: String = (0..12).map(|at| PLAIN.replace("plain", &name(at))).collect();
    let path = write("twelve.toml", text);
    let (lines, totals) = checked(&["--jobs", "3", path.to_str().unwrap()], 0);
    let ids: Vec<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, (0..12).map(name).collect::<Vec<_>>());
    assert_eq!(totals["right"], 12);
}

const PEER: &str = r#"{"id":"peer-0","suite":"s","family":"fp16","data_type":"float16","is_infer":true,"diag_align":"TOP_LEFT","right_bound":0,"batches":1,"d_qk":16,"d_v":16,"s_q":4,"s_kv":4,"h_q":1,"h_k":1,"h_v":1,"shape_q":[1,1,4,16],"stride_q":[64,64,16,1],"shape_k":[1,1,4,16],"stride_k":[64,64,16,1],"shape_v":[1,1,4,16],"stride_v":[64,64,16,1],"shape_o":[1,1,4,16],"stride_o":[64,64,16,1],"shape_stats":[1,1,4,1],"stride_stats":[4,4,1,1],"rng_data_seed":1}"#;

#[test]
fn the_peers_lines_are_read_with_and_without_rules() {
    let with = |rule: &str| format!("{{\"rules\": [\"{rule}\"]}}\n{PEER}\n");
    let bare = write("bare.jsonl", PEER);
    let (lines, _) = checked(&[bare.to_str().unwrap()], 0);
    assert_eq!((&lines[0]["id"], &lines[0]["status"]), (&json!("peer-0"), &json!("right")));
    // Known by its content too.
    let ruled = write("ruled.txt", with("cpu: else -> served"));
    checked(&[ruled.to_str().unwrap()], 0);
    let lie = write("lie.jsonl", with("cpu: band -> Feature(band)"));
    checked(&[lie.to_str().unwrap()], 1);
}

#[test]
fn files_of_cases_that_mean_nothing() {
    let cases = [
        ("bad.toml", "[[case]]\nname = 3", "name"),
        ("empty.toml", "", "holds no case"),
        ("comment.toml", "# none\n\n", "holds no case"),
        ("empty.jsonl", "", "holds no case"),
        ("bad.jsonl", "{\"id\": 3}", "line 1"),
        ("unknown.toml", &format!("{PLAIN}\nseqlen = 3"), "seqlen"),
        ("twice.toml", &format!("{PLAIN}{PLAIN}"), "plain"),
    ];
    for (name, text, part) in cases {
        let path = write(name, text);
        let said = frazil(["check", path.to_str().unwrap()]);
        assert!(said.assert_code(2).stderr.contains(part), "{name}: {said:?}");
        assert!(said.stderr.contains(name), "{name}: {said:?}");
    }
    let path = write("given_twice.toml", PLAIN);
    let said = frazil(["check", path.to_str().unwrap(), path.to_str().unwrap()]);
    assert!(said.assert_code(2).stderr.contains("is given twice"), "{said:?}");
    for command in ["check", "explain"] {
        let said = frazil([command, "[{\"name\": \"x\"}]"]);
        assert!(said.assert_code(2).stderr.contains("JSON array"), "{said:?}");
    }
}

#[test]
fn a_case_is_explained() {
    let path = write("explained.toml", format!("{PLAIN}{DROPOUT}"));
    let path = path.to_str().unwrap();
    let said = frazil(["explain", "--json", "--case", "plain", path]);
    let object = &said.assert_code(0).json()[0];
    assert_eq!(object["case"], "plain");
    assert_eq!(object["features"], json!(["lse_natural"]));
    let answer = &object["answers"][0];
    assert_eq!((&answer["engine"], &answer["answer"]), (&json!("sdpa_fwd_cpu"), &json!("served")));
    let plan = &answer["plans"][0];
    assert_eq!(plan["rank"], 1);
    assert!(plan["workspace_bytes"].is_u64() && !plan["config"].as_str().unwrap().is_empty());
    assert!(plan["launches"].is_array());
    let said = frazil(["explain", "--case", "plain", path]);
    assert!(said.assert_code(0).stdout.contains("sdpa_fwd_cpu: served"), "{said:?}");
}

#[test]
fn a_case_that_nobody_serves_is_code_3() {
    let path = write("declined.toml", format!("{PLAIN}{DROPOUT}"));
    let path = path.to_str().unwrap();
    let said = frazil(["explain", "--case", "with_dropout", path]);
    assert!(said.assert_code(3).stdout.contains("declined (Feature): feature dropout"), "{said:?}");
    // Engines for GPUs serve on these, and that for the host does not.
    for target in ["sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm120", "sm121"] {
        let said = frazil(["explain", "--json", "--target", target, "--case", "plain", path]);
        let case = &said.assert_code(0).json()[0];
        let answers = case["answers"].as_array().unwrap();
        assert_eq!(answers[0]["answer"], "served");
        let host = answers.iter().find(|answer| answer["engine"] == "sdpa_fwd_cpu").unwrap();
        assert_eq!(host["kind"], "Device");
    }
    frazil(["explain", "--target", "host", "--case", "plain", path]).assert_code(0);
    let said = frazil(["explain", "--case", "plane", path]);
    assert!(said.assert_code(2).stderr.contains("plane"), "{said:?}");
}

#[test]
fn a_case_can_be_an_argument() {
    let case = r#"{"name": "mine", "dtype": "bf16", "batch": 1, "num_q_heads": 8,
        "num_kv_heads": 1, "head_dim_qk": 128, "seqlen_q": 1, "seqlen_kv": 4096}"#;
    let said = frazil(["explain", "--json", case]);
    assert_eq!(said.assert_code(0).json()[0]["case"], "mine");
    let said = frazil(["explain", &case.replace("\"num_kv_heads\": 1", "\"num_kv_heads\": 3")]);
    assert!(said.assert_code(2).stderr.contains("num_kv_heads"), "{said:?}");
    frazil(["explain", "{\"name\": "]).assert_code(2);
    for nameless in ["{}", &case.replace("\"name\"", "\"title\"")] {
        let said = frazil(["explain", nameless]);
        assert!(said.assert_code(2).stderr.contains("a case has a `name`"), "{said:?}");
    }
    frazil(["explain", "{\"name\": \"x\", \"frob\": 1}"]).assert_code(2);
    let peer = frazil(["explain", "--json", PEER]);
    assert_eq!(peer.assert_code(0).json().len(), 1, "runs that differ in values ask one question");
}

#[test]
fn declines_alone_are_code_3_unless_the_file_states_them() {
    let stated = write("stated.toml", DROPOUT);
    frazil(["check", stated.to_str().unwrap()]).assert_code(0);
    let silent: String =
        DROPOUT.lines().filter(|l| !l.starts_with("answers")).collect::<Vec<_>>().join("\n");
    let silent = write("silent.toml", silent);
    frazil(["check", silent.to_str().unwrap()]).assert_code(3);
}

#[test]
fn hostile_numbers_are_answers() {
    for (field, value) in [
        ("batch", "4611686018427387904"),
        ("seqlen_q", "9223372036854775807"),
        ("seqlen_kv", "4294967296"),
        ("head_dim_qk", "0"),
        ("num_q_heads", "3"),
        ("num_kv_heads", "0"),
        ("softmax_scale", "nan"),
        ("batch", "2147483648"),
    ] {
        let lines =
            PLAIN.lines().filter(|line| !line.starts_with(field) && !line.starts_with("answers"));
        let text = format!("{}\n{field} = {value}\n", lines.collect::<Vec<_>>().join("\n"));
        let path = write(&format!("hostile_{field}_{value}.toml"), text);
        let said = frazil(["check", path.to_str().unwrap()]);
        said.assert_code(2);
        // Some numbers mean nothing to whoever reads the file.
        if said.stdout.is_empty() {
            assert!(said.stderr.contains(field), "{field}: {said:?}");
            continue;
        }
        assert!(
            said.stdout.contains("INVALID") || said.stdout.contains("ERROR"),
            "{field}: {said:?}"
        );
        frazil(["explain", path.to_str().unwrap()]).assert_code(2);
        // A wrong answer is worse, a right one and a stated decline are not.
        for (others, code) in
            [(format!("{PLAIN}{DROPOUT}"), 2), (DROPOUT.replace("Feature(dropout)", "DType"), 1)]
        {
            let both = write("hostile_and.toml", others);
            let said = frazil(["check", path.to_str().unwrap(), both.to_str().unwrap()]);
            said.assert_code(code);
        }
    }
}
