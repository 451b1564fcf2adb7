//! The detectors over the plans of an engine, and over the same engine with each violation: one body
//! for a GPU and for a simulated one.
// Each test binary uses its part of this.
#![allow(dead_code)]

#[path = "setup.rs"]
mod setup;
#[path = "sm80_calls.rs"]
pub(crate) mod sm80_calls;

use std::sync::Arc;

use frazil_conformance::cuda::SetupEngine;
use frazil_conformance::detectors::{
    Blind, CaseCalls, Detector, Effort, Finding, Results, ResultsIn, Sample, Strays, Subject,
    Violating, Violation,
};
use frazil_conformance::seqlens::Problem;
use frazil_core::{Device, Engine, Facts, Geometry, Plan, RegisteredEngine, TensorId};
use frazil_cuda::Artifacts;
use frazil_engine_sm80::Sm80Engine;
use setup::problems;

/// What one detector said of one subject.
type Said = Result<Vec<Finding>, Blind>;

/// Where things are looked at.
pub(crate) struct Place<'a> {
    /// Gives a device that has not loaded anything yet.
    pub(crate) open: &'a dyn Fn() -> Device,
    pub(crate) artifacts: Arc<Artifacts>,
    pub(crate) effort: Effort,
}

/// An engine, one of its plans for a graph, and two calls of it.
pub(crate) struct Tested {
    pub(crate) name: &'static str,
    engine: EngineOf,
    facts: Arc<Facts>,
    /// Of the plan among those that the engine offers.
    position: usize,
    calls: Calls,
}

/// Which engine, with kernels of which store.
#[derive(Clone, Copy)]
enum EngineOf {
    Setup,
    Sm80,
}

/// Two calls, and how what comes of them is judged.
enum Calls {
    /// Regions of the workspace, byte for byte.
    OfSetup(Box<[Problem; 2]>),
    /// Outputs, by the f64 reference.
    OfCases(CaseCalls),
}

impl EngineOf {
    fn registered(self, artifacts: &Arc<Artifacts>) -> RegisteredEngine {
        let artifacts = Arc::clone(artifacts);
        match self {
            Self::Setup => SetupEngine::registered(artifacts),
            Self::Sm80 => Sm80Engine::with_artifacts(artifacts).registered(),
        }
    }

    fn bare(self, artifacts: &Arc<Artifacts>) -> Arc<dyn Engine> {
        let artifacts = Arc::clone(artifacts);
        match self {
            Self::Setup => Arc::new(SetupEngine::new(artifacts)),
            Self::Sm80 => Arc::new(Sm80Engine::with_artifacts(artifacts)),
        }
    }

    fn results_in(self) -> ResultsIn {
        match self {
            Self::Setup => ResultsIn::Workspace,
            Self::Sm80 => ResultsIn::Outputs,
        }
    }
}

impl Tested {
    /// An engine that runs packed-length setup and nothing else.
    pub(crate) fn setup() -> Self {
        let problems = problems();
        let facts = Arc::new(Facts::read(&problems[0].graph().unwrap()).unwrap());
        assert_eq!(*facts, Facts::read(&problems[1].graph().unwrap()).unwrap());
        let calls = Calls::OfSetup(Box::new(problems));
        Self { name: "setup", engine: EngineOf::Setup, facts, position: 0, calls }
    }

    /// A plan of the engine for GPUs from compute capability 8.0 up.
    pub(crate) fn sm80(calls: &sm80_calls::Calls, position: usize) -> Self {
        let (name, cases) = (calls.name, calls.cases());
        let facts = Arc::clone(cases.facts());
        Self { name, engine: EngineOf::Sm80, facts, position, calls: Calls::OfCases(cases) }
    }
}

impl Place<'_> {
    /// Every detector finds nothing on the engine itself, and on each violation what the table says.
    /// Gives back who could not look, and why.
    pub(crate) fn look(
        &self,
        tested: &Tested,
        violations: &[Violation],
        detectors: &[Detector],
    ) -> Vec<(Detector, Blind)> {
        let Tested { name, position, .. } = tested;
        let mut blind = Vec::new();
        let mut wrong = Vec::new();
        let violations = violations.iter().copied().map(Some);
        for violation in [None].into_iter().chain(violations) {
            let (engine, device) = self.engine(tested.engine, violation);
            let all = self.findings(&engine, &device, tested, detectors);
            for (&detector, said) in detectors.iter().zip(all) {
                let is_expected = violation.is_some_and(|it| it.is_found_by(detector));
                match said {
                    Ok(findings) if findings.is_empty() != is_expected => {}
                    Err(why) if !matches!(why, Blind::Failed(_)) => blind.push((detector, why)),
                    said => wrong.push(format!(
                        "{detector:?} of {name}, plan {position}, on {violation:?}: {said:?}"
                    )),
                }
            }
        }
        assert!(wrong.is_empty(), "{} surprises\n{}", wrong.len(), wrong.join("\n"));
        blind.sort_by_key(|(detector, _)| *detector);
        blind.dedup();
        blind
    }

    fn engine(
        &self,
        engine: EngineOf,
        violation: Option<Violation>,
    ) -> (Arc<RegisteredEngine>, Device) {
        let device = (self.open)();
        let engine = match violation {
            None => engine.registered(&self.artifacts),
            Some(violation) => {
                let inner = engine.bare(&self.artifacts);
                let strays = Arc::new(Strays::new(&device, &self.artifacts).unwrap());
                let results_in = engine.results_in();
                Violating::registered(inner, results_in, violation, strays, self.effort)
            }
        };
        (Arc::new(engine), device)
    }

    fn findings(
        &self,
        engine: &Arc<RegisteredEngine>,
        device: &Device,
        tested: &Tested,
        detectors: &[Detector],
    ) -> Vec<Said> {
        let target = Arc::new(device.target().clone());
        let plan =
            || -> Plan { engine.ask(&tested.facts, &target).unwrap().swap_remove(tested.position) };
        let look = |samples: [Sample<'_>; 2], overrides: &[(TensorId, Geometry)]| {
            let results_in = tested.engine.results_in();
            let effort = self.effort;
            let subject = Subject { device, plan: &plan, samples, overrides, results_in, effort };
            detectors.iter().map(|detector| detector.findings(&subject)).collect()
        };
        match &tested.calls {
            Calls::OfCases(calls) => look(calls.samples(), &calls.overrides()),
            Calls::OfSetup(problems) => {
                let judges = problems.each_ref().map(|problem| judge(problem, &plan()));
                let sample = |at: usize| {
                    let inputs = problems[at].contents().unwrap();
                    Sample { inputs, judge: &*judges[at] }
                };
                look([sample(0), sample(1)], &[])
            }
        }
    }
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
