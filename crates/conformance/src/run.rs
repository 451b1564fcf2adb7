//! The runner: cases through every engine of a router, against the reference.

use std::collections::BTreeMap;

use frazil_core::{EngineId, Target};
use frazil_router::{Answer, Router};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::declare::CaseError;
use crate::memory::DeviceMemory;

/// What engines must answer: by short name (`cpu`) or full name, an answer as [`answer_name`]
/// writes it.
pub type Expectation = BTreeMap<String, String>;

/// Cases that are judged as one.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name in verdicts.
    pub id: String,
    /// What is run: one case, or one in several forms or with several kinds of values.
    pub runs: Vec<Case>,
    /// What engines must answer; `None`: any answer will do, and what is served must be right.
    pub expect: Option<Expectation>,
}

/// One run, which must be answered as the case says.
impl From<Case> for Entry {
    fn from(case: Case) -> Self {
        let expect = (!case.answers.is_empty()).then(|| case.answers.clone());
        Self { id: case.name.clone(), runs: vec![case], expect }
    }
}

/// How an engine did on an entry. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Served, and every value within its tolerance.
    Right,
    /// The engine says that it does not serve this.
    Declined,
    /// Nobody asked it, or nothing could be run.
    Skipped,
    /// The graph means nothing.
    Invalid,
    /// A fault: of the engine (an `Err`, a panic), of the device, or of the case itself.
    Error,
    /// Served and wrong, or another answer than expected.
    Wrong,
}

/// What one engine did with one entry.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The entry.
    pub id: String,
    /// The engine.
    pub engine: EngineId,
    /// How it did, in the worst run.
    pub status: Status,
    /// Absolute error of the element that is worst relative to its tolerance, of all runs.
    pub max_err: Option<f64>,
    /// Tolerance of that element.
    pub tol: Option<f64>,
    /// For a decline the kind and text of its `Unsupported`; else what is wrong and where.
    pub reason: Option<String>,
    /// The case of the run that is wrong, as one line of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repro: Option<String>,
}

impl Verdict {
    /// Greatest error as a share of its tolerance.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.max_err? / self.tol?)
    }
}

/// Verdicts counted by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Totals {
    /// [`Status::Right`].
    pub right: usize,
    /// [`Status::Wrong`].
    pub wrong: usize,
    /// [`Status::Declined`].
    pub declined: usize,
    /// [`Status::Invalid`].
    pub invalid: usize,
    /// [`Status::Error`].
    pub error: usize,
    /// [`Status::Skipped`].
    pub skipped: usize,
}

impl Totals {
    /// Counts one more.
    pub fn add(&mut self, status: Status) {
        let count = match status {
            Status::Right => &mut self.right,
            Status::Wrong => &mut self.wrong,
            Status::Declined => &mut self.declined,
            Status::Invalid => &mut self.invalid,
            Status::Error => &mut self.error,
            Status::Skipped => &mut self.skipped,
        };
        *count += 1;
    }
}

impl<'a> FromIterator<&'a Verdict> for Totals {
    fn from_iter<T: IntoIterator<Item = &'a Verdict>>(verdicts: T) -> Self {
        let mut totals = Self::default();
        verdicts.into_iter().for_each(|verdict| totals.add(verdict.status));
        totals
    }
}

/// Runs an entry through every engine of the router on one device: one verdict an engine, in the
/// router's order.
pub fn check_entry(entry: &Entry, router: &Router, memory: &dyn DeviceMemory) -> Vec<Verdict> {
    let _ = (entry, router, memory);
    Vec::new()
}

/// What every engine of the router answers about a case on a target, as [`answer_name`] writes it.
/// Runs nothing.
///
/// # Errors
///
/// As [`declare`](crate::declare::declare).
pub fn support_answers(
    case: &Case,
    router: &Router,
    target: &Target,
) -> Result<BTreeMap<EngineId, String>, CaseError> {
    let _ = (case, router, target);
    Ok(BTreeMap::new())
}

/// `served`; for a decline its kind, as in `DType`, with the name of a feature, as in
/// `Feature(dropout)`; `left out`.
pub fn answer_name(answer: &Answer) -> String {
    let _ = answer;
    String::new()
}

/// Name of an engine in case files: the part after the last `_`, `cpu` for `sdpa_fwd_cpu`.
pub fn short_name(engine: &EngineId) -> &str {
    let name = engine.as_str();
    name.rsplit_once('_').map_or(name, |(_, short)| short)
}
