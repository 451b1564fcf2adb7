//! The runner: cases through every engine of a router, against the reference.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use frazil_core::target::fixtures;
use frazil_core::{DeviceProps, EngineId, Facts, Plan, Target, Unsupported};
use frazil_router::{Answer, Router};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::compare::{Findings, Worst};
use crate::declare::{CaseError, Declared, declare};
use crate::expected::{Reference, reference_key};
use crate::instance::Instance;
use crate::memory::DeviceMemory;
use crate::repro::Repro;
use crate::trial::{Outcome, Stage, Trial};

/// Cases below that many operations are run with every plan, each twice.
const SMALL_FLOPS: u64 = 50_000_000;

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
    /// What engines must answer. Of one that is not named, and of all where this is `None`, any answer
    /// will do, and what is served must be right.
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
    /// The graph means nothing, or the case contradicts itself.
    Invalid,
    /// A fault: of the engine (an `Err`, a panic) or of the device.
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
    /// The run that is wrong, broken or means nothing; `None` for any other status. Written as the
    /// line for a shell that runs it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repro: Option<Repro>,
    /// Whether this is a decline that the entry states, so that nobody need look at it.
    #[serde(skip)]
    pub stated: bool,
}

impl Verdict {
    /// Greatest error as a share of its tolerance.
    pub fn ratio(&self) -> Option<f64> {
        Some(Worst { err: self.max_err?, tol: self.tol? }.ratio())
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
///
/// Where an engine serves a case, its best plan is run; on small cases all its plans, each twice.
pub fn check_entry(entry: &Entry, router: &Router, memory: &dyn DeviceMemory) -> Vec<Verdict> {
    let ids = || router.engines().map(|engine| engine.id().clone());
    let mut verdicts: Vec<Verdict> = ids().map(|engine| Verdict::new(entry, engine)).collect();
    let target = Arc::new(memory.device().target().clone());
    let mut cache = None;
    for (at, case) in entry.runs.iter().enumerate() {
        // A case can hold any numbers; one that breaks the runner must not end the others.
        let judged = catch_unwind(AssertUnwindSafe(|| {
            judge_run(entry, case, (router, memory, &target), &mut cache)
        }));
        for verdict in &mut verdicts {
            let judged = match &judged {
                Ok(Ok(by_engine)) => by_engine.get(&verdict.engine).cloned(),
                Ok(Err(error)) => Some(Judged::from(error)),
                Err(panic) => {
                    let what = format!("the runner panicked: {}", panic_text(panic.as_ref()));
                    Some(Judged::new(Status::Error, what))
                }
            };
            let nobody = || Judged::new(Status::Skipped, "the router did not ask it".into());
            verdict.absorb(&judged.unwrap_or_else(nobody), (entry, case), at == 0);
        }
    }
    verdicts
}

/// What one engine did in one run.
#[derive(Clone, Debug)]
struct Judged {
    status: Status,
    worst: Option<Worst>,
    reason: Option<String>,
    stated: bool,
}

impl Judged {
    fn new(status: Status, reason: String) -> Self {
        Self { status, worst: None, reason: Some(reason), stated: false }
    }
}

impl From<&CaseError> for Judged {
    fn from(error: &CaseError) -> Self {
        Self::new(Status::Invalid, error.to_string())
    }
}

impl Verdict {
    /// Nothing was run yet, and nothing that was not run is right.
    fn new(entry: &Entry, engine: EngineId) -> Self {
        let (id, reason) = (entry.id.clone(), Some("nothing was run".into()));
        let (max_err, tol, repro) = (None, None, None);
        Self { id, engine, status: Status::Skipped, max_err, tol, reason, repro, stated: false }
    }

    /// Keeps the worse status with its reason, and the worse error; the first run says what there
    /// is to compare with.
    fn absorb(&mut self, judged: &Judged, (entry, case): (&Entry, &Case), first: bool) {
        let mine = self.max_err.zip(self.tol).map(|(err, tol)| Worst { err, tol });
        let worst = Worst::worse_of(mine, judged.worst);
        (self.max_err, self.tol) = (worst.map(|w| w.err), worst.map(|w| w.tol));
        if !first && judged.status <= self.status {
            return;
        }
        (self.status, self.stated) = (judged.status, judged.stated);
        self.reason.clone_from(&judged.reason);
        let fails = matches!(judged.status, Status::Wrong | Status::Error | Status::Invalid);
        let expected = expected(entry, &self.engine).map(String::as_str);
        self.repro = fails.then(|| Repro::new(case, &self.engine, expected));
    }
}

/// The reference computed last, with what it depends on.
type Cache = Option<(String, Arc<Reference>)>;

type Judgements = BTreeMap<EngineId, Judged>;

fn judge_run(
    entry: &Entry,
    case: &Case,
    (router, memory, target): (&Router, &dyn DeviceMemory, &Arc<Target>),
    cache: &mut Cache,
) -> Result<Judgements, CaseError> {
    let declared = declare(case)?;
    let mut judgements = Judgements::new();
    let mut served = Vec::new();
    for id in router.engines().map(|engine| engine.id().clone()) {
        // Each is asked alone: one that panics must not silence the others.
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let answer = router.ask(&id, &declared.facts, target);
            let elsewhere = || at_home_elsewhere(entry, &id, (&declared.facts, router, target));
            let judged = unlike_expected(entry, &id, &answer, elsewhere);
            (answer, judged)
        }));
        let (answer, judged) = asked.unwrap_or_else(|panic| {
            let what = format!("panicked when asked: {}", panic_text(panic.as_ref()));
            (Answer::LeftOut, Some(Judged::new(Status::Error, what)))
        });
        if let Some(judged) = judged {
            judgements.insert(id, judged);
            continue;
        }
        let stated = expected(entry, &id).is_some_and(|expected| *expected == answer_name(&answer));
        match answer {
            Answer::Served(plans) => served.push((id, plans)),
            Answer::Declined(why) => {
                let judged = Judged::new(Status::Declined, declined(&why));
                judgements.insert(id, Judged { stated, ..judged });
            }
            _ => {
                let judged = Judged::new(Status::Skipped, "left out by a filter".into());
                judgements.insert(id, judged);
            }
        }
    }
    if served.is_empty() {
        return Ok(judgements);
    }
    let instance = Instance::new(case, &declared)?;
    let reference = cached(case, &declared, &instance, cache)?;
    let small = case.live_flops() < SMALL_FLOPS;
    let trial = Trial { case, instance: &instance, reference: &reference, memory, twice: small };
    let mut stage = Stage::new(&instance, memory);
    for (id, plans) in served {
        let judged = match &mut stage {
            Ok(stage) => judge_plans(expected(entry, &id).is_some(), &trial, stage, &plans),
            Err(error) => Judged::new(Status::Error, format!("memory for its buffers: {error}")),
        };
        judgements.insert(id, judged);
    }
    Ok(judgements)
}

/// Runs plans of one engine until one is not right: all of them on small cases, else the best that
/// can be built. An engine that is to serve, says so and can build none has not kept its word.
fn judge_plans(must_serve: bool, trial: &Trial<'_>, stage: &mut Stage, plans: &[Plan]) -> Judged {
    let (mut worst, mut ran, mut refused) = (None, false, None);
    for plan in plans {
        let Findings { wrong, worst: found } = match trial.run(plan, stage) {
            Outcome::Done(findings) => findings,
            Outcome::Declined(why) => {
                refused.get_or_insert_with(|| declined(&why));
                continue;
            }
            Outcome::Invalid(why) => {
                return Judged::new(Status::Invalid, format!("{}: {why}", trial.case.name));
            }
            Outcome::Fault(why) => {
                return Judged::new(Status::Error, format!("{}: {why}", plan.name()));
            }
        };
        worst = Worst::worse_of(worst, found);
        ran = true;
        if !wrong.is_empty() {
            let reason = Some(format!("{}: {}", plan.name(), wrong.join("; ")));
            return Judged { status: Status::Wrong, worst, reason, stated: false };
        }
        // Only small cases run twice.
        if !trial.twice {
            break;
        }
    }
    if ran {
        return Judged { status: Status::Right, worst, reason: None, stated: false };
    }
    let why = refused.unwrap_or_else(|| "no plan".into());
    // Another answer than `served` was judged before anything ran.
    if must_serve {
        return Judged::new(Status::Wrong, format!("declined at build, expected served: {why}"));
    }
    Judged::new(Status::Declined, why)
}

fn cached(
    case: &Case,
    declared: &Declared,
    instance: &Instance,
    cache: &mut Cache,
) -> Result<Arc<Reference>, CaseError> {
    let key = reference_key(case, instance);
    match (&key, &cache) {
        (Some(key), Some((known, reference))) if key == known => return Ok(Arc::clone(reference)),
        _ => {}
    }
    // The one before goes first: references are large.
    *cache = None;
    let reference = Reference::compute(case, declared, instance)?;
    *cache = key.map(|key| (key, Arc::clone(&reference)));
    Ok(reference)
}

/// What an entry expects of an engine.
fn expected<'a>(entry: &'a Entry, engine: &EngineId) -> Option<&'a String> {
    let expect = entry.expect.as_ref()?;
    expect.get(engine.as_str()).or_else(|| expect.get(short_name(engine)))
}

/// The judgement on an answer that is not the one expected. Expectations are about an engine's own
/// kind of device: a device may be declined by an engine that is at home `elsewhere`, and by no
/// other, or an engine that declines every device would never be found out.
fn unlike_expected(
    entry: &Entry,
    engine: &EngineId,
    answer: &Answer,
    elsewhere: impl FnOnce() -> bool,
) -> Option<Judged> {
    let expected = expected(entry, engine)?;
    let is_excused = match answer {
        Answer::LeftOut => true,
        Answer::Declined(Unsupported::Device { .. } | Unsupported::ComputeCapability { .. }) => {
            elsewhere()
        }
        _ => false,
    };
    let found = answer_name(answer);
    if is_excused || *expected == found {
        return None;
    }
    let why = match answer {
        Answer::Declined(why) => format!(" ({why})"),
        _ => String::new(),
    };
    Some(Judged::new(Status::Wrong, format!("answers {found}{why}, expected {expected}")))
}

/// Whether an engine answers as expected on a device that frazil knows and that is of another kind
/// than the target: the host, or a GPU of another compute capability.
fn at_home_elsewhere(
    entry: &Entry,
    engine: &EngineId,
    (facts, router, target): (&Arc<Facts>, &Router, &Target),
) -> bool {
    let kind = |target: &Target| match &target.device {
        DeviceProps::Cuda(cuda) => Some(cuda.compute_capability),
        _ => None,
    };
    let others = fixtures::ALL.into_iter().map(|(_, make)| make());
    others.filter(|other| kind(other) != kind(target)).any(|other| {
        let answer = router.ask(engine, facts, &Arc::new(other));
        Some(&answer_name(&answer)) == expected(entry, engine)
    })
}

/// Kind and text of a decline.
fn declined(why: &Unsupported) -> String {
    format!("{}: {why}", why.kind())
}

/// What every engine of the router answers about a case on a target, as [`answer_name`] writes it.
/// Runs nothing.
///
/// # Errors
///
/// As [`declare`].
pub fn support_answers(
    case: &Case,
    router: &Router,
    target: &Target,
) -> Result<BTreeMap<EngineId, String>, CaseError> {
    let declared = declare(case)?;
    let answers = router.explain(&declared.facts, &Arc::new(target.clone())).answers;
    Ok(answers.into_iter().map(|(id, _, answer)| (id, answer_name(&answer))).collect())
}

/// `served`; for a decline its kind, as in `DType`, with the name of a feature, as in
/// `Feature(dropout)`; `left out`.
pub fn answer_name(answer: &Answer) -> String {
    match answer {
        Answer::Served(_) => "served".into(),
        Answer::Declined(Unsupported::Feature(feature)) => format!("Feature({feature})"),
        Answer::Declined(why) => why.kind().into(),
        _ => "left out".into(),
    }
}

/// Name of an engine in case files: the part after the last `_`, `cpu` for `sdpa_fwd_cpu`.
pub fn short_name(engine: &EngineId) -> &str {
    let name = engine.as_str();
    name.rsplit_once('_').map_or(name, |(_, short)| short)
}

/// What a panic said, as caught.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
