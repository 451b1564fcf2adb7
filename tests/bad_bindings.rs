//! Calls that do not fit their plan are refused before anything is written, by a variant that names
//! the tensor, the value and the limit.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::num::NonZeroU32;
use std::sync::Arc;

use frazil::{
    BindingError, Bindings, Buffer, BuildError, Call, Candidate, Compiled, Config, DType, Device,
    DeviceHandle, DeviceId, Engine, EngineId, Error, Executable, Facts, FeatureSet, Geometry,
    GraphBuilder, HostBuffer, InvalidGraph, Launch, Launches, Layout, LengthBounds, Maturity,
    MemoryAt, OverrideRules, Plan, RegisteredEngine, Role, Router, SdpaFwd, Storage, Stream,
    StrideRule, Support, Target, TensorId, TensorSpec, Unsupported, WORKSPACE_ALIGN, Workspace,
    WorkspaceError,
};

const Q: TensorId = TensorId(10);
const K: TensorId = TensorId(11);
const V: TensorId = TensorId(12);
const O: TensorId = TensorId(13);
const LENGTHS: TensorId = TensorId(14);
const ALL: [TensorId; 5] = [Q, K, V, O, LENGTHS];

/// `[2, 2, 4, 8]` f32 throughout, keys padded.
fn facts(overridable: bool) -> Arc<Facts> {
    let mut builder = GraphBuilder::new();
    for (id, name) in [(Q, "q"), (K, "k"), (V, "v"), (O, "o")] {
        let spec = TensorSpec::contiguous(name, DType::F32, [2, 2, 4, 8]);
        builder.tensor(spec.id(id)).unwrap();
    }
    builder.tensor(TensorSpec::contiguous("lengths", DType::I32, [2]).id(LENGTHS)).unwrap();
    let kv = Storage::Padded { lengths: LENGTHS, bounds: LengthBounds::up_to(4) };
    builder.sdpa_fwd(SdpaFwd::new(Q, K, V, O).storage(Storage::Dense, kv)).unwrap();
    if overridable {
        builder.overridable();
    }
    Arc::new(Facts::read(&builder.finish().unwrap()).unwrap())
}

fn build(facts: &Arc<Facts>) -> Executable {
    let device = frazil::cpu::host();
    let target = Arc::new(device.target().clone());
    let router = Router::from_registrations().unwrap();
    let plans = router.plans(facts, &target).unwrap();
    router.build_first(&plans, &device).unwrap().executable
}

/// Memory for every tensor, and scratch.
struct Memory {
    tensors: Vec<(TensorId, HostBuffer)>,
    workspace: HostBuffer,
}

/// What one execute is given.
struct Arguments<'a> {
    bindings: Bindings<'a>,
    workspace: Workspace<'a>,
    stream: Stream,
}

const POISON: u8 = 0xA5;

impl Memory {
    fn new(executable: &Executable) -> Self {
        let tensors = ALL.map(|id| {
            let bytes = if id == LENGTHS { 8 } else { 2 * 2 * 4 * 8 * 4 };
            let mut memory = HostBuffer::zeroed(bytes);
            if id == O {
                memory.as_bytes_mut().fill(POISON);
            }
            (id, memory)
        });
        let bytes = usize::try_from(executable.plan().workspace_bytes()).unwrap();
        assert!(bytes > 0, "a plan with an error word has a workspace");
        Self { tensors: tensors.into(), workspace: HostBuffer::zeroed(bytes) }
    }

    /// Binds all tensors, then lets `change` spoil one thing, and executes.
    fn execute(
        &mut self,
        executable: &Executable,
        change: impl FnOnce(&mut Arguments<'_>),
    ) -> Result<(), Error> {
        let mut bindings = Bindings::new();
        for (id, memory) in &mut self.tensors {
            bindings.bind(*id, memory.buffer()).unwrap();
        }
        let workspace = Workspace::new(self.workspace.buffer());
        let mut arguments = Arguments { bindings, workspace, stream: Stream::HOST };
        change(&mut arguments);
        let Arguments { bindings, workspace, stream } = arguments;
        executable.execute(&bindings, workspace, stream)
    }

    fn output_is_untouched(&self) -> bool {
        self.tensors
            .iter()
            .all(|(id, memory)| *id != O || memory.as_bytes().iter().all(|&byte| byte == POISON))
    }
}

/// `refused!(change, pattern)`: the call is refused with an error of that pattern and O keeps its
/// poison.
macro_rules! refused {
    ($overridable:expr, $change:expr, $pattern:pat $(if $guard:expr)?) => {{
        let executable = build(&facts($overridable));
        let mut memory = Memory::new(&executable);
        match memory.execute(&executable, $change) {
            Err($pattern) $(if $guard)? => assert!(memory.output_is_untouched()),
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    }};
}

/// Host memory at any address and size; nothing reads it, since the call is refused.
fn raw<'a>(addr: u64, bytes: u64) -> Buffer<'a> {
    // SAFETY: every test that uses it expects a refusal, so the memory is never touched.
    #[expect(unsafe_code, reason = "addresses that safe code cannot make")]
    unsafe {
        Buffer::from_raw(addr, bytes, DeviceId::Host)
    }
}

#[test]
fn the_unchanged_call_is_fine() {
    for overridable in [false, true] {
        let executable = build(&facts(overridable));
        let mut memory = Memory::new(&executable);
        memory.execute(&executable, |_| {}).unwrap();
        assert!(!memory.output_is_untouched());
    }
}

#[test]
fn presence_goes_both_ways() {
    use BindingError as B;
    let executable = build(&facts(false));
    let empty =
        executable.execute(&Bindings::new(), Workspace::empty(DeviceId::Host), Stream::HOST);
    assert!(matches!(empty, Err(Error::Binding(B::Missing { tensor, id: Q })) if tensor == "q"));
    let surplus = TensorId(99);
    refused!(false, |a| a.bindings.bind(surplus, raw(4096, 64)).unwrap(), Error::Binding(B::Unknown { id }) if id == surplus);
}

#[test]
fn buffers() {
    use BindingError as B;
    refused!(false, |a| a.bindings.bind(K, raw(4096, 511)).unwrap(), Error::Binding(B::TooShort { tensor, found: 511, need: 512, .. }) if tensor == "k");
    refused!(false, |a| a.bindings.bind(LENGTHS, raw(4096, 4)).unwrap(), Error::Binding(B::TooShort { tensor, found: 4, need: 8, .. }) if tensor == "lengths");
    refused!(
        false,
        |a| a.bindings.bind(K, raw(0, 512)).unwrap(),
        Error::Binding(B::Address { addr: 0, .. })
    );
    refused!(
        false,
        |a| a.bindings.bind(K, raw(u64::MAX - 15, 512)).unwrap(),
        Error::Binding(B::Address { .. })
    );
    refused!(
        false,
        |a| a.bindings.bind(K, raw(4096 + 8, 512)).unwrap(),
        Error::Binding(B::Misaligned { need: 16, .. })
    );
    static INT64: [i64; 2] = [4, 4];
    refused!(false, |a| a.bindings.bind(LENGTHS, Buffer::from_slice(&INT64)).unwrap(), Error::Binding(B::DType { tensor, found: DType::I64, need: DType::I32 }) if tensor == "lengths");
    static CONSTANT: [f32; 128] = [0.0; 128];
    refused!(false, |a| a.bindings.bind(O, Buffer::from_slice(&CONSTANT)).unwrap(), Error::Binding(B::ReadOnly { tensor }) if tensor == "o");
    // SAFETY: the handle is never used, since the call is refused.
    #[expect(unsafe_code, reason = "a stream of a GPU that is not there")]
    let gpu_stream = unsafe { Stream::from_raw(2) };
    refused!(
        false,
        |a| a.stream = gpu_stream,
        Error::Binding(B::Stream { need: DeviceId::Host, .. })
    );
}

#[test]
fn memory_that_is_shared() {
    use BindingError as B;
    let executable = build(&facts(false));
    let mut memory = Memory::new(&executable);
    let at = |memory: &mut Memory, id| {
        let (_, memory) = memory.tensors.iter_mut().find(|(known, _)| *known == id).unwrap();
        memory.buffer().addr()
    };
    let q = at(&mut memory, Q);
    for offset in [0, 16, 496] {
        let result =
            memory.execute(&executable, |a| a.bindings.bind(O, raw(q + offset, 512)).unwrap());
        assert!(
            matches!(result, Err(Error::Binding(B::Overlap { tensor, other })) if tensor == "o" && other == "q")
        );
    }
    let bytes = executable.plan().workspace_bytes();
    let scratch_over_q = q / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
    let result = memory.execute(&executable, |a| {
        a.workspace = Workspace::new(raw(scratch_over_q, bytes));
    });
    assert!(matches!(result, Err(Error::Workspace(WorkspaceError::Overlap { .. }))), "{result:?}");
    assert!(memory.output_is_untouched());
}

#[test]
fn workspaces() {
    use WorkspaceError as W;
    let need = build(&facts(false)).plan().workspace_bytes();
    refused!(false, |a| a.workspace = Workspace::empty(DeviceId::Host), Error::Workspace(W::TooShort { found: 0, need: n }) if n == need);
    refused!(false, |a| a.workspace = Workspace::new(raw(4096, need - 1)), Error::Workspace(W::TooShort { found, .. }) if found == need - 1);
    refused!(
        false,
        |a| a.workspace = Workspace::new(raw(4096 + 16, need)),
        Error::Workspace(W::Misaligned { need: WORKSPACE_ALIGN, .. })
    );
    refused!(
        false,
        |a| a.workspace = Workspace::new(raw(0, need)),
        Error::Workspace(W::Address { addr: 0, .. })
    );
    refused!(
        false,
        |a| {
            // SAFETY: the memory is never touched, since the call is refused.
            #[expect(unsafe_code, reason = "memory of a GPU that is not there")]
            let elsewhere = unsafe { Buffer::from_raw(4096, need, DeviceId::Cuda(1)) };
            a.workspace = Workspace::new(elsewhere);
        },
        Error::Workspace(W::Device { found: DeviceId::Cuda(1), need: DeviceId::Host })
    );
}

fn geometry(extents: [i64; 4]) -> Geometry {
    Geometry::contiguous(&extents).unwrap()
}

#[test]
fn overrides() {
    use BindingError as B;
    let bind = |id, geometry| {
        move |a: &mut Arguments<'_>| {
            a.bindings.bind_as(id, raw(1 << 20, 1 << 16), geometry).unwrap();
        }
    };
    refused!(true, bind(K, geometry([2, 2, 5, 8])), Error::Binding(B::OverrideExtent { tensor, axis: 2, found: 5, declared: 4, .. }) if tensor == "k");
    refused!(
        true,
        bind(K, geometry([2, 2, 3, 8])),
        Error::Binding(B::OverridesDisagree(InvalidGraph::Extent { axis: "rows", .. }))
    );
    refused!(true, bind(Q, geometry([1, 2, 4, 8])), Error::Binding(B::OverridesDisagree(_)));
    refused!(
        true,
        bind(O, Geometry::strided(&[2, 2, 4, 8], &[64, 32, 0, 1]).unwrap()),
        Error::Binding(B::OverridesDisagree(InvalidGraph::OutputOverlapsItself { .. }))
    );
    refused!(
        true,
        bind(K, Geometry::contiguous(&[2, 2, 32]).unwrap()),
        Error::Binding(B::OverrideRank { found: 3, declared: 4, .. })
    );
    let fewer_heads = |a: &mut Arguments<'_>| {
        for (at, id) in [Q, K, V, O].into_iter().enumerate() {
            let address = (1 << 20) + (at as u64) * (1 << 16);
            a.bindings.bind_as(id, raw(address, 1 << 16), geometry([2, 1, 4, 8])).unwrap();
        }
    };
    refused!(true, fewer_heads, Error::Binding(B::OverrideExtent { axis: 1, found: 1, declared: 2, rule, .. }) if rule.contains("heads"));
    let longer_span = Geometry::strided(&[2, 2, 4, 8], &[1 << 20, 32, 8, 1]).unwrap();
    refused!(true, bind(K, longer_span), Error::Binding(B::TooShort { .. }));
}

/// An engine that names every feature.
fn registered(name: &'static str, engine: impl Engine + 'static) -> Arc<RegisteredEngine> {
    let (id, features) = (EngineId::new(name), FeatureSet::of(frazil::Feature::ALL));
    Arc::new(RegisteredEngine::new(id, features, Maturity::Simulated, "test", Arc::new(engine)))
}

/// A GPU that is not there, with an engine that must never be launched.
mod gpu {
    use super::*;

    #[derive(Debug)]
    pub(super) struct Absent(pub(super) Target);

    impl DeviceHandle for Absent {
        fn target(&self) -> &Target {
            &self.0
        }
        fn id(&self) -> DeviceId {
            DeviceId::Cuda(0)
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }

        fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
            Ok(MemoryAt::Unknown)
        }
    }

    #[derive(Debug)]
    pub(super) struct FixedStrides(pub(super) Option<OverrideRules>);

    impl Engine for FixedStrides {
        fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
            Ok(Support::one(candidate(self.0.clone())))
        }
        fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
            Ok(Vec::new())
        }
        fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
            Ok(Box::new(Never))
        }
    }

    /// No scratch, no launch.
    pub(super) fn candidate(overrides: Option<OverrideRules>) -> Candidate {
        Candidate {
            config: Config::default(),
            workspace: Layout::new(),
            launches: Launches::Own(Vec::new()),
            error_word: None,
            overrides,
        }
    }

    struct Never;

    impl Launch for Never {
        unsafe fn launch(&self, _: &Call<'_>) -> Result<(), Error> {
            panic!("a refused call was launched");
        }
    }

    pub(super) fn plan(
        rules: Option<OverrideRules>,
        facts: &Arc<Facts>,
    ) -> (Result<Plan, Unsupported>, Device) {
        let target = frazil::target::fixtures::sm90();
        let engine = registered("test/sdpa_fwd_gpu", FixedStrides(rules));
        let plans = engine.ask(facts, &Arc::new(target.clone()));
        (plans.map(|mut plans| plans.remove(0)), Device::new(Absent(target)))
    }
}

#[test]
fn host_memory_for_a_gpu_plan() {
    let (plan, device) = gpu::plan(None, &facts(false));
    let plan = plan.unwrap();
    let wrong_device = plan.build(&frazil::cpu::host());
    assert!(matches!(wrong_device, Err(BuildError::Fault(Error::WrongDevice { .. }))));
    let executable = plan.build(&device).unwrap();
    let mut bindings = Bindings::new();
    let host = [0.0_f32; 128];
    for id in ALL {
        bindings.bind(id, Buffer::from_slice(&host)).unwrap();
    }
    // SAFETY: the handle is never used, since the call is refused.
    #[expect(unsafe_code, reason = "a stream of a GPU that is not there")]
    let stream = unsafe { Stream::from_raw(0) };
    let refused = executable.execute(&bindings, Workspace::empty(DeviceId::Cuda(0)), stream);
    assert!(
        matches!(
            refused,
            Err(Error::Binding(BindingError::Device {
                found: DeviceId::Host,
                need: DeviceId::Cuda(0),
                ..
            }))
        ),
        "{refused:?}"
    );
}

/// Bindings that come back to themselves while they are in use, as a job stolen by a waiting thread
/// can make them.
#[test]
fn bindings_in_use() {
    use std::cell::RefCell;
    use std::rc::Rc;

    thread_local! {
        static SHARED: RefCell<Option<(Rc<Executable>, Rc<Bindings<'static>>)>> =
            const { RefCell::new(None) };
    }

    /// Executes the shared bindings from inside a launch.
    #[derive(Debug)]
    struct Reentrant;

    impl Engine for Reentrant {
        fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
            Ok(Support::one(gpu::candidate(None)))
        }
        fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
            Ok(Vec::new())
        }
        fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
            Ok(Box::new(Self))
        }
    }

    impl Launch for Reentrant {
        unsafe fn launch(&self, _: &Call<'_>) -> Result<(), Error> {
            let (executable, bindings) = SHARED.with_borrow(Clone::clone).unwrap();
            executable.execute(&bindings, Workspace::empty(DeviceId::Host), Stream::HOST)
        }
    }

    let device = frazil::cpu::host();
    let engine = registered("test/reentrant", Reentrant);
    let target = Arc::new(device.target().clone());
    let plan = engine.ask(&facts(false), &target).unwrap().remove(0);
    let executable = Rc::new(plan.build(&device).unwrap());
    let mut bindings = Bindings::new();
    for id in ALL {
        let addr = ((id.0 + 1) << 20).cast_unsigned();
        bindings.bind(id, raw(addr, 1 << 16)).unwrap();
    }
    let bindings = Rc::new(bindings);
    SHARED.set(Some((Rc::clone(&executable), Rc::clone(&bindings))));
    for _ in 0..2 {
        let refused = executable.execute(&bindings, Workspace::empty(DeviceId::Host), Stream::HOST);
        assert!(matches!(refused, Err(Error::Binding(BindingError::InUse))), "{refused:?}");
    }
}

/// An engine that wraps another must hand it plans of its own.
#[test]
fn a_plan_of_another_engine_is_not_built() {
    #[derive(Debug)]
    struct Wrapper(frazil::cpu::CpuEngine);

    impl Engine for Wrapper {
        fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
            Ok(Support::one(gpu::candidate(None)))
        }
        fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
            self.0.compile(plan)
        }
        fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
            self.0.build(plan, device)
        }
    }

    let device = frazil::cpu::host();
    let engine = registered("test/wrapper", Wrapper(frazil::cpu::CpuEngine));
    let target = Arc::new(device.target().clone());
    let plan = engine.ask(&facts(false), &target).unwrap().remove(0);
    let refused = plan.build(&device);
    assert!(matches!(refused, Err(BuildError::Fault(Error::ForeignPlan { .. }))), "{refused:?}");
}

#[test]
fn an_engine_without_overrides_declines_graphs_that_want_them() {
    assert!(matches!(gpu::plan(None, &facts(true)).0, Err(Unsupported::Overrides)));
    assert!(gpu::plan(None, &facts(false)).0.is_ok());
}

#[test]
fn override_rules_are_kept() {
    use BindingError as B;
    let multiple_bytes = NonZeroU32::new(16).unwrap();
    let rule = StrideRule { unit_stride: true, multiple_bytes };
    let rules = OverrideRules(vec![(Role::V, rule), (Role::K, rule)]);
    let (plan, device) = gpu::plan(Some(rules), &facts(true));
    let executable = plan.unwrap().build(&device).unwrap();
    // SAFETY: neither handle nor memory is ever used, since the calls are refused.
    #[expect(unsafe_code, reason = "a stream of a GPU that is not there")]
    let stream = unsafe { Stream::from_raw(0) };
    // The tensor of lengths may have any stride: the rules speak of K and V alone.
    let lengths = Geometry::strided(&[2], &[3]).unwrap();
    for (strides, axis) in [([64, 32, 8, 2], 3), ([64, 32, 9, 1], 2), ([66, 32, 8, 1], 0)] {
        let mut bindings = Bindings::new();
        for (at, id) in ALL.into_iter().enumerate() {
            let addr = ((at + 1) << 20) as u64;
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "memory of a GPU that is not there")]
            let buffer = unsafe { Buffer::from_raw(addr, 1 << 16, DeviceId::Cuda(0)) };
            if id == LENGTHS {
                bindings.bind_as(id, buffer, lengths).unwrap();
            } else {
                bindings.bind(id, buffer).unwrap();
            }
        }
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "memory of a GPU that is not there")]
        let buffer = unsafe { Buffer::from_raw(1 << 30, 1 << 16, DeviceId::Cuda(0)) };
        let geometry = Geometry::strided(&[2, 2, 4, 8], &strides).unwrap();
        bindings.bind_as(K, buffer, geometry).unwrap();
        let refused = executable.execute(&bindings, Workspace::empty(DeviceId::Cuda(0)), stream);
        assert!(
            matches!(&refused, Err(Error::Binding(B::OverrideStride { axis: a, .. })) if *a == axis),
            "{refused:?}"
        );
    }
}
