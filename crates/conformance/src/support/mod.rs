//! Who serves what, found out by asking: every engine of a router, about every probe, on every
//! fixture. Nothing is run, so the table of all architectures can be made on any machine.

mod markdown;
mod probes;

use std::sync::Arc;

use frazil_core::target::fixtures;
use frazil_core::{EngineId, Maturity, Target, Unsupported};
use frazil_router::{Answer, Router};

use crate::declare::CaseError;
pub use probes::{Probe, probes};

/// The answers of all engines. [`SupportTable::summary`] and [`SupportTable::full`] are its forms
/// in Markdown.
#[derive(Clone, Debug)]
pub struct SupportTable {
    probes: Vec<Probe>,
    engines: Vec<EngineAnswers>,
}

/// Served, or why not.
type Said = Result<(), Unsupported>;

/// What one engine said.
#[derive(Clone, Debug)]
struct EngineAnswers {
    id: EngineId,
    maturity: Maturity,
    package: &'static str,
    targets: Vec<OnTarget>,
}

/// What one engine said about one fixture, by probe.
#[derive(Clone, Debug)]
struct OnTarget {
    name: &'static str,
    answers: Vec<Said>,
}

impl SupportTable {
    /// Asks all engines of the router; those that a filter leaves out are left out here as well.
    ///
    /// # Errors
    ///
    /// [`CaseError`] when a probe means nothing, which no release ships.
    pub fn ask(router: &Router) -> Result<Self, CaseError> {
        let probes = probes()?;
        let of = |engine: &frazil_core::RegisteredEngine| EngineAnswers {
            id: engine.id().clone(),
            maturity: engine.maturity(),
            package: engine.package(),
            targets: Vec::new(),
        };
        let mut engines: Vec<EngineAnswers> = router.engines().map(of).collect();
        for (name, make) in fixtures::ALL {
            let target = Arc::new(make());
            for probe in &probes {
                for (id, _, answer) in router.explain(&probe.facts, &target).answers {
                    let said = match answer {
                        Answer::Served(_) => Ok(()),
                        Answer::Declined(why) => Err(why),
                        _ => continue,
                    };
                    let engine = engines.iter_mut().find(|engine| engine.id == id);
                    engine.into_iter().for_each(|engine| engine.note(name, said.clone()));
                }
            }
        }
        engines.retain(|engine| !engine.targets.is_empty());
        Ok(Self { probes, engines })
    }
}

/// The engines of a router that are made for a device of that kind: those that serve some probe there.
/// One that serves no probe on any fixture is made for all, or nobody would ask it anything.
///
/// # Errors
///
/// As [`SupportTable::ask`].
pub fn at_home(router: &Router, target: &Target) -> Result<Vec<EngineId>, CaseError> {
    let probes = probes()?;
    let serves_some = |id: &EngineId, target: Target| {
        let target = Arc::new(target);
        let mut asked = probes.iter().map(|probe| router.ask(id, &probe.facts, &target));
        asked.any(|answer| matches!(answer, Answer::Served(_)))
    };
    let is_at_home = |id: &&EngineId| {
        let mut elsewhere = fixtures::ALL.into_iter();
        serves_some(id, target.clone()) || !elsewhere.any(|(_, make)| serves_some(id, make()))
    };
    Ok(router.engines().map(|engine| engine.id()).filter(is_at_home).cloned().collect())
}

impl EngineAnswers {
    fn note(&mut self, target: &'static str, said: Said) {
        match self.targets.last_mut() {
            Some(last) if last.name == target => last.answers.push(said),
            _ => self.targets.push(OnTarget { name: target, answers: vec![said] }),
        }
    }

    /// Where most is served; of equal ones the first.
    fn home(&self) -> Option<&OnTarget> {
        self.targets.iter().rev().max_by_key(|target| target.num_served())
    }
}

impl OnTarget {
    fn num_served(&self) -> usize {
        self.answers.iter().filter(|answer| answer.is_ok()).count()
    }
}

#[cfg(test)]
mod tests {
    use frazil_core::{
        BuildError, Candidate, Compiled, Config, DType, Device, DeviceProps, Engine, Facts,
        Feature, FeatureSet, Launch, Launches, Layout, Plan, RegisteredEngine, Role, Support,
        Target,
    };

    use super::*;

    /// Serves these types on any device.
    #[derive(Debug)]
    struct OfTypes(&'static [DType]);

    /// Serves the engine's types on the host alone.
    #[derive(Debug)]
    struct OnTheHost(OfTypes);

    impl Engine for OnTheHost {
        fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
            let found = target.device.to_string();
            match &target.device {
                DeviceProps::Host(_) => self.0.check_support(facts, target),
                _ => Err(Unsupported::Device { found, need: "the host" }),
            }
        }

        fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
            self.0.compile(plan)
        }

        fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
            self.0.build(plan, device)
        }
    }

    #[test]
    fn an_engine_is_at_home_where_it_serves_and_everywhere_if_nowhere() {
        let engine = |name: &'static str, engine: Arc<dyn Engine>| {
            let features = FeatureSet::of(&[]);
            let id = EngineId::new(name);
            RegisteredEngine::new(id, features, Maturity::Simulated, "test", engine)
        };
        let engines = [
            engine("test/anywhere", Arc::new(OfTypes(&[DType::F32]))),
            engine("test/host", Arc::new(OnTheHost(OfTypes(&[DType::F32])))),
            engine("test/none", Arc::new(OnTheHost(OfTypes(&[])))),
        ];
        let router = Router::over(engines).unwrap();
        for (name, make) in fixtures::ALL {
            let found = at_home(&router, &make()).unwrap();
            let found: Vec<&str> = found.iter().map(EngineId::as_str).collect();
            let expected: &[&str] = match name {
                "host" => &["test/anywhere", "test/host", "test/none"],
                _ => &["test/anywhere", "test/none"],
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    impl Engine for OfTypes {
        fn check_support(&self, facts: &Facts, _: &Target) -> Result<Support, Unsupported> {
            let Facts::SdpaFwd(facts) = facts else { unreachable!("the one operation") };
            let found = facts.dtype(Role::Q).expect("Q is there");
            if !self.0.contains(&found) {
                return Err(Unsupported::DType { tensor: "q", found, served: "others" });
            }
            Ok(Support::one(Candidate {
                config: Config::default(),
                workspace: Layout::new(),
                launches: Launches::Own(Vec::new()),
                error_word: None,
                overrides: None,
            }))
        }

        fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
            Ok(Vec::new())
        }

        fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
            unreachable!("nothing is built")
        }
    }

    fn table(features: &[Feature], types: &'static [DType]) -> SupportTable {
        let id = EngineId::new("test/sdpa_fwd_types");
        let features = FeatureSet::of(features);
        let engine = Arc::new(OfTypes(types));
        let engine = RegisteredEngine::new(id, features, Maturity::Simulated, "test", engine);
        SupportTable::ask(&Router::over([engine]).unwrap()).unwrap()
    }

    /// A feature that is added to core needs a probe here.
    #[test]
    fn every_feature_is_probed() {
        let probes = probes().unwrap();
        for &feature in Feature::ALL.iter().filter(|&&feature| feature != Feature::OnlyInTests) {
            let probed = |probe: &Probe| probe.facts.features().contains(feature);
            assert!(probes.iter().any(probed), "{feature}");
        }
    }

    #[test]
    fn names_of_probes_are_unique_within_their_group() {
        let probes = probes().unwrap();
        let names: std::collections::BTreeSet<_> =
            probes.iter().map(|probe| (probe.group, probe.name)).collect();
        assert_eq!(names.len(), probes.len());
    }

    /// One feature or one type more is one row more in both forms, and nothing else changes.
    #[test]
    fn a_changed_answer_changes_the_table() {
        let base = table(&[Feature::Band], &[DType::Bf16]);
        let with_cap = table(&[Feature::Band, Feature::SoftCap], &[DType::Bf16]);
        let with_f16 = table(&[Feature::Band], &[DType::Bf16, DType::F16]);
        for changed in [with_cap, with_f16] {
            assert_ne!(changed.summary(), base.summary());
            let (changed, base) = (changed.full(), base.full());
            let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            let different = lines(&changed).into_iter().zip(lines(&base)).filter(|(a, b)| a != b);
            assert!((1..=2).contains(&different.count()), "{changed}\n{base}");
        }
    }

    #[test]
    fn both_forms_name_the_engine_its_maturity_and_its_reasons() {
        let table = table(&[], &[DType::F32]);
        for text in [table.summary(), table.full()] {
            for part in ["test/sdpa_fwd_types", "simulated", "host", "sm121", "DType", "Feature"] {
                assert!(text.contains(part), "{part} in\n{text}");
            }
        }
        assert!(table.full().contains("`DType`: `q` is bf16, served: others"), "{}", table.full());
    }
}
