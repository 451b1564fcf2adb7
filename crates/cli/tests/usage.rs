//! Arguments, help, exit codes, pipes.

mod common;

use std::io::Read;
use std::process::Stdio;

use common::{command, frazil, minilm};

#[test]
fn help_and_versions_are_asked_for() {
    let said = frazil(["--version"]);
    assert_eq!(said.assert_code(0).stdout.trim(), concat!("frazil ", env!("CARGO_PKG_VERSION")));
    for name in ["run", "check", "explain", "engines"] {
        let said = frazil([name, "--help"]);
        assert!(said.assert_code(0).stdout.contains("Example"), "{name}: {}", said.stdout);
    }
    for args in [&["--help"][..], &["check", "--help"]] {
        assert!(frazil(args).assert_code(0).stdout.contains("Exit codes"));
    }
    assert!(frazil(["run", "--help"]).assert_code(0).stdout.contains("exit code 1"));
}

#[test]
fn wrong_usage_is_code_2() {
    let file = minilm(0);
    let file = file.to_str().unwrap();
    let cases: [&[&str]; 14] = [
        &[],
        &["frob"],
        &["run"],
        &["run", "--dtype", "f8", file],
        &["run", "--repeat", "0", file],
        &["run", "--window", "0", file],
        &["run", "--align", "top-left", file],
        &["run", "--engine", "nobody", file],
        &["check"],
        &["check", "--device", "moon", file],
        &["check", "--max-gflop", "nan", file],
        &["check", "--jobs", "0", file],
        &["explain"],
        &["explain", "--target", "sm70", "{}"],
    ];
    for args in cases {
        let said = frazil(args);
        said.assert_code(2);
        assert_eq!(said.stdout, "", "{args:?}");
        assert!(!said.stderr.is_empty(), "{args:?}");
    }
    for window in ["-1", "a", "1,b"] {
        let said = frazil(["run", "--window", window, file]);
        assert!(said.assert_code(2).stderr.contains("W, from 1, or LEFT,RIGHT"), "{said:?}");
    }
    assert!(frazil(["run", "--engine", "nobody", file]).stderr.contains("sdpa_fwd_cpu"));
}

#[test]
fn engines_say_what_they_serve() {
    let said = frazil(["engines", "--json"]);
    let engines = said.assert_code(0).json();
    let cpu = engines.iter().find(|engine| engine["engine"] == "sdpa_fwd_cpu").unwrap();
    assert!(cpu["features"].as_array().unwrap().iter().any(|feature| feature == "kv_paged"));
    assert!(cpu["maturity"].as_str().unwrap().starts_with("silicon"));
    assert!(frazil(["engines"]).assert_code(0).stdout.contains("sdpa_fwd_cpu"));
}

#[test]
fn an_engine_has_a_short_name() {
    let file = minilm(5);
    for name in ["cpu", "sdpa_fwd_cpu"] {
        frazil(["run", "--engine", name, file.to_str().unwrap()]).assert_code(0);
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let file = minilm(0);
    let files = std::iter::repeat_n(file.as_os_str(), 20);
    let mut child = command(["run", "--no-compare", "--repeat", "1", "--json"])
        .args(files)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(141), ""));
}
