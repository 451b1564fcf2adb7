//! `frazil warm` with the NVRTC of this computer.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::fs;
use std::path::Path;

use common::{Said, command};
use frazil_conformance::skip;
use serde_json::Value;

fn warm(cache: &Path, args: &[&str]) -> Said {
    let mut command = command(["warm", "--target", "sm80"]);
    command.args(args).env("FRAZIL_CACHE", cache);
    Said::from(command.output().unwrap())
}

/// Why nothing can be compiled here, in one line; `None` where it can.
fn missing() -> Option<String> {
    let error = frazil_cuda::nvrtc::nvrtc().err()?;
    Some(error.to_string().lines().next().unwrap_or_default().to_owned())
}

macro_rules! need_nvrtc {
    () => {
        if let Some(missing) = missing() {
            return skip::because(missing);
        }
    };
}

/// Kernels that all engines share.
const NUM_SHARED: usize = 3;

/// What became of the kernels that all engines share, and the totals.
fn kernels_and_totals(said: &Said) -> (Vec<Value>, Value) {
    let mut lines = said.assert_code(0).json();
    assert_eq!(lines.len(), NUM_SHARED + 1, "{said:#?}");
    let totals = lines.remove(NUM_SHARED);
    (lines, totals)
}

/// How many were compiled, and how many found.
fn origins(kernels: &[Value]) -> [usize; 2] {
    let of = |origin| kernels.iter().filter(|kernel| kernel["origin"] == origin).count();
    ["compiled", "disk"].map(of)
}

#[test]
fn a_second_process_finds_what_the_first_has_compiled() {
    need_nvrtc!();
    let cache = tempfile::tempdir().unwrap();
    let (made, totals) = kernels_and_totals(&warm(cache.path(), &["--json"]));
    assert_eq!((origins(&made), &totals["compiled"]), ([NUM_SHARED, 0], &NUM_SHARED.into()));
    for kernel in &made {
        assert_eq!((&kernel["target"], &kernel["spill_bytes"]), (&"sm_80".into(), &0.into()));
    }
    assert!(Path::new(totals["folder"].as_str().unwrap()).starts_with(cache.path()));
    let (found, totals) = kernels_and_totals(&warm(cache.path(), &["--json"]));
    assert_eq!((origins(&found), &totals["compiled"]), ([0, NUM_SHARED], &0.into()));
    for (found, made) in found.iter().zip(&made) {
        assert_eq!((&found["key"], &found["registers"]), (&made["key"], &made["registers"]));
    }
    let text = warm(cache.path(), &[]);
    assert!(text.assert_code(0).stdout.contains("frazil_sdpa_seqlens  sm_80  disk"), "{text:#?}");
}

#[test]
fn an_entry_that_is_damaged_is_warned_of_and_compiled_anew() {
    need_nvrtc!();
    let cache = tempfile::tempdir().unwrap();
    let (_, totals) = kernels_and_totals(&warm(cache.path(), &["--json"]));
    let folder = fs::read_dir(totals["folder"].as_str().unwrap()).unwrap();
    let entry = folder.map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    let bytes = fs::read(&entry).unwrap();
    fs::write(&entry, &bytes[..bytes.len() - 1]).unwrap();
    let said = warm(cache.path(), &["--json"]);
    assert!(said.stderr.contains("is compiled anew"), "{said:#?}");
    assert_eq!(origins(&kernels_and_totals(&said).0), [1, NUM_SHARED - 1]);
    let again = warm(cache.path(), &["--json"]);
    assert_eq!(origins(&kernels_and_totals(&again).0), [0, NUM_SHARED]);
}

#[test]
fn a_cache_that_takes_nothing_is_a_fault() {
    need_nvrtc!();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a\nfile");
    fs::write(&file, "").unwrap();
    let said = warm(&file, &[]);
    let text = &said.assert_code(1).stdout;
    assert!(text.contains("frazil_sdpa_seqlens") && text.contains("3 could not be kept"), "{text}");
    assert!(!text.contains("kept in"), "{text}");
    // For each entry that it is not read and not kept, and what comes of it: a line each.
    let num_lines = 2 * NUM_SHARED + 1;
    assert_eq!(said.stderr.lines().filter(|line| line.starts_with("frazil: ")).count(), num_lines);
    assert_eq!(said.stderr.lines().count(), num_lines, "{said:#?}");
    assert!(said.stderr.contains("could not be kept"), "{said:#?}");
    let said = warm(&file, &["--json"]);
    let totals = &said.assert_code(1).json()[NUM_SHARED];
    assert_eq!(
        (&totals["compiled"], &totals["not_kept"]),
        (&NUM_SHARED.into(), &NUM_SHARED.into())
    );
}

/// The engine for the host serves no GPU, and compiles nothing.
#[test]
fn cases_that_no_engine_serves_there_are_counted() {
    need_nvrtc!();
    let cache = tempfile::tempdir().unwrap();
    let case = r#"{"name": "mine", "dtype": "bf16", "batch": 1, "num_q_heads": 2,
        "num_kv_heads": 1, "head_dim_qk": 16, "seqlen_q": 3, "seqlen_kv": 5, "dropout": 0.1}"#;
    let said = warm(cache.path(), &["--json", case]);
    assert_eq!(said.assert_code(3).json().last().unwrap()["declined"], 1);
}
