//! Modules, their kernels, and modules in the memory of a device.

use std::sync::Arc;

use crate::decode::decode;
use crate::error::LoadError;
use crate::launch::{Fault, Launch, Report};
use crate::memory::{Memory, MemoryError};
use crate::program::Program;
use crate::syntax;
use crate::types::Space;

/// A PTX text that was parsed and checked as a whole. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    target: String,
    program: Program,
    entries: Vec<Entry>,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) name: String,
    pub(crate) function: usize,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) parameter_bytes: u32,
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// Variables of the shared space that the kernel or what it calls refers to.
    pub(crate) shared_variables: Vec<usize>,
    pub(crate) static_shared_bytes: u32,
}

/// Where a parameter lies in the bytes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its first byte.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u32,
    /// Its alignment in bytes.
    pub align: u32,
}

impl Module {
    /// Reads a PTX text and checks all of it (PTX ISA 9.x; addresses of 64 bits).
    ///
    /// # Errors
    ///
    /// `LoadError::Syntax` and `LoadError::Invalid` at the first fault; `LoadError::Unmodelled` with every instruction
    /// that this crate has no model of.
    pub fn parse(ptx: &str) -> Result<Self, LoadError> {
        let syntax = syntax::parse(ptx)?;
        let mut decoded = decode(&syntax)?;
        for entry in &mut decoded.entries {
            entry.static_shared_bytes = SharedLayout::new(entry, &decoded.program).static_bytes;
        }
        let target = syntax.target.to_owned();
        let inner = Inner { target, program: decoded.program, entries: decoded.entries };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The target that the text names, such as `sm_90a`.
    pub fn target(&self) -> &str {
        &self.inner.target
    }

    /// All kernels, in the order of the text.
    pub fn entries(&self) -> &[Entry] {
        &self.inner.entries
    }

    /// The kernel of a name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.inner.entries.iter().find(|entry| entry.name == name)
    }

    /// Places the module's variables in a device's memory, with their initial values.
    ///
    /// # Errors
    ///
    /// `MemoryError::OutOfMemory`; nothing stays allocated then.
    pub fn load(&self, memory: &mut Memory) -> Result<Image, MemoryError> {
        let variables = &self.inner.program.variables;
        let mut image = Image { module: self.clone(), addresses: vec![0; variables.len()] };
        for (index, variable) in variables.iter().enumerate() {
            if !matches!(variable.space, Space::Global | Space::Const) {
                continue;
            }
            let bytes = variable.bytes.unwrap_or(0);
            match memory.alloc(bytes, variable.align.into()) {
                Ok(address) => image.addresses[index] = address,
                Err(error) => {
                    image.unload(memory);
                    return Err(error);
                }
            }
        }
        image.initialise(memory)?;
        Ok(image)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.inner.program
    }
}

impl Entry {
    /// Its name in the text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where each parameter lies.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Bytes that a launch passes.
    pub fn parameter_bytes(&self) -> u32 {
        self.parameter_bytes
    }

    /// Bytes of shared memory that every block has, beside what a launch adds.
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared_bytes
    }

    /// Most threads of a block, `.maxntid`.
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.max_threads
    }

    /// The only extents of a block, `.reqntid`.
    pub fn required_threads(&self) -> Option<[u32; 3]> {
        self.required_threads
    }

    /// The only extents of a cluster, `.reqnctapercluster`.
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        self.required_cluster
    }
}

/// A module in the memory of one device.
///
/// Its variables stay allocated until `unload`; dropping it does not reach the memory.
#[derive(Clone, Debug)]
pub struct Image {
    module: Module,
    /// Of each variable of the program; 0 for those of shared memory.
    addresses: Vec<u64>,
}

/// A kernel of a module in memory: what can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    pub(crate) image: &'a Image,
    pub(crate) entry: &'a Entry,
}

impl Image {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<Kernel<'_>> {
        let entry = self.module.entry(name)?;
        Some(Kernel { image: self, entry })
    }

    /// Address and bytes of a `.global` or `.const` variable.
    pub fn symbol(&self, name: &str) -> Option<(u64, u64)> {
        let variables = self.module.program().variables.iter().zip(&self.addresses);
        let mut found =
            variables.filter(|(variable, address)| variable.name == name && **address != 0);
        let (variable, address) = found.next()?;
        Some((*address, variable.bytes.unwrap_or(0)))
    }

    /// Gives the variables' memory back.
    pub fn unload(self, memory: &mut Memory) {
        for address in self.addresses.into_iter().filter(|address| *address != 0) {
            // An address that is not there was freed by hand, or is another device's: nothing to give.
            let _freed = memory.free(address);
        }
    }

    pub(crate) fn address(&self, variable: usize) -> u64 {
        self.addresses[variable]
    }

    fn initialise(&self, memory: &mut Memory) -> Result<(), MemoryError> {
        for (index, variable) in self.module.program().variables.iter().enumerate() {
            let address = self.addresses[index];
            if address == 0 {
                continue;
            }
            // What has no initial value is zero (PTX ISA 5.4.4).
            memory.fill(address, variable.bytes.unwrap_or(0), 0)?;
            memory.write(address, &variable.init)?;
            for relocation in &variable.relocations {
                let value = self.addresses[relocation.variable].wrapping_add(relocation.offset);
                memory.write(address + relocation.at as u64, &value.to_le_bytes())?;
            }
            if variable.space == Space::Const {
                memory.set_constant(address);
            }
        }
        Ok(())
    }
}

impl<'a> Kernel<'a> {
    /// What the text says of the kernel.
    pub fn entry(self) -> &'a Entry {
        self.entry
    }

    /// Runs a launch to its end. `memory` is the one that the module was loaded into.
    ///
    /// # Errors
    ///
    /// `Fault::Refused` before anything runs; `Fault::Stopped` with the finding that ended the launch.
    pub fn run(self, memory: &mut Memory, launch: &Launch<'_>) -> Result<Report, Fault> {
        crate::launch::run(self, memory, launch)
    }
}

/// Bytes at the begin of a block's shared memory that belong to the system, as on sm_80 and later.
const RESERVED_SHARED_BYTES: u32 = 1024;

/// Addresses of a kernel's variables in the shared space.
#[derive(Debug)]
pub(crate) struct SharedLayout {
    /// Variable and address.
    addresses: Vec<(usize, u32)>,
    /// End of the static variables, without what the system reserves.
    static_bytes: u32,
    /// Where memory begins whose extent the launch gives.
    dynamic_begin: u32,
}

impl SharedLayout {
    pub(crate) const BEGIN: u32 = RESERVED_SHARED_BYTES;

    pub(crate) fn new(entry: &Entry, program: &Program) -> Self {
        let mut layout = Self { addresses: Vec::new(), static_bytes: 0, dynamic_begin: 0 };
        let mut end = RESERVED_SHARED_BYTES;
        let variables =
            || entry.shared_variables.iter().map(|index| (*index, &program.variables[*index]));
        for (index, variable) in variables() {
            if let Some(bytes) = variable.bytes {
                let begin = end.next_multiple_of(variable.align);
                // Variables are bounded to a size whose sum a launch refuses long before it wraps.
                end = begin.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX)).min(1 << 30);
                layout.addresses.push((index, begin));
            }
        }
        layout.static_bytes = end - RESERVED_SHARED_BYTES;
        // All of them begin at one address, that of the strictest alignment.
        let dynamic = || variables().filter(|(_, variable)| variable.bytes.is_none());
        let align = dynamic().map(|(_, variable)| variable.align).max().unwrap_or(16);
        layout.dynamic_begin = end.next_multiple_of(align);
        layout.addresses.extend(dynamic().map(|(index, _)| (index, layout.dynamic_begin)));
        layout
    }

    pub(crate) fn address(&self, variable: usize) -> u32 {
        let found = self.addresses.iter().find(|(index, _)| *index == variable);
        found.map_or(0, |(_, address)| *address)
    }

    /// End of all shared memory, addresses that the system reserves included.
    pub(crate) fn end(&self, dynamic_bytes: u32) -> u64 {
        u64::from(self.dynamic_begin) + u64::from(dynamic_bytes)
    }
}
