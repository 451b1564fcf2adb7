//! The engine's numbers at every set of instructions that this processor has: users get the best
//! alone, so that no other test would see the others.

use std::sync::Arc;

use frazil_conformance::case::{Case, CaseFile};
use frazil_conformance::generator::case_from_seed;
use frazil_conformance::memory::HostMemory;
use frazil_conformance::run::{Entry, Status, Verdict, check_entry};
use frazil_core::{
    BuildError, Compiled, Device, Engine, EngineId, Facts, Launch, Maturity, Plan,
    RegisteredEngine, Support, Target, Unsupported,
};
use frazil_router::Router;

use crate::vector::Isa;
use crate::{CpuEngine, FEATURES};

/// The engine with one set of instructions.
#[derive(Debug)]
struct Level(Isa);

impl Engine for Level {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        CpuEngine.check_support(facts, target)
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        crate::build(plan, device, self.0)
    }
}

/// One engine for each set of instructions, so that they share the reference of a case.
fn levels() -> Router {
    const NAMES: [EngineId; 3] =
        [EngineId::new("test/first"), EngineId::new("test/second"), EngineId::new("test/third")];
    let engines = NAMES.into_iter().zip(Isa::all()).map(|(id, isa)| {
        let package = env!("CARGO_PKG_NAME");
        RegisteredEngine::new(id, FEATURES, Maturity::Simulated, package, Arc::new(Level(isa)))
    });
    Router::over(engines).unwrap()
}

/// Runs cases at every level and fails for the first that is not right where it is served; says how
/// many were served.
fn check(cases: impl IntoIterator<Item = Case>) -> usize {
    let (router, memory) = (levels(), HostMemory::new(crate::host_with_threads(3)));
    let num_levels = router.engines().len();
    let mut num_right = 0;
    for case in cases {
        let entry = Entry { id: case.name.clone(), runs: vec![case], expect: None };
        for verdict in check_entry(&entry, &router, &memory) {
            let Verdict { engine, status, reason, repro, .. } = verdict;
            assert!(
                !matches!(status, Status::Wrong | Status::Error | Status::Skipped),
                "{} at {engine} of {:?}: {reason:?}\n{repro:?}",
                entry.id,
                Isa::all()
            );
            num_right += usize::from(status == Status::Right);
        }
    }
    // What is served follows from the facts alone.
    assert_eq!(num_right % num_levels, 0);
    num_right / num_levels
}

fn file(text: &str) -> Vec<Case> {
    CaseFile::parse(text).unwrap().cases
}

#[test]
fn few_rows_against_many_keys() {
    assert!(check(file(include_str!("../tests/cases/sdpa_fwd_decode.toml"))) > 40);
}

#[test]
fn edges() {
    assert!(check(file(include_str!("../tests/cases/sdpa_fwd_edges.toml"))) > 10);
}

#[test]
fn every_storage_form() {
    assert!(check(file(include_str!("../tests/cases/sdpa_fwd_storage.toml"))) > 10);
}

#[test]
fn generated_cases() {
    assert!(check((0..120).map(case_from_seed)) > 60);
}
