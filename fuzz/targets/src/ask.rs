//! Every engine's answer about facts, on every target that frazil knows.

use std::sync::{Arc, LazyLock};

use frazil::target::fixtures;
use frazil::{Answer, Facts, Launches, Plan, Router, Target};

/// The engines linked here.
pub(crate) static ROUTER: LazyLock<Router> =
    LazyLock::new(|| Router::from_registrations().expect("each engine has a name of its own"));

/// The fixtures.
static TARGETS: LazyLock<Vec<Arc<Target>>> =
    LazyLock::new(|| fixtures::ALL.into_iter().map(|(_, make)| Arc::new(make())).collect());

/// Most scratch of a plan: so much, and so much for each sequence. Nothing may grow with rows.
const MAX_WORKSPACE_BYTES: u64 = 1 << 30;
const MAX_WORKSPACE_BYTES_A_SEQUENCE: u64 = 64;

/// Asks the engines linked here, and holds each answer to what the contract says of it. Gives whether somebody serves.
///
/// # Panics
///
/// When an engine gives no answer, another one when asked again, or a plan that cannot be.
pub(crate) fn ask_everywhere(facts: &Arc<Facts>) -> bool {
    ask(&ROUTER, facts)
}

fn ask(router: &Router, facts: &Arc<Facts>) -> bool {
    let mut served = false;
    for target in TARGETS.iter() {
        let explanation = router.explain(facts, target);
        assert_eq!(explanation.answers.len(), router.engines().len(), "an engine gave no answer");
        let again = router.explain(facts, target);
        assert_eq!(explanation.to_string(), again.to_string(), "answers differ when asked again");
        for (id, _, answer) in &explanation.answers {
            match answer {
                Answer::Served(plans) => {
                    assert!(!plans.is_empty(), "{id} serves without a plan");
                    plans.iter().for_each(|plan| check_plan(router, plan, (facts, target)));
                    served = true;
                }
                Answer::Declined(why) => assert!(!why.to_string().is_empty(), "{id} says nothing"),
                other => panic!("{id} was not asked: {other:?}"),
            }
        }
    }
    served
}

fn check_plan(router: &Router, plan: &Plan, (facts, target): (&Arc<Facts>, &Arc<Target>)) {
    let Facts::SdpaFwd(sdpa) = facts.as_ref() else { panic!("facts of {}", facts.op_name()) };
    let name = plan.name();
    let outside = facts.features().first_outside(engine_features(router, plan));
    assert_eq!(outside, None, "{name} serves a feature that its engine does not name");
    let most = MAX_WORKSPACE_BYTES
        .saturating_add(sdpa.shape().batch.saturating_mul(MAX_WORKSPACE_BYTES_A_SEQUENCE));
    let bytes = plan.workspace_bytes();
    assert!(bytes <= most, "{name} takes {bytes} bytes of workspace, the limit is {most}");
    let regions: Vec<_> = plan.workspace().regions().collect();
    for (at, (region, place)) in regions.iter().enumerate() {
        let end = place.offset().checked_add(place.bytes()).expect("a region ends");
        assert!(end <= bytes, "{name}: region {region} ends past the workspace");
        let next = regions.get(at + 1).map_or(bytes, |(_, next)| next.offset());
        assert!(end <= next, "{name}: region {region} runs into the next one");
    }
    assert_eq!(
        plan.error_word().is_some(),
        sdpa.has_device_lengths(),
        "{name}: an error word is there exactly where a device tensor steers the work"
    );
    if let Some(at) = plan.error_word() {
        assert!(at % 4 == 0 && at + 4 <= bytes, "{name}: the error word lies at {at}");
    }
    if facts.is_overridable() {
        assert!(plan.override_rules().is_some(), "{name} takes no overrides");
    }
    if let Launches::Own(names) = plan.launches() {
        assert!(names.iter().all(|name| name.starts_with("frazil_")), "{name}: {names:?}");
    }
    let text = serde_json::to_string(&name).expect("a name is data");
    assert_eq!(serde_json::from_str::<frazil::PlanName>(&text).ok(), Some(name.clone()));
    let replayed = router.replay(&name, facts, target).expect("a plan is found by its name");
    assert_eq!(replayed.name(), name);
}

fn engine_features(router: &Router, plan: &Plan) -> frazil::FeatureSet {
    let mut engines = router.engines();
    let engine = engines.find(|engine| engine.id() == plan.engine());
    engine.expect("a plan is of an engine of the router").features()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};

    use frazil::{
        BuildError, Candidate, Compiled, Config, DType, Device, Engine, EngineId, FeatureSet,
        GraphBuilder, Launch, Layout, Maturity, RegisteredEngine, SdpaFwd, Support, TensorSpec,
        Unsupported,
    };

    use super::*;

    /// An answer, given how often one was asked for before.
    type Answer = fn(u32) -> Candidate;

    /// An engine that answers so.
    #[derive(Debug)]
    struct Answers(Answer, AtomicU32);

    impl Engine for Answers {
        fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
            Ok(Support::one(self.0(self.1.fetch_add(1, Ordering::Relaxed))))
        }
        fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
            Ok(Vec::new())
        }
        fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
            panic!("nothing is built");
        }
    }

    fn sound() -> Candidate {
        Candidate {
            config: Config::default(),
            workspace: Layout::new(),
            launches: Launches::Own(vec!["frazil_test".into()]),
            error_word: None,
            overrides: None,
        }
    }

    /// Each check of an answer, seen red.
    #[test]
    fn an_answer_that_cannot_be_is_seen() {
        let mut graph = GraphBuilder::new();
        let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| {
            let spec = TensorSpec::contiguous(name, DType::F32, [1, 1, 2, 4]);
            graph.tensor(spec).expect("a tensor")
        });
        graph.sdpa_fwd(SdpaFwd::new(q, k, v, o)).expect("a graph");
        let facts = Facts::read(&graph.finish().expect("a graph")).expect("one operation");
        let facts = Arc::new(facts);
        let asked = |answer: Answer| {
            let engine = RegisteredEngine::new(
                EngineId::new("test/sdpa_fwd_answers"),
                FeatureSet::EMPTY,
                Maturity::Simulated,
                "test",
                Arc::new(Answers(answer, AtomicU32::new(0))),
            );
            let router = Router::over([engine]).expect("one engine");
            let asked = catch_unwind(AssertUnwindSafe(|| ask(&router, &facts)));
            asked.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
        };
        assert_eq!(asked(|_| sound()), Ok(true));
        let cases: [(&str, Answer); 4] = [
            ("answers differ when asked again", |asked| {
                let config = Config::new([("asked", i64::from(asked))]);
                Candidate { config, ..sound() }
            }),
            ("bytes of workspace, the limit is", |_| {
                let mut workspace = Layout::new();
                workspace.region("rows", 1 << 40);
                Candidate { workspace, ..sound() }
            }),
            ("an error word is there exactly where", |_| Candidate {
                error_word: Some(0),
                ..sound()
            }),
            ("other_kernel", |_| Candidate {
                launches: Launches::Own(vec!["other_kernel".into()]),
                ..sound()
            }),
        ];
        for (text, answer) in cases {
            let said = asked(answer).expect_err(text);
            assert!(said.contains(text), "{said}, not {text}");
        }
    }
}
