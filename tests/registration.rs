//! Engines register, are listed in order, and are asked only what they name.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::Arc;

use frazil::{
    Answer, BuildError, Compiled, DType, Device, Engine, EngineId, EngineRegistration, Facts,
    Feature, FeatureSet, GraphBuilder, Launch, Maturity, OWN_ENGINES, Plan, RegisteredEngine,
    Router, SdpaFwd, Support, Target, TensorSpec, Unsupported, target,
};

/// Must never be asked.
#[derive(Debug)]
struct Unasked;

impl Engine for Unasked {
    fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
        panic!("asked in spite of a feature that it does not name");
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
        panic!("built without a plan");
    }
}

fn registration(id: &'static str, package: &'static str) -> EngineRegistration {
    EngineRegistration {
        id: EngineId::new(id),
        features: FeatureSet::EMPTY,
        maturity: Maturity::Simulated,
        package,
        construct: || Arc::new(Unasked),
    }
}

fn facts() -> Facts {
    let mut builder = GraphBuilder::new();
    let spec = |name| TensorSpec::contiguous(name, DType::F32, [1, 1, 4, 8]);
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| builder.tensor(spec(name)).unwrap());
    builder.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
    Facts::read(&builder.finish().unwrap()).unwrap()
}

/// The facade links every engine that its features enable, and no other.
#[test]
fn the_enabled_engines_are_linked() {
    let router = Router::from_registrations().unwrap();
    let ids: Vec<_> = router.engines().map(|engine| engine.id().to_string()).collect();
    let engines =
        [("sdpa_fwd_cpu", cfg!(feature = "cpu")), ("sdpa_fwd_sm80", cfg!(feature = "sm80"))];
    let enabled: Vec<&str> =
        engines.into_iter().filter_map(|(id, is_enabled)| is_enabled.then_some(id)).collect();
    assert_eq!(ids, enabled);
    assert!(ids.iter().all(|id| OWN_ENGINES.contains(&id.as_str())));
}

#[test]
fn two_engines_of_one_name_are_an_error_that_names_both_crates() {
    let twice = [registration("zoo/a", "crate-one"), registration("zoo/a", "crate-two")];
    let error = Router::collect(&twice).unwrap_err();
    assert_eq!((error.first, error.second), ("crate-one", "crate-two"));
    assert_eq!(error.id, EngineId::new("zoo/a"));
    let handed_over = twice.each_ref().map(RegisteredEngine::from);
    assert_eq!(Router::over(handed_over).unwrap_err(), error);
}

/// Every engine declines a feature that it does not name, before its own rules run.
#[test]
fn a_feature_that_no_engine_names_is_declined_by_every_engine() {
    let facts = Arc::new(facts().demanding(Feature::OnlyInTests));
    let unasked = RegisteredEngine::from(&registration("zoo/a", "zoo"));
    let router = Router::from_registrations().unwrap();
    assert!(router.engines().all(|engine| !engine.features().contains(Feature::OnlyInTests)));
    for (name, target) in target::fixtures::ALL {
        let target = Arc::new(target());
        let declined = router.plans(&facts, &target).unwrap_err().declined;
        assert_eq!(declined.len(), router.engines().len(), "{name}");
        for (engine, why) in declined {
            assert_eq!(why, Unsupported::Feature(Feature::OnlyInTests), "{engine} on {name}");
        }
    }
    let declined =
        Router::over([unasked]).unwrap().plans(&facts, &Arc::new(Target::host())).unwrap_err();
    assert_eq!(declined.declined[0].1, Unsupported::Feature(Feature::OnlyInTests));
}

/// Types that differ between Q, K and V are a feature of their own, so that an engine of one type
/// declines them without a rule.
#[test]
fn mixed_types_are_a_feature() {
    let features = |k_dtype| {
        let mut builder = GraphBuilder::new();
        let mut tensor = |name, dtype| {
            builder.tensor(TensorSpec::contiguous(name, dtype, [1, 1, 4, 8])).unwrap()
        };
        let q = tensor("q", DType::Bf16);
        let k = tensor("k", k_dtype);
        let v = tensor("v", DType::Bf16);
        let o = tensor("o", DType::F32);
        builder.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
        Facts::read(&builder.finish().unwrap()).unwrap().features()
    };
    assert_eq!(features(DType::Bf16), FeatureSet::EMPTY);
    assert_eq!(features(DType::F8E4m3), FeatureSet::of(&[Feature::MixedTypes]));
}

/// The seeded violation of the declines above: an engine that names the feature is asked.
#[test]
#[should_panic(expected = "asked in spite of")]
fn an_engine_that_names_the_feature_is_asked() {
    let all = FeatureSet::of(Feature::ALL);
    let engine = RegisteredEngine::new(
        EngineId::new("zoo/a"),
        all,
        Maturity::Simulated,
        "zoo",
        Arc::new(Unasked),
    );
    let facts = Arc::new(facts().demanding(Feature::OnlyInTests));
    let _ = Router::over([engine]).unwrap().explain(&facts, &Arc::new(Target::host()));
}

#[test]
fn an_engine_left_out_by_a_filter_is_not_asked() {
    let engine = RegisteredEngine::from(&registration("zoo/a", "zoo"));
    let router = Router::over([engine]).unwrap().only([EngineId::new("zoo/b")]);
    let explanation = router.explain(&Arc::new(facts()), &Arc::new(Target::host()));
    assert!(matches!(explanation.answers[0].2, Answer::LeftOut));
}
