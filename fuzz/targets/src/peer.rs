//! The peer's JSON lines, with the rules at their head.

use frazil::{EngineId, RegisteredEngine};
use frazil_conformance::peer::{self, PeerFile, PeerFileError};
use frazil_conformance::rules::Rules;

use crate::Reached;
use crate::ask::ROUTER;
use crate::cases::check_case;

/// Most configurations of one input that are looked at closely.
const MAX_ENTRIES: usize = 2;

/// The body of the target.
///
/// # Panics
///
/// When a promise is broken.
pub(crate) fn peer_jsonl(input: &[u8]) -> Reached {
    let Ok(text) = std::str::from_utf8(input) else { return Reached::Refused };
    let file = match peer::read(text) {
        Ok(file) => file,
        Err(why) => {
            check_error(&why, text);
            return Reached::Refused;
        }
    };
    check_rules(&file);
    let mut reached = Reached::Read;
    for entry in file.entries.iter().take(MAX_ENTRIES) {
        assert!(!entry.runs.is_empty(), "{} is run in no way", entry.id);
        let names: std::collections::BTreeSet<_> =
            entry.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names.len(), entry.runs.len(), "two runs of {} share a name", entry.id);
        reached = entry.runs.iter().map(check_case).max().map_or(reached, |run| run.max(reached));
    }
    reached
}

/// Errors name a line, and below it a field or what was expected.
fn check_error(why: &PeerFileError, text: &str) {
    let message = why.to_string();
    assert!((1..=text.lines().count()).contains(&why.line), "{message}");
    assert!(message.starts_with(&format!("line {}: ", why.line)), "{message}");
}

/// Rules are written as they are read, and answer the same.
fn check_rules(file: &PeerFile) {
    let lines = Vec::<String>::from(file.rules.clone());
    let again = Rules::parse(lines.iter().map(String::as_str));
    let again = again.unwrap_or_else(|why| panic!("rules do not read back: {why}"));
    assert_eq!(again, file.rules);
    let engines: Vec<&EngineId> = ROUTER.engines().map(RegisteredEngine::id).collect();
    let entries = file.entries(engines.iter().copied());
    assert_eq!(entries.len(), file.entries.len());
    for (entry, of_file) in entries.iter().zip(&file.entries) {
        assert_eq!(entry.id, of_file.id);
        assert_eq!(entry.expect.is_none(), file.rules.is_empty());
        for engine in &engines {
            let answer = again.answer(engine, Some(of_file.family), &of_file.runs[0]);
            let expect = entry.expect.as_ref().and_then(|expect| expect.get(engine.as_str()));
            assert_eq!(answer, expect.map(String::as_str), "{}", entry.id);
        }
    }
}
