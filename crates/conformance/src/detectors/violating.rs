//! An engine that breaks one rule.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::NoUninit;
use frazil_core::{
    BuildError, Call, Candidate, Compiled, Config, Device, Engine, EngineId, Error, Facts, Feature,
    FeatureSet, Launch, Launches, Maturity, Plan, Region, RegisteredEngine, Role, Support, Target,
    Unsupported,
};
use frazil_cuda::compile::{Arch, Request};
use frazil_cuda::sources::Source;
use frazil_cuda::tools::{DeviceMemory, OwnedStream};
use frazil_cuda::{
    Artifact, Artifacts, CudaDevice, DriverCalls, Kernel, LaunchShape, ModuleHandle, Queue,
};

use super::{Effort, ResultsIn, Violation};

/// Symbol of the kernel that violations launch.
pub const STRAY_KERNEL: &str = "frazil_stray";

/// What violations need of a device, made beforehand.
pub struct Strays {
    device: CudaDevice,
    artifact: Arc<Artifact>,
    kernel: Kernel<StrayParams>,
    stream: OwnedStream,
    /// Memory that is nobody's.
    spare: DeviceMemory,
}

/// The parameter of `stray.cu`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct StrayParams {
    from: u64,
    to: u64,
    value: u32,
    action: Action,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(u32)]
enum Action {
    /// Writes the value.
    #[default]
    Write = 0,
    /// Adds what it reads.
    Add = 1,
    /// Writes what it reads.
    Copy = 2,
    /// Writes a NaN, unless it reads the value.
    Spoil = 3,
}

// SAFETY: a `repr(C)` struct of plain numbers without padding (below).
#[expect(unsafe_code, reason = "bytes are handed to a kernel")]
unsafe impl NoUninit for StrayParams {}

const _: () = assert!(size_of::<StrayParams>() == 2 * 8 + 2 * 4);

impl Strays {
    /// The kernel, a stream and some memory.
    ///
    /// # Errors
    ///
    /// Where one of them cannot be had.
    pub fn new(device: &Device, artifacts: &Artifacts) -> Result<Self, Box<dyn std::error::Error>> {
        let arch = Arch::of(device.target())?;
        let device = CudaDevice::of(device)?.clone();
        let request = Request {
            source: Source::new("stray.cu", &[("stray.cu", include_str!("stray.cu"))])?,
            symbol: STRAY_KERNEL.into(),
            config: Config::default(),
            arch,
            kind: device.driver().image_kind(),
        };
        let artifact = artifacts.get(&request)?.artifact;
        // SAFETY: the artifact is what the compiler gave; `StrayParams` is laid out as the struct
        // of the source.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        let kernel = unsafe { device.load(&artifact, STRAY_KERNEL, 0) }?;
        let stream = OwnedStream::new(&device)?;
        let spare = DeviceMemory::new(&device, 256)?;
        Ok(Self { device, artifact, kernel, stream, spare })
    }

    fn launch(&self, queue: &Queue<'_>, params: StrayParams) {
        let shape = LaunchShape {
            grid: [1; 3],
            block: [1; 3],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic: false,
        };
        // Where it fails, the engine goes on: a violation that says so is found too easily.
        #[expect(unsafe_code, reason = "a kernel is launched")]
        // SAFETY: the words lie in the spare memory, in the workspace or in the guard zone behind
        // it, which the detector holds until all work is done. That nobody else uses them is what
        // some violations break, one word at a time.
        let _ = unsafe { self.kernel.launch(queue, &shape, &params) };
    }
}

impl fmt::Debug for Strays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strays({:?}, {:?})", self.kernel, self.spare)
    }
}

/// An engine that does what another one does, and breaks a rule.
///
/// The other one has two regions or more in its workspace, the first a word. The first word of its
/// results, of O or of the second region, is not the same for the two samples of a
/// [`Subject`](super::Subject), nor is the first of Q's lengths, which it has for
/// [`Violation::HostRead`].
#[derive(Clone, Debug)]
pub struct Violating {
    inner: Arc<dyn Engine>,
    results_in: ResultsIn,
    violation: Violation,
    strays: Arc<Strays>,
    effort: Effort,
}

impl Violating {
    /// The engine as a router takes it. Where results are, and the effort, is as for the
    /// [`Subject`](super::Subject).
    pub fn registered(
        inner: Arc<dyn Engine>,
        results_in: ResultsIn,
        violation: Violation,
        strays: Arc<Strays>,
        effort: Effort,
    ) -> RegisteredEngine {
        const ID: EngineId = EngineId::new("conformance/violating");
        let engine = Arc::new(Self { inner, results_in, violation, strays, effort });
        registered(ID, engine)
    }
}

fn registered(id: EngineId, engine: Arc<dyn Engine>) -> RegisteredEngine {
    let (features, package) = (FeatureSet::of(Feature::ALL), env!("CARGO_PKG_NAME"));
    RegisteredEngine::new(id, features, Maturity::Simulated, package, engine)
}

impl Engine for Violating {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        const INNER: EngineId = EngineId::new("conformance/inner");
        let inner = Arc::new(registered(INNER, Arc::clone(&self.inner)));
        let plans = inner.ask(&Arc::new(facts.clone()), &Arc::new(target.clone()))?;
        let candidate = |plan: Plan| {
            let mut launches = plan.launches().clone();
            if let (Launches::Own(names), true) = (&mut launches, self.violation.is_promised()) {
                names.push(STRAY_KERNEL.into());
            }
            Candidate {
                config: plan.config().clone(),
                workspace: plan.workspace().clone(),
                launches,
                error_word: plan.error_word(),
                overrides: plan.override_rules().cloned(),
            }
        };
        let candidates = plans.into_iter().map(candidate).collect();
        Support::best_first(candidates).ok_or(Unsupported::Overrides)
    }

    fn compile(&self, plan: &Plan) -> Result<Vec<Compiled>, BuildError> {
        self.inner.compile(plan)
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let inner = self.inner.build(plan, device)?;
        let mut regions = plan.workspace().regions().map(|(_, region)| region);
        let (Some(first), Some(second)) = (regions.next(), regions.next()) else {
            return Err(Error::ForeignPlan { name: plan.name() }.into());
        };
        let Self { results_in, violation, strays, effort, .. } = self;
        let (device, is) = (&strays.device, |other| *violation == other);
        let memory = if is(Violation::AllocationAtBuild) {
            let _current = device.make_current().map_err(Error::from)?;
            device.driver().mem_alloc(256).ok()
        } else {
            None
        };
        let module = if is(Violation::UnloadInDrop) { strays.load_module() } else { None };
        let workspace_bytes = plan.workspace_bytes();
        let late_call = u64::from(effort.repeats.midpoint(2 * effort.thread_repeats));
        Ok(Box::new(ViolatingLaunch {
            inner,
            violation: *violation,
            strays: Arc::clone(strays),
            places: Places { first, second, workspace_bytes, results_in: *results_in },
            late_call,
            calls: AtomicU64::new(0),
            first_address: AtomicU64::new(0),
            memory,
            module,
        }))
    }
}

impl Strays {
    fn load_module(&self) -> Option<ModuleHandle> {
        let _current = self.device.make_current().ok()?;
        let _relaxed = self.device.relax_capture().ok()?;
        // SAFETY: the image is whole: the device has loaded it before.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        unsafe { self.device.driver().module_load_data(&self.artifact.image) }.ok()
    }
}

/// Where violations write.
#[derive(Clone, Copy, Debug)]
struct Places {
    first: Region,
    second: Region,
    workspace_bytes: u64,
    results_in: ResultsIn,
}

impl Places {
    /// A word of the workspace between two regions, which is nobody's: regions are aligned to more
    /// than the first one takes.
    fn between(self, call: &Call<'_>) -> u64 {
        call.region(self.first) + self.first.bytes().next_multiple_of(4)
    }

    /// The first word of the results.
    fn result(self, call: &Call<'_>) -> u64 {
        match self.results_in {
            ResultsIn::Outputs => call.view(Role::O).map_or(0, |o| o.addr),
            ResultsIn::Workspace => call.region(self.second),
        }
    }

    /// The first word behind the workspace.
    fn behind(self, call: &Call<'_>) -> u64 {
        call.region(self.first) + self.workspace_bytes
    }
}

struct ViolatingLaunch {
    inner: Box<dyn Launch>,
    violation: Violation,
    strays: Arc<Strays>,
    places: Places,
    /// The call that gives another result, counted from 0.
    late_call: u64,
    calls: AtomicU64,
    /// Where the result of the first call lies; 0 before it.
    first_address: AtomicU64,
    memory: Option<u64>,
    module: Option<ModuleHandle>,
}

impl Launch for ViolatingLaunch {
    #[expect(unsafe_code, reason = "launches of another engine")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        if self.violation == Violation::Memset {
            self.fill(call)?;
        }
        if self.violation != Violation::MissingKernel {
            // SAFETY: the caller's promise: the plan differs from that of the inner engine in what
            // it promises to launch, and in nothing that a launch relies on.
            unsafe { self.inner.launch(call) }?;
        }
        self.misbehave(call)
    }
}

impl ViolatingLaunch {
    #[expect(unsafe_code, reason = "a driver call")]
    fn fill(&self, call: &Call<'_>) -> Result<(), Error> {
        let queue = self.strays.device.queue(call.stream())?;
        let (address, bytes) = (call.region(self.places.second), self.places.second.bytes());
        // SAFETY: a region of the call's workspace.
        let _ = unsafe { queue.device().driver().memset_d8_async(address, 0, bytes, queue.raw()) };
        Ok(())
    }

    fn misbehave(&self, call: &Call<'_>) -> Result<(), Error> {
        let (strays, places) = (&*self.strays, self.places);
        let queue = strays.device.queue(call.stream())?;
        let write = |to, value| StrayParams { to, value, ..StrayParams::default() };
        match self.violation {
            Violation::AllocationAtBuild
            | Violation::Memset
            | Violation::MissingKernel
            | Violation::UnloadInDrop => {}
            Violation::HostAllocation => drop(black_box(Box::new(0_u64))),
            Violation::DeviceAllocation
            | Violation::StreamSynchronize
            | Violation::ContextSynchronize
            | Violation::ContextLeftPushed => self.call_the_driver(&queue),
            Violation::UnpromisedKernel => strays.launch(&queue, write(strays.spare.addr(), 1)),
            Violation::OwnStream => {
                let own = strays.device.queue(strays.stream.stream())?;
                strays.launch(&own, write(places.between(call), 1));
            }
            Violation::LegacyStream => {
                // SAFETY: every context has it.
                #[expect(unsafe_code, reason = "a stream is named")]
                let legacy = unsafe { frazil_core::Stream::from_raw(1) };
                strays.launch(&strays.device.queue(legacy)?, write(places.between(call), 1));
            }
            Violation::HostRead => {
                // Right for as long as the length is what it was.
                let (from, value) = self.read_length(call);
                let (to, action) = (places.result(call), Action::Spoil);
                strays.launch(&queue, StrayParams { from, to, value, action });
            }
            Violation::FirstCallsAddress => {
                let to = places.result(call);
                let order = Ordering::Relaxed;
                let first = self.first_address.compare_exchange(0, to, order, order);
                let from = first.map_or_else(|first| first, |_| to);
                strays.launch(&queue, StrayParams { from, to, value: 0, action: Action::Copy });
            }
            Violation::OneCallOfMany => {
                let is_late = self.calls.fetch_add(1, Ordering::Relaxed) == self.late_call;
                let to = if is_late { places.result(call) } else { strays.spare.addr() };
                strays.launch(&queue, write(to, 0x5a5a));
            }
            Violation::SurvivingContent => {
                let (from, to) = (places.between(call), places.result(call));
                strays.launch(&queue, StrayParams { from, to, value: 0, action: Action::Add });
            }
            Violation::PastTheWorkspace => strays.launch(&queue, write(places.behind(call), 1)),
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "driver calls")]
    fn call_the_driver(&self, queue: &Queue<'_>) {
        let driver = queue.device().driver();
        let _ = match self.violation {
            Violation::DeviceAllocation => driver.mem_alloc(256).and_then(|address| {
                // SAFETY: allocated just now, and used by nobody.
                unsafe { driver.mem_free(address) }
            }),
            // SAFETY: the caller's stream lives.
            Violation::StreamSynchronize => unsafe { driver.stream_synchronize(queue.raw()) },
            Violation::ContextSynchronize => driver.ctx_synchronize(),
            // SAFETY: the device's context lives as long as the process.
            _ => unsafe { driver.ctx_push_current(queue.context()) },
        };
    }

    /// Where the first of Q's lengths is, and what it is on the device now.
    #[expect(unsafe_code, reason = "device memory is read")]
    fn read_length(&self, call: &Call<'_>) -> (u64, u32) {
        const THREADS_OWN: u64 = 2;
        let mut length = [0; 4];
        let addr = call.view(Role::QLengths).map_or(0, |lengths| lengths.addr);
        let driver = self.strays.device.driver();
        // SAFETY: the tensor of the call has an entry or more, and is written by nobody now.
        let _ = unsafe { driver.copy_to_host(&mut length, addr, THREADS_OWN) };
        (addr, u32::from_le_bytes(length))
    }
}

impl Drop for ViolatingLaunch {
    #[expect(unsafe_code, reason = "driver calls")]
    fn drop(&mut self) {
        let (device, driver) = (&self.strays.device, self.strays.device.driver());
        let Ok(_current) = device.make_current() else { return };
        if let Some(module) = self.module {
            // SAFETY: nothing of the module was ever launched.
            let _ = unsafe { driver.module_unload(module) };
        }
        if let (Some(address), Ok(_relaxed)) = (self.memory, device.relax_capture()) {
            // SAFETY: allocated by the build, and used by nobody.
            let _ = unsafe { driver.mem_free(address) };
        }
    }
}
