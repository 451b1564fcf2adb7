//! The peer's own test configurations, one JSON object a line, as cases of ours.
//!
//! The first line that is not empty may hold the file's [`Rules`] instead: `{"rules": ["cpu: else -> served"]}`.
//! Meaning of the fields, where a name alone does not say it:
//!
//! | field (absent = false, none, empty) | becomes |
//! |---|---|
//! | (no field) | `softmax_scale = 0.125` for every row |
//! | `is_infer` absent | natural LSE asked for |
//! | `left_bound = l` | `left = l - 1`: the peer counts the diagonal's key |
//! | `diag_align` without a bound | nothing, but ALiBi measures from that corner |
//! | `is_padding` | padded on both sides |
//! | `is_padding`, `is_ragged` | packed on both sides, run by lengths and by prefix of base 0 and 1000; buffers of `max(64, roundup(sum, 64))` rows; LSE `[T, H]` |
//! | `is_padding`, `is_paged`, `block_size` | padded Q; HND pools in which page `t` of sequence `b` is `t * B + b`, tables of strides `(1, B)` |
//! | `is_bias` | `[1, Hq, Sq, Skv]` of Q's type |
//! | `stride_*` | as given where rows are `[B, H, S, D]`; elsewhere and for 8-bit families unused |
//!
//! Every row runs twice in each of its forms, with the peer's sparse integers and with normals.

mod convert;
mod fields;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use frazil_core::EngineId;
use serde_json::{Map, Value};

pub use fields::FieldError;

use crate::case::Case;
use crate::json::without_line;
use crate::rules::{Family, Rules};
use crate::run::{Entry, Expectation};

/// The peer's file.
#[derive(Clone, Debug, Default)]
pub struct PeerFile {
    /// The expectations at its head.
    pub rules: Rules,
    /// Its configurations.
    pub entries: Vec<PeerEntry>,
}

/// One configuration.
#[derive(Clone, Debug)]
pub struct PeerEntry {
    /// The peer's name for it.
    pub id: String,
    /// The types that it is about.
    pub family: Family,
    /// Every way in which it is run; never empty.
    pub runs: Vec<Case>,
}

impl PeerFile {
    /// The configurations to run, with what the rules expect of these engines. Where no rule answers,
    /// nothing is expected.
    pub fn entries<'a>(
        &self,
        engines: impl IntoIterator<Item = &'a EngineId> + Clone,
    ) -> Vec<Entry> {
        let expect = |entry: &PeerEntry| -> Expectation {
            let case = &entry.runs[0];
            let answer = |engine: &EngineId| {
                let answer = self.rules.answer(engine, Some(entry.family), case)?;
                Some((engine.to_string(), answer.to_owned()))
            };
            engines.clone().into_iter().filter_map(answer).collect()
        };
        let judged = |entry: &PeerEntry| Entry {
            id: entry.id.clone(),
            runs: entry.runs.clone(),
            expect: (!self.rules.is_empty()).then(|| expect(entry)),
        };
        self.entries.iter().map(judged).collect()
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PeerFileError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: PeerLineError,
}

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerLineError {
    /// No JSON object.
    #[error("not a JSON object: {}", without_line(&.0.to_string()))]
    Json(#[from] serde_json::Error),
    /// A field that is missing, unknown or means nothing.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Two configurations of one name, which would hide one another.
    #[error("id `{0}` is there twice")]
    Duplicate(String),
}

/// Reads a file.
///
/// # Errors
///
/// The first line that cannot be read, with the field at fault.
pub fn read(text: &str) -> Result<PeerFile, PeerFileError> {
    let mut file = PeerFile::default();
    let mut ids = BTreeSet::new();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (nth, (at, line)) in lines.enumerate() {
        read_line(&mut file, &mut ids, line, nth == 0)
            .map_err(|reason| PeerFileError { line: at + 1, reason })?;
    }
    Ok(file)
}

fn read_line(
    file: &mut PeerFile,
    ids: &mut BTreeSet<String>,
    line: &str,
    first: bool,
) -> Result<(), PeerLineError> {
    let object: Map<String, Value> = serde_json::from_str(line)?;
    if first && object.contains_key("rules") {
        let mut fields = fields::Fields(object);
        file.rules = fields.required("rules")?;
        fields.finish()?;
        return Ok(());
    }
    let row = row::Row::read(object)?;
    if !ids.insert(row.id.clone()) {
        return Err(PeerLineError::Duplicate(row.id));
    }
    file.entries.push(PeerEntry { id: row.id.clone(), family: row.family, runs: row.runs() });
    Ok(())
}
