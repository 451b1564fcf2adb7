//! What the router adds to the engines' answers: order, filters, replay, and building the first
//! plan that can be built.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::Arc;

use frazil::{
    Answer, BuildError, Call, Candidate, Compiled, Config, DType, Device, Engine, EngineId, Error,
    Facts, FeatureSet, Graph, GraphBuilder, HostBuffer, Launch, Launches, Layout, Maturity, Plan,
    PlanName, RegisteredEngine, Router, SdpaFwd, Support, Target, TensorSpec, Unsupported,
};

/// Offers one candidate per workspace size; what its build does is stated.
#[derive(Debug)]
struct Offers {
    workspace_bytes: Vec<u64>,
    build: fn() -> Result<(), BuildError>,
}

struct Nothing;

impl Launch for Nothing {
    unsafe fn launch(&self, _: &Call<'_>) -> Result<(), Error> {
        Ok(())
    }
}

impl Engine for Offers {
    fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
        let candidates = self.workspace_bytes.iter().zip(0..).map(|(&bytes, tile)| {
            let mut workspace = Layout::new();
            workspace.region("scratch", bytes);
            Candidate {
                config: Config::new([("tile", tile)]),
                workspace,
                launches: Launches::Own(vec!["kernel".into()]),
                error_word: None,
                overrides: None,
            }
        });
        Support::best_first(candidates.collect())
            .ok_or(Unsupported::SharedMemory { found: 1, need: 2 })
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
        (self.build)().map(|()| Box::new(Nothing) as Box<dyn Launch>)
    }
}

const SILICON: Maturity = Maturity::Silicon { device: "test", date: "2026-11-29" };

fn engine(
    id: &'static str,
    maturity: Maturity,
    workspace_bytes: &[u64],
    build: fn() -> Result<(), BuildError>,
) -> RegisteredEngine {
    let engine = Offers { workspace_bytes: workspace_bytes.into(), build };
    RegisteredEngine::new(EngineId::new(id), FeatureSet::EMPTY, maturity, "test", Arc::new(engine))
}

fn router<const N: usize>(engines: [RegisteredEngine; N]) -> Router {
    Router::over(engines).unwrap()
}

fn builds() -> Result<(), BuildError> {
    Ok(())
}

fn facts() -> Arc<Facts> {
    Arc::new(Facts::read(&graph()).unwrap())
}

fn graph() -> Graph {
    let mut builder = GraphBuilder::new();
    let spec = |name| TensorSpec::contiguous(name, DType::F32, [1, 1, 4, 8]);
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| builder.tensor(spec(name)).unwrap());
    builder.sdpa_fwd(SdpaFwd::new(q, k, v, o)).unwrap();
    builder.finish().unwrap()
}

/// The host, with the target that plans are asked for.
fn host() -> (Device, Arc<Target>) {
    let device = frazil::cpu::host();
    let target = Arc::new(device.target().clone());
    (device, target)
}

fn names(plans: &[Plan]) -> Vec<String> {
    plans.iter().map(|plan| plan.name().to_string()).collect()
}

#[test]
fn simulated_engines_come_last_unless_the_caller_lets_them_first() {
    let make = || {
        router([
            engine("a/first_by_name", Maturity::Simulated, &[0], builds),
            engine("z/proven", SILICON, &[0, 0], builds),
        ])
    };
    let (_, target) = host();
    let plans = make().plans(&facts(), &target).unwrap();
    assert_eq!(names(&plans), ["z/proven[tile=0]", "z/proven[tile=1]", "a/first_by_name[tile=0]"]);
    let let_first = make().simulated_first([EngineId::new("a/first_by_name")]);
    assert_eq!(names(&let_first.plans(&facts(), &target).unwrap())[0], "a/first_by_name[tile=0]");
}

#[test]
fn a_workspace_limit_leaves_smaller_plans_and_keeps_the_reason() {
    let router = router([
        engine("a/large", SILICON, &[4096, 512], builds),
        engine("b/huge", SILICON, &[1 << 20], builds),
    ]);
    let (_, target) = host();
    let plans = router.clone().workspace_limit(1024).plans(&facts(), &target).unwrap();
    assert_eq!(names(&plans), ["a/large[tile=1]"]);
    let none = router.workspace_limit(100).plans(&facts(), &target).unwrap_err();
    let expected = [
        (EngineId::new("a/large"), Unsupported::WorkspaceLimit { found: 512, limit: 100 }),
        (EngineId::new("b/huge"), Unsupported::WorkspaceLimit { found: 1 << 20, limit: 100 }),
    ];
    assert_eq!(none.declined, expected);
}

#[test]
fn a_stored_plan_is_found_again_by_name() {
    let router =
        router([engine("a/one", SILICON, &[0, 0], builds), engine("b/two", SILICON, &[0], builds)]);
    let (_, target) = host();
    let stored = router.plans(&facts(), &target).unwrap()[1].name();
    let text = serde_json::to_string(&stored).unwrap();
    assert_eq!(text, r#"{"engine":"a/one","config":"tile=1"}"#);
    let name: PlanName = serde_json::from_str(&text).unwrap();
    assert_eq!(router.replay(&name, &facts(), &target).unwrap().name(), stored);

    let unknown = PlanName { config: Config::new([("tile", 7)]), ..name.clone() };
    let missing = router.replay(&unknown, &facts(), &target);
    assert!(matches!(missing, Err(Error::NoSuchPlan { name, .. }) if name == unknown));
    let absent = PlanName { engine: EngineId::new("c/absent"), ..name };
    assert!(matches!(router.replay(&absent, &facts(), &target), Err(Error::NoEngine(_))));
}

#[test]
fn build_goes_on_after_a_foreign_decline_and_keeps_its_reason() {
    let refused = || Err(BuildError::Declined(Unsupported::Overrides));
    let router = router([
        engine("a/foreign", SILICON, &[0], refused),
        engine("b/own", SILICON, &[0], builds),
    ]);
    let (device, target) = host();
    let plans = router.plans(&facts(), &target).unwrap();
    let built = router.build_first(&plans, &device).unwrap();
    assert_eq!(built.executable.plan().engine().as_str(), "b/own");
    assert_eq!(built.declined, [(plans[0].name(), Unsupported::Overrides)]);

    let only_foreign = router.build_first(&plans[..1], &device).unwrap_err();
    assert!(matches!(only_foreign, Error::NoEngine(none) if none.declined.len() == 1));
}

#[test]
fn build_stops_at_a_fault() {
    let broken = || {
        let (call, name) = ("cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE".to_owned());
        Err(BuildError::Fault(Error::Driver { call, name, code: 200 }))
    };
    let router =
        router([engine("a/broken", SILICON, &[0], broken), engine("b/own", SILICON, &[0], builds)]);
    let (device, target) = host();
    let plans = router.plans(&facts(), &target).unwrap();
    assert!(matches!(router.build_first(&plans, &device), Err(Error::Driver { code: 200, .. })));
}

#[test]
fn a_graph_is_built_in_one_call_as_stage_by_stage() {
    let refused = || Err(BuildError::Declined(Unsupported::Overrides));
    let foreign = engine("a/foreign", SILICON, &[0], refused);
    let (device, target) = host();
    let router = router([foreign, engine("b/own", SILICON, &[256], builds)]);
    let built = router.build(&graph(), &device).unwrap();
    assert_eq!(built.executable.plan().engine().as_str(), "b/own");
    assert_eq!(built.executable.plan().target(), target.as_ref());
    assert_eq!(built.declined.len(), 1);
    assert_eq!(HostBuffer::workspace_of(built.executable.plan()).as_bytes().len(), 256);
    let none = router.workspace_limit(0).only([EngineId::new("b/own")]).build(&graph(), &device);
    assert!(matches!(none, Err(Error::NoEngine(none)) if none.declined.len() == 1));
}

#[test]
fn every_answer_is_explained() {
    let router = router([
        engine("a/declines", SILICON, &[], builds),
        engine("b/simulated", Maturity::Simulated, &[256], builds),
        engine("c/proven", SILICON, &[0], builds),
    ]);
    let (_, target) = host();
    let explanation = router.explain(&facts(), &target);
    let order: Vec<_> = explanation.answers.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(order, ["c/proven", "b/simulated", "a/declines"]);
    assert!(matches!(
        explanation.answers[2].2,
        Answer::Declined(Unsupported::SharedMemory { found: 1, need: 2 })
    ));
    assert_eq!(explanation.serving().count(), 2);
    let text = explanation.to_string();
    for part in ["c/proven: served", "simulated", "tile=0", "256 bytes", "needs 2 bytes of shared"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn with_no_engine_the_error_says_so() {
    let (_, target) = host();
    let none = router([]).plans(&facts(), &target).unwrap_err();
    assert!(none.to_string().contains("none is registered"), "{none}");
    let filtered = router([engine("a/one", SILICON, &[0], builds)]).only([]);
    let none = filtered.plans(&facts(), &target).unwrap_err();
    assert_eq!(none.left_out, [EngineId::new("a/one")]);
    assert!(none.to_string().contains("a/one: left out by a filter"), "{none}");
}
