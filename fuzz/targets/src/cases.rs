//! Files of cases, as TOML and as JSON lines.
//!
//! Whatever the text, reading it gives cases or an error that says where. A case that was read is
//! written as one line of JSON which reads back to the same case, quoted for a shell and back. It is
//! declared or refused by name, and what was declared is asked about everywhere. Small cases are run,
//! which must end in a verdict and never in a fault.

use frazil::{RegisteredEngine, cpu};
use frazil_conformance::case::{Case, CaseFile, CaseFileError};
use frazil_conformance::declare::{CaseError, Declared, declare};
use frazil_conformance::memory::HostMemory;
use frazil_conformance::repro::Repro;
use frazil_conformance::run::{Entry, Status, check_entry};

use crate::Reached;
use crate::ask::{ROUTER, ask_everywhere};

/// Most cases of one input that are looked at closely.
const MAX_CASES: usize = 4;

/// Cases that take no more than that are run.
const MAX_RUN_FLOPS: u64 = 200_000;
const MAX_RUN_BYTES: u64 = 1 << 16;
const MAX_RUN_HEADS: u64 = 256;

/// The body of the target for TOML.
///
/// # Panics
///
/// When a promise is broken.
pub(crate) fn case_toml(input: &[u8]) -> Reached {
    let Ok(text) = std::str::from_utf8(input) else { return Reached::Refused };
    match CaseFile::parse(text) {
        Ok(file) => check_cases(&file.cases),
        Err(why) => {
            check_error(&why, text);
            Reached::Refused
        }
    }
}

/// The body of the target for JSON lines.
///
/// # Panics
///
/// When a promise is broken.
pub(crate) fn case_json(input: &[u8]) -> Reached {
    let Ok(text) = std::str::from_utf8(input) else { return Reached::Refused };
    match CaseFile::parse_lines(text) {
        Ok(file) => check_cases(&file.cases),
        Err(why) => {
            check_error(&why, text);
            Reached::Refused
        }
    }
}

/// Errors say where: a line of the text, by its number.
fn check_error(why: &CaseFileError, text: &str) {
    let message = why.to_string();
    let line = match why {
        CaseFileError::Json { line, .. } | CaseFileError::Duplicate { line, .. } => Some(*line),
        CaseFileError::Toml(error) => error.span().map(|span| {
            assert!(span.start <= text.len(), "an error past the end of the text: {message}");
            assert!(message.contains("line "), "names no line: {message}");
            1
        }),
        other => panic!("an error of a new kind, to be looked at here: {other}"),
    };
    match line {
        Some(line) => {
            assert!((1..=text.lines().count().max(1)).contains(&line), "line {line}: {message}");
        }
        // A list of cases that is missing as a whole is nowhere.
        None => assert!(message.contains("missing field `case`"), "names no place: {message}"),
    }
}

fn check_cases(cases: &[Case]) -> Reached {
    for (at, case) in cases.iter().enumerate() {
        assert!(cases[..at].iter().all(|before| before.name != case.name), "a name twice");
    }
    cases.iter().take(MAX_CASES).map(check_case).max().unwrap_or(Reached::Read)
}

/// One case that was read.
///
/// # Panics
///
/// When a promise is broken.
pub(crate) fn check_case(case: &Case) -> Reached {
    check_repro(case);
    // Any number of operations is a number.
    let flops = case.live_flops();
    let declared = match declare(case) {
        Ok(declared) => declared,
        Err(CaseError::Graph(why)) => {
            assert!(why.to_string().contains(['`', ':']), "names nothing: {why}");
            return Reached::Read;
        }
        Err(why) => {
            let text = why.to_string();
            let name = format!("{}: ", case.name);
            assert!(text.starts_with(&name), "does not name the case: {text}");
            return Reached::Read;
        }
    };
    let served = ask_everywhere(&declared.facts);
    if flops <= MAX_RUN_FLOPS && is_small(case, &declared) {
        return run(case);
    }
    if served { Reached::Served } else { Reached::Declared }
}

/// The line that repeats a case is ASCII, and read back through the quotes of a shell it is the same
/// case, with the answer that was expected of its engine.
fn check_repro(case: &Case) {
    for engine in ROUTER.engines().map(RegisteredEngine::id) {
        for expected in [None, Some("DType")] {
            let line = Repro::new(case, engine, expected).to_string();
            assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "no ASCII: {line}");
            let begin = format!("frazil repro --engine {engine} ");
            let quoted = match line.strip_prefix("printf %s ") {
                Some(rest) => rest.strip_suffix(&format!(" | {begin}-")),
                None => line.strip_prefix(&begin),
            };
            let json = quoted.and_then(unquoted).unwrap_or_else(|| panic!("no command: {line}"));
            let file = CaseFile::parse_lines(&json);
            let file =
                file.unwrap_or_else(|why| panic!("the repro line is no case: {why}\n{line}"));
            let answers = expected.map(|answer| (engine.to_string(), answer.to_owned()));
            let same = Case { answers: answers.into_iter().collect(), ..case.clone() };
            assert_eq!(file.cases.len(), 1);
            assert_eq!(format!("{:?}", file.cases[0]), format!("{same:?}"), "another case: {line}");
        }
    }
}

/// What a shell makes of a word in single quotes.
fn unquoted(word: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("\\'") {
            text.push('\'');
            rest = after;
            continue;
        }
        let (quoted, after) = rest.strip_prefix('\'')?.split_once('\'')?;
        text.push_str(quoted);
        rest = after;
    }
    Some(text)
}

fn is_small(case: &Case, declared: &Declared) -> bool {
    let bytes = declared.tensors.iter().fold(0_u64, |sum, tensor| {
        let elements = tensor.geometry.num_elements().max(tensor.geometry.span());
        let bytes = elements.saturating_mul(tensor.dtype.bytes());
        sum.saturating_add(bytes.saturating_add(tensor.offset_bytes))
    });
    let heads = case.batch.saturating_mul(case.num_q_heads.max(case.num_kv_heads));
    bytes <= MAX_RUN_BYTES && heads <= MAX_RUN_HEADS
}

/// Runs a case of whatever answers, and gives whether somebody computed it.
fn run(case: &Case) -> Reached {
    let entry = Entry { id: case.name.clone(), runs: vec![case.clone()], expect: None };
    let memory = HostMemory::new(cpu::host_with_threads(1));
    let verdicts = check_entry(&entry, &ROUTER, &memory);
    assert_eq!(verdicts.len(), ROUTER.engines().len());
    let mut reached = Reached::Declared;
    for verdict in &verdicts {
        let said = || format!("{}: {:?}\n{:?}", verdict.engine, verdict.reason, verdict.repro);
        assert!(verdict.status != Status::Error, "a fault of {}", said());
        assert!(verdict.status != Status::Wrong, "a wrong result of {}", said());
        if verdict.status == Status::Right {
            reached = Reached::Executed;
        }
    }
    reached
}
