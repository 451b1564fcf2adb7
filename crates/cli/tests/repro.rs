//! `frazil repro`, and the lines that `frazil check` prints for it, through a shell.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{Said, command, f32s, frazil, packed, write};

const CASE: &str = r#"{"name": "mine", "dtype": "bf16", "batch": 2, "num_q_heads": 4,
    "num_kv_heads": 2, "head_dim_qk": 16, "seqlen_q": 5, "seqlen_kv": 7, "seed": 3}"#;

/// The case with another name and an answer that the engine does not give.
fn lying(name: &str) -> String {
    let mut case: serde_json::Value = serde_json::from_str(CASE).unwrap();
    case["name"] = name.into();
    case["answers"] = serde_json::json!({"cpu": "DType"});
    case.to_string()
}

/// A line given to a shell that finds this program as `frazil`.
fn shell(line: &str) -> Said {
    let program = common::program();
    let mut paths = vec![program.parent().unwrap().to_owned()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut shell = Command::new("sh");
    shell.env("PATH", std::env::join_paths(paths).unwrap());
    shell.arg("-c").arg(line).output().unwrap().into()
}

fn with_input(args: &[&str], input: &[u8]) -> Said {
    let mut child = command(args);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

/// Lines of `frazil check` that repeat a failure.
fn lines_to_repeat(said: &Said) -> Vec<&str> {
    let is_line = |line: &&str| line.starts_with("frazil repro") || line.starts_with("printf");
    said.stdout.lines().map(str::trim_start).filter(is_line).collect()
}

/// The first line of a verdict: id, engine, status, reason.
fn verdict<'a>(said: &'a Said, status: &str) -> &'a str {
    let is_verdict = |line: &&str| line.contains(&format!("sdpa_fwd_cpu  {status}"));
    said.stdout.lines().find(is_verdict).unwrap_or_else(|| panic!("{said:#?}"))
}

#[cfg(unix)]
#[test]
fn a_printed_line_fails_alike_in_a_shell() {
    let meaningless = CASE.replace("\"num_kv_heads\": 2", "\"num_kv_heads\": 3");
    for (case, status, code) in [
        (lying("plain"), "WRONG", 1),
        (lying("it's $(exit 7) `exit 7` \\ \"q\" ; exit 7 #"), "WRONG", 1),
        (lying("one\ntwo\té漢𝄞\u{202e}"), "WRONG", 1),
        (lying("'; exit 7; '"), "WRONG", 1),
        (meaningless, "INVALID", 2),
    ] {
        let path = write("to_repeat.json", format!("{}\n", case.replace('\n', " ")));
        let found = frazil(["check", path.to_str().unwrap()]);
        let lines = lines_to_repeat(found.assert_code(code));
        assert_eq!(lines.len(), 1, "{found:#?}");
        let again = shell(lines[0]);
        assert_eq!(verdict(again.assert_code(code), status), verdict(&found, status));
        assert_eq!(lines_to_repeat(&again), lines);
        // The same for machines.
        let object = &frazil(["check", "--json", path.to_str().unwrap()]).json()[0];
        assert_eq!(object["repro"], lines[0]);
    }
}

/// More than Linux takes as one argument.
#[cfg(unix)]
#[test]
fn a_long_case_is_repeated_through_a_pipe() {
    let path = write("long.json", lying(&"it's long ".repeat(20_000)));
    let found = frazil(["check", path.to_str().unwrap()]);
    let lines = lines_to_repeat(found.assert_code(1));
    assert!(lines.len() == 1 && lines[0].starts_with("printf %s '"), "{}", lines.len());
    let script = write("long.sh", lines[0]);
    let again = shell(&format!("sh {}", script.to_str().unwrap()));
    assert_eq!(verdict(again.assert_code(1), "WRONG"), verdict(&found, "WRONG"));
}

/// A rule of the peer's file is not in its rows, and is in the line.
#[cfg(unix)]
#[test]
fn an_expectation_of_a_file_is_repeated() {
    let row = include_str!("../../../tests/cases/peer_sdpa.jsonl").lines();
    let row = row.into_iter().find(|line| line.contains("\"float16\"")).unwrap();
    let rules = "{\"rules\": [\"cpu: else -> DType\"]}";
    let path = write("rules.jsonl", format!("{rules}\n{row}\n"));
    let found = frazil(["check", path.to_str().unwrap()]);
    let lines = lines_to_repeat(found.assert_code(1));
    let again = shell(lines[0]);
    assert!(verdict(again.assert_code(1), "WRONG").contains("answers served, expected DType"));
}

#[test]
fn a_case_comes_as_text_as_a_file_or_from_standard_input() {
    let one_line = CASE.replace('\n', "");
    let file = write("one.json", &one_line);
    let toml = "[[case]]\nname = \"t\"\ndtype = \"f16\"\nbatch = 1\nnum_q_heads = 1\n\
                num_kv_heads = 1\nhead_dim_qk = 8\nseqlen_q = 1\nseqlen_kv = 1\n";
    for said in [
        frazil(["repro", CASE]),
        frazil(["repro", file.to_str().unwrap()]),
        with_input(&["repro", "-"], one_line.as_bytes()),
        with_input(&["repro", "--engine", "cpu", "-"], toml.as_bytes()),
        with_input(&["repro", "--json", "-"], one_line.as_bytes()),
    ] {
        said.assert_code(0);
        assert!(said.stdout.contains("right"), "{said:#?}");
    }
    let said = frazil(["repro", CASE]);
    assert!(said.stdout.starts_with("case: mine\noperation: sdpa_fwd, features: "), "{said:#?}");
    for command in ["check", "explain"] {
        with_input(&[command, "-"], one_line.as_bytes()).assert_code(0);
    }
}

#[test]
fn what_is_no_case_is_refused() {
    let two = write("two.jsonl", format!("{}\n{}\n", lying("a"), lying("b")));
    for (said, part) in [
        (frazil(["repro", two.to_str().unwrap()]), "holds 2 cases"),
        (frazil(["repro", "{\"name\": "]), "no JSON"),
        (frazil(["repro", "{\"name\": \"x\", \"frob\": 1}"]), "frob"),
        (frazil(["repro", "[]"]), "JSON array"),
        (frazil(["repro", "--engine", "acme/sdpa_fwd_x", CASE]), "there are: sdpa_fwd_cpu"),
        (with_input(&["repro", "-"], b""), "standard input: holds no case"),
        (with_input(&["repro", "-"], b"\xff\xfe"), "standard input: invalid utf-8"),
    ] {
        assert!(said.assert_code(2).stderr.contains(part), "{part}: {said:#?}");
        assert_eq!(said.stdout, "");
    }
}

#[test]
fn a_decline_is_code_3_unless_the_case_states_it() {
    let dropout = CASE.replacen('{', "{\"dropout\": 0.1, ", 1);
    let said = frazil(["repro", &dropout]);
    assert!(said.assert_code(3).stdout.contains("declined  Feature: feature dropout"), "{said:#?}");
    let stated = dropout.replacen('{', "{\"answers\": {\"cpu\": \"Feature(dropout)\"}, ", 1);
    frazil(["repro", &stated]).assert_code(0);
}

/// A file is not in the line that `frazil run` prints for it; its checksum is beside.
#[cfg(unix)]
#[test]
fn a_wrong_file_is_run_again() {
    let bytes = packed(|tensors| tensors.push(f32s("expected_o", &[3, 2, 4], |_| 9.0)));
    let path = write("it's wrong.safetensors", bytes);
    let path = path.to_str().unwrap();
    let said = frazil(["run", "--align", "top-left", "--causal", "--scale", "-0.5", path]);
    // Expectations do not judge where arguments ask for other scores.
    assert!(!said.assert_code(0).stdout.contains("repeat"), "{said:#?}");
    let found = frazil(["run", "--repeat", "2", path]);
    let line = |said: &Said| {
        let mut lines = said.stdout.lines().map(str::trim_start);
        let line = lines.find_map(|line| line.strip_prefix("repeat     ")).unwrap();
        (line.to_owned(), lines.next().unwrap().to_owned())
    };
    let (repeat, cksum) = line(found.assert_code(1));
    let again = shell(&repeat);
    assert_eq!(line(again.assert_code(1)), (repeat.clone(), cksum.clone()));
    let object = &frazil(["run", "--json", path]).json()[0];
    assert_eq!(object["repro"], repeat.as_str());
    assert!(cksum.ends_with(object["cksum"].as_str().unwrap()), "{cksum}");
    let tool = Command::new("cksum").arg(path).output().unwrap();
    let tool = String::from_utf8(tool.stdout).unwrap();
    assert!(tool.starts_with(object["cksum"].as_str().unwrap()), "{tool}");
}
