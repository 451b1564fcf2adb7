//! Every example runs, and prints what its text promises. Each asserts its own numbers; here stands
//! what a reader is shown.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]
// `main` of each example only hands over standard output.
#![allow(dead_code)]

use std::error::Error;
use std::io::Write;

#[path = "../examples/01-attention.rs"]
mod attention;
#[path = "../examples/03-grouped-paged.rs"]
mod grouped_paged;
#[path = "../examples/02-packed-lse-merge.rs"]
mod packed_lse_merge;
#[path = "../examples/04-your-own-engine.rs"]
mod your_own_engine;

type Example = fn(&mut dyn Write) -> Result<(), Box<dyn Error>>;

const EXAMPLES: [(&str, Example); 4] = [
    ("01-attention", attention::run),
    ("02-packed-lse-merge", packed_lse_merge::run),
    ("03-grouped-paged", grouped_paged::run),
    ("04-your-own-engine", your_own_engine::run),
];

fn output(name: &str) -> String {
    let (_, run) = EXAMPLES.iter().find(|(known, _)| *known == name).unwrap();
    let mut out = Vec::new();
    run(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Each line is shown somewhere; gives all that is.
fn assert_shows(name: &str, lines: &[&str]) -> String {
    let output = output(name);
    for line in lines {
        assert!(output.lines().any(|shown| shown.trim() == *line), "`{line}` is not in\n{output}");
    }
    output
}

#[test]
fn attention_has_the_closed_form() {
    let lines = [
        "row   0: 1.0000, expected 1.0000",
        "row   3: 3.0000, expected 3.0000",
        "row 127: 85.6667, expected 85.6667",
        "all 1024 rows are (2n + 1) / 3",
    ];
    assert_shows("01-attention", &lines);
}

/// The sequence of 90 starts at token 38: its first token sees itself and the sink of 0, and none of
/// the second half.
#[test]
fn halves_merge_into_the_whole() {
    let output = output("02-packed-lse-merge");
    let first = output.lines().next().unwrap();
    assert!(first.starts_with("token 38: lse ") && first.contains(" and -inf, "), "{output}");
    for line in output.lines().filter(|line| line.starts_with("token")) {
        let number = |word: &str| line.split(word).nth(1).unwrap().split(',').next().unwrap();
        assert_eq!(number("merged ")[..7], number("undivided ")[..7], "{line}");
    }
    assert_eq!(output.lines().count(), 3, "{output}");
}

/// 38, 33 and 101 tokens take 3, 3 and 7 pages of 16.
#[test]
fn decode_steps_follow_the_cache() {
    let output = output("03-grouped-paged");
    let steps: Vec<&str> =
        output.lines().map(|line| line.split(", greatest").next().unwrap()).collect();
    let expected =
        ["step 0: lengths [38, 33, 101] in 13 pages", "step 1: lengths [39, 34, 102] in 13 pages"];
    assert_eq!(steps, expected, "{output}");
}

#[test]
fn an_engine_of_ones_own_answers_and_is_right() {
    let lines = [
        "2. acme/sdpa_fwd_plain: served, silicon (any host, 2026-11-29)",
        "-  acme/sdpa_fwd_plain: declined (DType): `q` is bf16, served: f32",
        "-  acme/sdpa_fwd_plain: declined (Stride): `q` has stride 32 on axis 2, served: row-major",
        "-  acme/sdpa_fwd_plain: declined (Feature): feature sink",
        "our cases: 1 right, 0 wrong, 3 declined, 0 invalid, 0 error, 0 skipped",
    ];
    let output = assert_shows("04-your-own-engine", &lines);
    // Every drawn graph is counted, and of those reduced to what it names most are served.
    let drawn = output.lines().find_map(|line| line.strip_prefix("drawn graphs: ")).unwrap();
    let counts: Vec<usize> =
        drawn.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
    let [right, _, declined, ..] = counts[..] else { panic!("{drawn}") };
    assert!(
        right > 200 && declined > 200 && counts.iter().sum::<usize>() == right + declined,
        "{drawn}"
    );
}

/// A file added to the folder is run here, and listed in the README.
#[test]
fn every_example_is_a_test_and_in_the_readme() {
    let folder = frazil_conformance::cargo_path!("CARGO_MANIFEST_DIR").join("examples");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, EXAMPLES.map(|(name, _)| name));
    let readme = include_str!("../README.md");
    for name in found {
        assert!(readme.contains(&format!("](examples/{name}.rs)")), "{name}");
    }
}
