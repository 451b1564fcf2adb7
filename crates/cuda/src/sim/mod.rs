//! A driver without a GPU: the semantics of the CUDA driver over a simulator of PTX.
//!
//! It stands behind [`Driver`](crate::Driver) as the real one does, so that engines, detectors and
//! tests run where there is no GPU, for any compute capability. What it answers is from the
//! documentation of the driver where that says it, and else from what a GPU answered; the tests of
//! the contract of calls put one table to both.
//!
//! Where it differs from a GPU, and why:
//!
//! - Work runs when it is put on a stream, one launch at a time, so that a missing order between
//!   streams is not seen. A fault in a kernel is nevertheless told by the next call that waits, and
//!   from then on by every call that needs the context, as a GPU may at the latest.
//! - Time is the number of instructions simulated: [`DriverCalls::event_elapsed_time`] counts one
//!   nanosecond each.
//! - Machine code is not run: modules are PTX. Its version is not held against the driver's, since
//!   no compiler of the driver reads it. A kernel takes no registers and no local memory, which an
//!   assembler would have chosen, so that neither limits a launch.
//! - Misuse that the driver leaves undefined is an error, and is kept as [`Misuse`].

mod calls;
mod capture;
mod code;
mod event;
mod graph;
mod launch;
mod machine;
mod memory;
mod misuse;
mod module;
mod ptx_target;
mod simulation;
mod tensor_map;
mod thread;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use frazil_core::{ComputeCapability, CudaProps, Version};

pub use misuse::Misuse;
pub use simulation::{KernelFinding, NotSimulated, Simulation, simulated};

#[cfg(doc)]
use crate::DriverCalls;
use crate::{ContextHandle, DriverError};
use capture::Streams;
use code::{Code, Outcome};
use event::Events;
use graph::Graphs;
use machine::Machine;
use module::Modules;
use thread::Threads;

/// A driver with one GPU, which is simulated. Every one is a world of its own.
pub struct SimulatedDriver {
    number: u32,
    props: CudaProps,
    version: Version,
    state: Mutex<State>,
}

/// All that changes.
#[derive(Debug)]
struct State {
    props: CudaProps,
    version: Version,
    context: ContextHandle,
    retained: bool,
    threads: Threads,
    streams: Streams,
    graphs: Graphs,
    events: Events,
    modules: Modules,
    machine: Machine,
    fault: Option<Fault>,
    misuses: Vec<Misuse>,
}

/// What stopped the context; nothing runs after it.
#[derive(Clone, Copy, Debug)]
struct Fault {
    code: Code,
    /// Whether a call has told it.
    seen: bool,
}

/// What is never a valid handle of another driver, nor a sentinel.
const FIRST_HANDLE: u64 = 0x51D0_0000_0000_0000;

/// A handle that no object of this process has.
fn new_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_HANDLE);
    NEXT.fetch_add(16, Ordering::Relaxed)
}

impl SimulatedDriver {
    /// A driver of that version, with one such GPU.
    pub fn new(props: CudaProps, version: Version) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let state = Mutex::new(State::new(props.clone(), version, number));
        Self { number, props, version, state }
    }

    /// Which of the simulated GPUs of this process it has, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A panic under the lock is a failed test of a simulator; what it left is still looked at.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call, by the name that its error carries.
    fn call<T>(
        &self,
        call: &'static str,
        body: impl FnOnce(&mut State) -> Outcome<T>,
    ) -> Result<T, DriverError> {
        body(&mut self.state()).map_err(|Code(code)| DriverError { call, code })
    }
}

impl std::fmt::Debug for SimulatedDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimulatedDriver({}, {})", self.number, self.props.name)
    }
}

impl State {
    fn new(props: CudaProps, version: Version, number: u32) -> Self {
        let context = ContextHandle::from_raw(new_handle()).expect("handles begin above 0");
        Self {
            machine: Machine::new(&props, number),
            props,
            version,
            context,
            retained: false,
            threads: Threads::default(),
            streams: Streams::default(),
            graphs: Graphs::default(),
            events: Events::default(),
            modules: Modules::default(),
            fault: None,
            misuses: Vec::new(),
        }
    }

    /// Whether calls are answered at all: no fault was told.
    fn alive(&self) -> Outcome<()> {
        match self.fault {
            Some(Fault { code, seen: true }) => Err(code),
            _ => Ok(()),
        }
    }

    /// Whether the calling thread may use the context, which is current.
    fn ready(&self) -> Outcome<()> {
        self.threads.current().ok_or(Code::INVALID_CONTEXT)?;
        self.alive()
    }

    /// Whether the calling thread may use a stream. A stream that was made carries its context, as
    /// functions and events do; the sentinels are those of the current one.
    fn ready_on(&self, stream: u64) -> Outcome<()> {
        if stream <= capture::LAST_SENTINEL { self.ready() } else { self.alive() }
    }

    /// Whether the device has a tensor memory accelerator.
    fn has_tensor_maps(&self) -> Outcome<()> {
        let has = self.props.compute_capability >= ComputeCapability::new(9, 0);
        if has { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    }

    /// What a call that waits does about a fault.
    fn surface_fault(&mut self) -> Outcome<()> {
        match &mut self.fault {
            Some(fault) => {
                fault.seen = true;
                Err(fault.code)
            }
            None => Ok(()),
        }
    }

    /// Keeps a misuse; the code that answers it.
    fn misused(&mut self, misuse: Misuse) -> Code {
        let code = match misuse {
            Misuse::ParameterBytes { .. } => Code::INVALID_VALUE,
            Misuse::UnendedPtx => Code::INVALID_IMAGE,
            _ => Code::INVALID_HANDLE,
        };
        self.misuses.push(misuse);
        code
    }

    fn dead(&mut self, what: &'static str, handle: u64) -> Code {
        self.misused(Misuse::DeadHandle { what, handle })
    }
}
