//! `frazil explain`: every engine's answer to a case, and why.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use frazil::target::fixtures;
use frazil::{
    Answer, EngineId, Explanation, Facts, Feature, Launches, Plan, PlanName, Router, Target,
};
use frazil_conformance::declare::declare;
use serde::Serialize;

use crate::args;
use crate::cases;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, one_line};
use crate::select;

/// One case, as one JSON object.
#[derive(Serialize)]
struct Explained<'a> {
    case: &'a str,
    target: &'a str,
    operation: &'static str,
    features: Vec<&'static str>,
    answers: Vec<Said<'a>>,
}

/// What one engine said.
#[derive(Serialize)]
struct Said<'a> {
    engine: &'a EngineId,
    maturity: String,
    answer: &'static str,
    kind: Option<&'static str>,
    reason: Option<String>,
    plans: Vec<Offer<'a>>,
}

/// One plan.
#[derive(Serialize)]
struct Offer<'a> {
    /// Place among the plans of all engines, from 1.
    rank: Option<usize>,
    config: String,
    workspace_bytes: u64,
    regions: BTreeMap<&'static str, u64>,
    launches: &'a [std::borrow::Cow<'static, str>],
    /// Whether kernels of a library follow those of ours.
    foreign: bool,
}

pub(crate) fn explain(args: &args::Explain, out: &mut Output) -> Result<Outcome, Failure> {
    let target = target(&args.target)?;
    let router = select::router(None)?;
    let mut entries = cases::read(&args.source, &router)?;
    if let Some(name) = &args.case {
        let known: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
        entries.retain(|entry| entry.id == *name);
        if entries.is_empty() {
            let near: Vec<&str> = known.iter().map(String::as_str).take(5).collect();
            let what = format!("no case `{name}` among {}: {}, …", known.len(), near.join(", "));
            return Err(Failure::Input(format!("{}: {what}", args.source.display())));
        }
    }
    let mut outcome = Outcome::Right;
    for entry in &entries {
        // Runs that differ in values alone ask the same question.
        let mut asked: Vec<Arc<Facts>> = Vec::new();
        for case in &entry.runs {
            let facts = declare(case)
                .map_err(|error| Failure::Input(format!("case `{}`: {error}", case.name)))?
                .facts;
            if asked.contains(&facts) {
                continue;
            }
            let explanation = router.explain(&facts, &target);
            if explanation.serving().next().is_none() {
                outcome.or_worse(Outcome::Declined);
            }
            write(&case.name, &facts, &explanation, &ranks(&router, &facts, &target), out)?;
            asked.push(facts);
        }
    }
    Ok(outcome)
}

fn target(name: &str) -> Result<Arc<Target>, Failure> {
    if name == "this" {
        return Ok(Arc::new(Target::host()));
    }
    fixtures::by_name(name).map(Arc::new).ok_or_else(|| {
        let known: Vec<_> = fixtures::ALL.iter().map(|(name, _)| *name).collect();
        Failure::Input(format!("no target `{name}`; there are: this, {}", known.join(", ")))
    })
}

/// Names of all plans, best first.
fn ranks(router: &Router, facts: &Arc<Facts>, target: &Arc<Target>) -> Vec<PlanName> {
    let plans = router.plans(facts, target).unwrap_or_default();
    plans.iter().map(Plan::name).collect()
}

fn write(
    case: &str,
    facts: &Facts,
    explanation: &Explanation,
    ranks: &[PlanName],
    out: &mut Output,
) -> Result<(), Failure> {
    if !out.json {
        writeln!(out, "case: {}", one_line(case))?;
        writeln!(out, "operation: {}", facts.op_name())?;
        writeln!(out, "features: {}", facts.features())?;
        write!(out, "{explanation}")?;
        return Ok(());
    }
    let offer = |plan| offer(plan, ranks);
    let answers = explanation.answers.iter().map(|(engine, maturity, answer)| {
        let (name, why, plans) = match answer {
            Answer::Served(plans) => ("served", None, plans.as_slice()),
            Answer::Declined(why) => ("declined", Some(why), &[][..]),
            _ => ("left_out", None, &[][..]),
        };
        Said {
            engine,
            maturity: maturity.to_string(),
            answer: name,
            kind: why.map(|why| why.kind()),
            reason: why.map(ToString::to_string),
            plans: plans.iter().map(offer).collect(),
        }
    });
    out.object(&Explained {
        case,
        target: &explanation.target,
        operation: facts.op_name(),
        features: facts.features().iter().map(Feature::name).collect(),
        answers: answers.collect(),
    })
}

fn offer<'a>(plan: &'a Plan, ranks: &[PlanName]) -> Offer<'a> {
    let (launches, foreign): (&[_], _) = match plan.launches() {
        Launches::Own(names) => (names, false),
        Launches::Foreign { setup } => (setup, true),
        _ => (&[], false),
    };
    let regions = plan.workspace().regions();
    Offer {
        rank: ranks.iter().position(|name| *name == plan.name()).map(|at| at + 1),
        config: plan.config().to_string(),
        workspace_bytes: plan.workspace_bytes(),
        regions: regions.map(|(name, region)| (name, region.bytes())).collect(),
        launches,
        foreign,
    }
}
