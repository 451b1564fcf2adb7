//! Packed-length setup on a GPU, real or simulated, against the reference of the conformance
//! library: one body of tests for both.
// Each test binary uses its part of this.
#![allow(dead_code)]

use std::sync::Arc;

use frazil::{Facts, Plan, RegisteredEngine};
use frazil_conformance::memory::DeviceMemory;
use frazil_conformance::seqlens::{Form, Harm, Problem};
use frazil_cuda::sim::Simulation;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A device with an engine that runs setup alone.
pub(crate) struct Setup {
    engine: Arc<RegisteredEngine>,
    memory: Box<dyn DeviceMemory>,
}

/// Every pair of forms of which one has lengths.
fn forms() -> impl Iterator<Item = (Form, Form)> {
    let sides = Form::OF_Q.into_iter().flat_map(|q| Form::OF_KV.map(|kv| (q, kv)));
    sides.filter(|&sides| sides != (Form::Dense, Form::Dense))
}

impl Setup {
    pub(crate) fn new(engine: RegisteredEngine, memory: impl DeviceMemory + 'static) -> Self {
        Self { engine: Arc::new(engine), memory: Box::new(memory) }
    }

    pub(crate) fn plan(&self, problem: &Problem) -> Plan {
        let facts = Arc::new(Facts::read(&problem.graph().unwrap()).unwrap());
        let target = Arc::new(self.memory.device().target().clone());
        self.engine.ask(&facts, &target).unwrap().remove(0)
    }

    /// Executes a problem twice, with one executable, and looks at every byte of the workspace.
    pub(crate) fn check(&self, problem: &Problem) {
        let plan = self.plan(problem);
        let executable = plan.build(self.memory.device()).unwrap();
        let expected = problem.expected_workspace(&plan).unwrap();
        // On a simulated GPU no two launches run in one order.
        for _ in 0..2 {
            let found = problem.execute(&executable, self.memory.as_ref()).unwrap();
            if found != expected {
                let at =
                    found.iter().zip(&expected).position(|(found, expected)| found != expected);
                let regions: Vec<_> = plan.workspace().regions().collect();
                panic!("byte {at:?} of the workspace, {regions:?}\n{problem:#?}");
            }
        }
        self.check_simulation();
    }

    /// Nothing that a GPU would not tell: races, reads of what nobody wrote, misuse of the driver.
    fn check_simulation(&self) {
        let Some(simulation) = Simulation::of(self.memory.device()) else { return };
        let findings: Vec<String> = simulation.findings().iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        assert_eq!(simulation.misuses(), []);
    }

    /// Every pair of forms, every harm on each side, and another one on the other.
    pub(crate) fn whatever_the_tensors_hold(&self, batches: &[u64]) {
        let mut seed = 0;
        for (q, kv) in forms() {
            for (at, harm) in Harm::ALL.into_iter().enumerate() {
                let other = Harm::ALL[(at + seed) % Harm::ALL.len()];
                for &batch in batches {
                    seed += 1;
                    self.check(&Problem::hostile(batch, (q, harm), (kv, other), seed as u64));
                }
            }
        }
    }

    /// Sums of lengths carried over many rounds of the block.
    pub(crate) fn thousands_of_sequences(&self, batches: &[u64]) {
        let harms = [Harm::None, Harm::Near, Harm::Random, Harm::Greatest].into_iter().cycle();
        let packed = [Form::PackedLengths, Form::PackedPrefix, Form::PackedStarts, Form::Padded];
        for &batch in batches {
            for (form, harm) in packed.into_iter().zip(harms.clone()) {
                for (q, kv) in [(form, Form::PackedLengths), (Form::PackedLengths, form)] {
                    let (q, kv) = ((q, harm), (kv, Harm::Near));
                    self.check(&Problem::hostile(batch, q, kv, batch));
                }
            }
        }
    }

    /// Lengths, starts and sums up to the end of an int32 and past it.
    pub(crate) fn rows_up_to_the_end_of_an_int32(&self) {
        for form in [Form::PackedLengths, Form::PackedPrefix, Form::PackedStarts] {
            for harm in Harm::ALL {
                for batch in [2, 33, 700] {
                    self.check(&Problem::gigarows(batch, (form, harm), 1));
                }
            }
        }
    }

    /// Problems drawn at random; what fails is made smaller.
    pub(crate) fn drawn_problems(&self, cases: u32) {
        let side = |forms: &'static [Form]| (select(forms), select(&Harm::ALL[..]));
        let sides = (side(&Form::OF_Q), side(&Form::OF_KV));
        let has_lengths =
            |(q, kv): &((Form, Harm), (Form, Harm))| (q.0, kv.0) != (Form::Dense, Form::Dense);
        let sides = sides.prop_filter("no side has lengths", has_lengths);
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let drawn = runner.run(&(0..700_u64, sides, any::<u64>()), |(batch, (q, kv), seed)| {
            self.check(&Problem::hostile(batch, q, kv, seed));
            Ok(())
        });
        drawn.unwrap_or_else(|error| panic!("{error}"));
    }
}
