//! The simulated GPU itself: memory, modules in it, launches. Everything that is PTX's and not the
//! driver's.

use frazil_core::CudaProps;
use frazil_ptx_sim::{Fault, FindingKind, Image, Launch, Limits, LoadError, Memory, Module};

use super::code::{Code, Outcome};
use super::simulation::KernelFinding;
use crate::LaunchShape;

/// Bytes that a device gives. They take as much of the host's memory as was allocated.
const MEMORY_BYTES: u64 = 4 << 30;

/// Addresses of device 0. No pointer of a process on Linux or Windows on x86-64 is so high.
const FIRST_ADDRESS: u64 = 1 << 47;
/// What devices are apart, so that one does not know another's addresses, for the first 512.
const DEVICE_STRIDE: u64 = 1 << 38;
const DEVICES_APART: u64 = 512;

/// What bytes hold that nobody wrote: NaN in every floating-point format, -1 in integers.
pub(super) const POISON: u8 = 0xff;

/// Memory of a device, and how its launches run.
#[derive(Debug)]
pub(super) struct Machine {
    memory: Memory,
    limits: Limits,
    /// Of the next launch; every launch has one of its own.
    pub(super) seed: u64,
    /// Instructions of warps of all launches.
    pub(super) instructions: u64,
    pub(super) findings: Vec<KernelFinding>,
    pub(super) load_errors: Vec<LoadError>,
}

/// A module in the memory of a device.
#[derive(Debug)]
pub(super) struct Program(Image);

/// What is known of a kernel before it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) param_bytes: u64,
    pub(super) static_smem_bytes: u32,
    /// Threads of a block at most, where the kernel says it.
    pub(super) max_threads: Option<u32>,
    pub(super) required_block: Option<[u32; 3]>,
    pub(super) required_cluster: Option<[u32; 3]>,
}

impl Machine {
    pub(super) fn new(props: &CudaProps, number: u32) -> Self {
        let first = FIRST_ADDRESS + u64::from(number) % DEVICES_APART * DEVICE_STRIDE;
        Self {
            memory: Memory::beginning_at(first, MEMORY_BYTES),
            limits: Limits { shared_bytes: props.smem_per_block_bytes, ..Limits::default() },
            seed: 0,
            instructions: 0,
            findings: Vec::new(),
            load_errors: Vec::new(),
        }
    }

    pub(super) fn set_instruction_limit(&mut self, warp_instructions: u64) {
        self.limits.instructions = warp_instructions;
    }

    /// Bytes that hold [`POISON`] and that nobody wrote.
    pub(super) fn alloc(&mut self, bytes: u64) -> Option<u64> {
        let address = self.memory.alloc(bytes, 1).ok()?;
        self.memory.fill(address, bytes, POISON).ok()?;
        self.memory.mark_unwritten(address, bytes).ok()?;
        Some(address)
    }

    pub(super) fn free(&mut self, address: u64) -> bool {
        self.memory.free(address).is_ok()
    }

    /// First address and size of the allocation that an address lies in.
    pub(super) fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.memory.allocation_of(address).map(|found| (found.address, found.bytes))
    }

    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Outcome<()> {
        self.memory.write(address, bytes).map_err(|_| Code::ILLEGAL_ADDRESS)
    }

    pub(super) fn read(&self, address: u64, into: &mut [u8]) -> Outcome<()> {
        self.memory.read(address, into).map_err(|_| Code::ILLEGAL_ADDRESS)
    }

    pub(super) fn fill(&mut self, address: u64, value: u8, bytes: u64) -> Outcome<()> {
        self.memory.fill(address, bytes, value).map_err(|_| Code::ILLEGAL_ADDRESS)
    }

    /// Reads a text and gives its variables memory.
    pub(super) fn load(&mut self, ptx: &str) -> Outcome<Program> {
        let module = match Module::parse(ptx) {
            Ok(module) => module,
            Err(error) => {
                self.load_errors.push(error);
                return Err(Code::INVALID_PTX);
            }
        };
        module.load(&mut self.memory).map(Program).map_err(|_| Code::OUT_OF_MEMORY)
    }

    pub(super) fn unload(&mut self, program: &Program) {
        program.0.clone().unload(&mut self.memory);
    }

    /// Runs a launch to its end. What stops it is a code of the driver's; what it found is kept.
    pub(super) fn run(
        &mut self,
        program: &Program,
        kernel: &str,
        shape: &LaunchShape,
        params: &[u8],
    ) -> Outcome<()> {
        let found = program.0.kernel(kernel).ok_or(Code::NOT_FOUND)?;
        let cluster = match found.entry().required_cluster() {
            Some(required) if shape.cluster == [1; 3] => required,
            _ => shape.cluster,
        };
        let launch = Launch {
            grid: shape.grid,
            block: shape.block,
            cluster,
            dynamic_shared_bytes: shape.dynamic_smem_bytes,
            params,
            seed: self.seed,
            limits: self.limits,
        };
        self.seed = self.seed.wrapping_add(1);
        let (report, stopped) = match found.run(&mut self.memory, &launch) {
            Ok(report) => (report, None),
            Err(Fault::Stopped { finding, report }) => (*report, Some(*finding)),
            // The launch was checked when it was queued.
            Err(_) => return Err(Code::LAUNCH_FAILED),
        };
        self.instructions += report.warp_instructions;
        let code = stopped.as_ref().map(|finding| code_of(&finding.kind));
        for finding in report.findings.into_iter().chain(stopped) {
            self.findings.push(KernelFinding { kernel: kernel.to_owned(), finding });
        }
        code.map_or(Ok(()), Err)
    }
}

impl Program {
    /// What the text is for: `sm_90a`.
    pub(super) fn target(&self) -> &str {
        self.0.module().target()
    }

    pub(super) fn entry(&self, name: &str) -> Option<Entry> {
        let entry = self.0.module().entry(name)?;
        let count = |extents: [u32; 3]| {
            extents.iter().fold(1_u32, |threads, &extent| threads.saturating_mul(extent))
        };
        let required_block = entry.required_threads();
        Some(Entry {
            param_bytes: entry.parameter_bytes().into(),
            static_smem_bytes: entry.static_shared_bytes(),
            max_threads: required_block.or(entry.max_threads()).map(count),
            required_block,
            required_cluster: entry.required_cluster(),
        })
    }
}

/// What a GPU answers to what ended a launch. A launch that would wait for ever is one that a
/// watchdog ends.
fn code_of(kind: &FindingKind) -> Code {
    match kind {
        FindingKind::OutOfBounds { .. } | FindingKind::ReadOnly { .. } => Code::ILLEGAL_ADDRESS,
        FindingKind::Misaligned { .. } => Code::MISALIGNED_ADDRESS,
        FindingKind::Assertion { .. } => Code::ASSERT,
        FindingKind::Divergence { .. }
        | FindingKind::Deadlock { .. }
        | FindingKind::Budget { .. } => Code::LAUNCH_TIMEOUT,
        _ => Code::LAUNCH_FAILED,
    }
}
