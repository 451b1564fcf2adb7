//! What all blocks of a launch share.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use super::Stopped;
use super::copy::Timing;
use super::warp::Warp;
use crate::alu::{LANES, Lanes};
use crate::finding::{Finding, FindingKind, Thread};
use crate::launch::{Fault, Launch, Limits, Report};
use crate::memory::Memory;
use crate::module::{Kernel, SharedLayout};
use crate::program::{Constant, Program};
use crate::random::Random;
use crate::types::Space;

pub(super) struct Machine<'m> {
    pub(super) program: &'m Program,
    /// Index of the kernel among the program's functions.
    pub(super) function: usize,
    pub(super) constants: Vec<Lanes>,
    pub(super) params: &'m [u8],
    pub(super) memory: &'m mut Memory,
    /// The allocation that was found last: most accesses are to the same one.
    pub(super) last_allocation: usize,
    /// End of the shared space, from 0.
    pub(super) shared_end: usize,
    /// Bytes of local memory of a thread.
    pub(super) stack_bytes: u32,
    pub(super) limits: Limits,
    pub(super) random: Random,
    pub(super) timing: Timing,
    pub(super) warp_instructions: u64,
    pub(super) thread_instructions: u64,
    findings: Findings,
}

#[derive(Default)]
struct Findings {
    kept: Vec<Finding>,
    known: HashMap<(u32, Discriminant<FindingKind>), usize>,
    last: Option<Finding>,
}

impl<'m> Machine<'m> {
    pub(super) fn new(
        kernel: Kernel<'m>,
        memory: &'m mut Memory,
        launch: &Launch<'m>,
        layout: &SharedLayout,
    ) -> Self {
        let program = kernel.image.module().program();
        let value = |constant: &Constant| match *constant {
            Constant::Value(value) => value,
            Constant::Variable { index, offset } => {
                let address = if program.variables[index].space == Space::Shared {
                    layout.address(index).into()
                } else {
                    kernel.image.address(index)
                };
                address.wrapping_add(offset)
            }
        };
        let end = layout.end(launch.dynamic_shared_bytes);
        let function = kernel.entry.function;
        Self {
            program,
            function,
            constants: program.constants.iter().map(|c| [value(c); LANES]).collect(),
            params: launch.params,
            memory,
            last_allocation: 0,
            // The launch was refused if it did not fit the limit, which is 32 bits wide.
            shared_end: usize::try_from(end).unwrap_or(usize::MAX),
            stack_bytes: super::call::stack_bytes(program, function, launch.limits.stack_bytes),
            limits: launch.limits,
            random: Random::new(launch.seed),
            timing: Timing::of_seed(launch.seed),
            warp_instructions: 0,
            thread_instructions: 0,
            findings: Findings::default(),
        }
    }

    /// Notes a finding; an error if it ends the launch.
    #[cold]
    pub(super) fn report(
        &mut self,
        kind: FindingKind,
        pc: u32,
        thread: Thread,
    ) -> Result<(), Stopped> {
        let place = self.program.places.place(pc);
        let ends = kind.ends_the_launch();
        let key = (pc, discriminant(&kind));
        let finding = Finding { kind, place, thread, occurrences: 1 };
        if ends {
            self.findings.last = Some(finding);
            return Err(Stopped);
        }
        let kept = &mut self.findings.kept;
        if let Some(index) = self.findings.known.get(&key) {
            kept[*index].occurrences += 1;
        } else if kept.len() < self.limits.findings {
            self.findings.known.insert(key, kept.len());
            kept.push(finding);
        }
        Ok(())
    }

    /// A finding of the lowest lane of a mask.
    #[cold]
    pub(super) fn report_lanes(
        &mut self,
        kind: FindingKind,
        pc: u32,
        warp: &Warp,
        lanes: u32,
    ) -> Result<(), Stopped> {
        let thread = warp.thread(lanes.trailing_zeros());
        self.report(kind, pc, thread)
    }

    pub(super) fn finish(self, ended: Result<(), Stopped>) -> Result<Report, Fault> {
        let report = Report {
            findings: self.findings.kept,
            warp_instructions: self.warp_instructions,
            thread_instructions: self.thread_instructions,
        };
        match (ended, self.findings.last) {
            (Err(Stopped), Some(finding)) => {
                let finding = Box::new(finding);
                Err(Fault::Stopped { finding, report: Box::new(report) })
            }
            _ => Ok(report),
        }
    }
}
