//! Cases from files and from arguments.

use std::io::{self, Read};
use std::path::Path;

use frazil::{EngineId, Router};
use frazil_conformance::case::CaseFile;
use frazil_conformance::peer;
use frazil_conformance::run::Entry;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::files;

/// What stands for standard input where a file is asked for.
const STANDARD_INPUT: &str = "-";

/// Reads a file of cases: ours as TOML or as JSON lines, or the peer's JSON lines.
fn read_file(path: &Path, router: &Router) -> Result<Vec<Entry>, Failure> {
    let (path, bytes) = if path == Path::new(STANDARD_INPUT) {
        let (path, mut bytes) = (Path::new("standard input"), Vec::new());
        let read = io::stdin().lock().read_to_end(&mut bytes);
        (path, read.map(|_| bytes).map_err(|error| Failure::in_file(path, error))?)
    } else {
        (path, files::read(path)?)
    };
    let text = String::from_utf8(bytes).map_err(|error| Failure::in_file(path, error))?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let json = match extension {
        Some("json" | "jsonl") => true,
        Some("toml") => false,
        // TOML never begins with a brace.
        _ => text.trim_start().starts_with('{'),
    };
    let entries = if json { read_json_lines(&text, router) } else { read_toml(&text) };
    let entries = entries.map_err(|what| Failure::in_file(path, what))?;
    if entries.is_empty() {
        return Err(Failure::in_file(path, "holds no case"));
    }
    Ok(entries)
}

fn read_toml(text: &str) -> Result<Vec<Entry>, String> {
    // The parser would miss the list of cases, where people miss the cases.
    let says_nothing = |line: &str| line.is_empty() || line.starts_with('#');
    if text.lines().map(str::trim).all(says_nothing) {
        return Ok(Vec::new());
    }
    let file = CaseFile::parse(text).map_err(|error| error.to_string())?;
    Ok(file.cases.into_iter().map(Entry::from).collect())
}

/// Cases of ours have a `name`; the peer's have an `id`, and rules may stand before them.
fn read_json_lines(text: &str, router: &Router) -> Result<Vec<Entry>, String> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let first = first.map(serde_json::from_str::<Map<String, Value>>);
    let has = |name| matches!(&first, Some(Ok(object)) if object.contains_key(name));
    if matches!(first, Some(Ok(_))) && !["name", "id", "rules"].into_iter().any(has) {
        return Err("line 1: a case has a `name`, or an `id` where it is cudnn-frontend's".into());
    }
    if !has("name") {
        let file = peer::read(text).map_err(|error| error.to_string())?;
        let engines: Vec<&EngineId> = router.engines().map(frazil::RegisteredEngine::id).collect();
        return Ok(file.entries(engines));
    }
    let file = CaseFile::parse_lines(text).map_err(|error| error.to_string())?;
    Ok(file.cases.into_iter().map(Entry::from).collect())
}

/// Cases of a file, or the one that the argument itself is.
pub(crate) fn read(source: &Path, router: &Router) -> Result<Vec<Entry>, Failure> {
    let is_array = source.to_str().is_some_and(|text| text.trim_start().starts_with('['));
    if is_array && !source.exists() {
        let what = "the case given is a JSON array; one object is needed";
        return Err(Failure::Input(what.into()));
    }
    let inline = source.to_str().filter(|text| text.trim_start().starts_with('{'));
    let Some(text) = inline else { return read_file(source, router) };
    // One object, on as many lines as the shell let through.
    let object: Value = serde_json::from_str(text)
        .map_err(|error| Failure::Input(format!("the case given is no JSON: {error}")))?;
    read_json_lines(&object.to_string(), router)
        .map_err(|what| Failure::Input(format!("the case given: {what}")))
}
