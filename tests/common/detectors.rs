//! The detectors over an engine that runs packed-length setup, and over the same engine with each
//! violation: one body for a GPU and for a simulated one.

#[path = "setup.rs"]
mod setup;

use std::sync::Arc;

use frazil_conformance::cuda::SetupEngine;
use frazil_conformance::detectors::{
    Blind, Detector, Effort, Finding, Results, Sample, Strays, Subject, Violating, Violation,
};
use frazil_conformance::seqlens::Problem;
use frazil_core::{Device, Engine, Facts, Plan, RegisteredEngine};
use frazil_cuda::Artifacts;
use setup::problems;

/// What one detector said of one subject.
type Said = Result<Vec<Finding>, Blind>;

/// Where things are looked at.
pub(crate) struct Place<'a> {
    /// Gives a device that has not loaded anything yet.
    pub(crate) open: &'a dyn Fn() -> Device,
    pub(crate) artifacts: Arc<Artifacts>,
}

impl Place<'_> {
    /// Every detector finds nothing on setup itself, and on each violation what the table says.
    /// Gives back who could not look, and why.
    pub(crate) fn look(&self, detectors: &[Detector]) -> Vec<(Detector, Blind)> {
        let mut blind = Vec::new();
        let mut wrong = Vec::new();
        for violation in [None].into_iter().chain(Violation::ALL.map(Some)) {
            let (engine, device) = self.engine(violation);
            for (&detector, said) in detectors.iter().zip(findings(&engine, &device, detectors)) {
                let is_expected = violation.is_some_and(|it| it.is_found_by(detector));
                match said {
                    Ok(findings) if findings.is_empty() != is_expected => {}
                    Err(why) if !matches!(why, Blind::Failed(_)) => blind.push((detector, why)),
                    said => wrong.push(format!("{detector:?} on {violation:?}: {said:?}")),
                }
            }
        }
        assert!(wrong.is_empty(), "{} surprises\n{}", wrong.len(), wrong.join("\n"));
        blind.sort_by_key(|(detector, _)| *detector);
        blind.dedup();
        blind
    }

    fn engine(&self, violation: Option<Violation>) -> (Arc<RegisteredEngine>, Device) {
        let device = (self.open)();
        let engine = match violation {
            None => SetupEngine::registered(Arc::clone(&self.artifacts)),
            Some(violation) => {
                let inner: Arc<dyn Engine> =
                    Arc::new(SetupEngine::new(Arc::clone(&self.artifacts)));
                let strays = Arc::new(Strays::new(&device, &self.artifacts).unwrap());
                Violating::registered(inner, violation, strays, Effort::of(device.id()))
            }
        };
        (Arc::new(engine), device)
    }
}

fn findings(engine: &Arc<RegisteredEngine>, device: &Device, detectors: &[Detector]) -> Vec<Said> {
    let problems = problems();
    let facts = Arc::new(Facts::read(&problems[0].graph().unwrap()).unwrap());
    assert_eq!(*facts, Facts::read(&problems[1].graph().unwrap()).unwrap());
    let target = Arc::new(device.target().clone());
    let plan = || -> Plan { engine.ask(&facts, &target).unwrap().remove(0) };
    let judges = problems.each_ref().map(|problem| judge(problem, &plan()));
    let sample =
        |at: usize| Sample { inputs: problems[at].contents().unwrap(), judge: &*judges[at] };
    let subject = Subject {
        device,
        plan: &plan,
        samples: [sample(0), sample(1)],
        observes_workspace: true,
        effort: Effort::of(device.id()),
    };
    detectors.iter().map(|detector| detector.findings(&subject)).collect()
}

type Judge = Box<dyn Fn(&Results) -> Result<(), String> + Sync>;

/// Regions against the reference, byte for byte.
fn judge(problem: &Problem, plan: &Plan) -> Judge {
    let expected = problem.expected_workspace(plan).unwrap();
    let layout = plan.workspace().clone();
    Box::new(move |results| {
        for (name, region) in layout.regions() {
            let [at, bytes] =
                [region.offset(), region.bytes()].map(|n| usize::try_from(n).unwrap());
            let (expected, found) = (&expected[at..at + bytes], results.region(name));
            if found != Some(expected) {
                return Err(format!("{name} is {found:?}, expected {expected:?}"));
            }
        }
        Ok(())
    })
}
