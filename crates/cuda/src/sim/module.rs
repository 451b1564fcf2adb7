//! Modules and their functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use frazil_core::Version;

use super::State;
use super::code::{Code, Outcome};
use super::launch::MAX_THREADS;
use super::machine::{Entry, Program};
use super::misuse::Misuse;
use super::ptx_target;
use crate::{FunctionAttribute, FunctionHandle, ModuleHandle};

/// Shared memory of a block that needs no opting in, static and dynamic together.
const SMEM_WITHOUT_OPTIN_BYTES: u32 = 48 << 10;

/// First driver that loads a module while a stream is being captured.
const LOADS_UNDER_CAPTURE: Version = Version::new(12, 3, 0);

/// What a machine-code image begins with.
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// Loaded modules, and the functions that were asked for.
#[derive(Debug, Default)]
pub(super) struct Modules {
    modules: BTreeMap<u64, Arc<Program>>,
    functions: BTreeMap<u64, Function>,
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub(super) struct Function {
    module: u64,
    pub(super) program: Arc<Program>,
    pub(super) name: Arc<str>,
    pub(super) entry: Entry,
    pub(super) max_dynamic_smem_bytes: u32,
}

impl Modules {
    pub(super) fn function(&self, function: FunctionHandle) -> Option<&Function> {
        self.functions.get(&function.raw())
    }

    pub(super) fn has(&self, function: FunctionHandle) -> bool {
        self.functions.contains_key(&function.raw())
    }
}

impl State {
    pub(super) fn module_load(&mut self, image: &[u8]) -> Outcome<ModuleHandle> {
        if self.version < LOADS_UNDER_CAPTURE {
            self.unsafe_under_capture()?;
        }
        if image.starts_with(ELF_MAGIC) {
            return Err(Code::NO_BINARY_FOR_GPU);
        }
        // As a C string: what follows the zero byte is not looked at.
        let Some(end) = image.iter().position(|&byte| byte == 0) else {
            return Err(self.misused(Misuse::UnendedPtx));
        };
        let ptx = std::str::from_utf8(&image[..end]).map_err(|_| Code::INVALID_IMAGE)?;
        if !ptx.contains(".version") {
            return Err(Code::INVALID_IMAGE);
        }
        let program = self.machine.load(ptx)?;
        if !ptx_target::fits(program.target(), self.props.compute_capability) {
            self.machine.unload(&program);
            return Err(Code::INVALID_PTX);
        }
        let handle = super::new_handle();
        self.modules.modules.insert(handle, Arc::new(program));
        ModuleHandle::from_raw(handle).ok_or(Code::INVALID_VALUE)
    }

    pub(super) fn module_unload(&mut self, module: ModuleHandle) -> Outcome<()> {
        self.unsafe_under_capture()?;
        let Some(program) = self.modules.modules.remove(&module.raw()) else {
            return Err(self.dead("module", module.raw()));
        };
        self.modules.functions.retain(|_, function| function.module != module.raw());
        self.machine.unload(&program);
        Ok(())
    }

    /// A kernel by name; the same handle every time.
    pub(super) fn module_function(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Outcome<FunctionHandle> {
        let Some(program) = self.modules.modules.get(&module.raw()) else {
            return Err(self.dead("module", module.raw()));
        };
        if name.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        let same = |function: &Function| function.module == module.raw() && &*function.name == name;
        let known = self.modules.functions.iter().find(|(_, function)| same(function));
        let handle = match known {
            Some((handle, _)) => *handle,
            None => {
                let entry = program.entry(name).ok_or(Code::NOT_FOUND)?;
                let left = SMEM_WITHOUT_OPTIN_BYTES.saturating_sub(entry.static_smem_bytes);
                let function = Function {
                    module: module.raw(),
                    program: Arc::clone(program),
                    name: name.into(),
                    entry,
                    max_dynamic_smem_bytes: left,
                };
                let handle = super::new_handle();
                self.modules.functions.insert(handle, function);
                handle
            }
        };
        FunctionHandle::from_raw(handle).ok_or(Code::INVALID_VALUE)
    }

    fn function(&mut self, function: FunctionHandle) -> Outcome<&mut Function> {
        if !self.modules.has(function) {
            return Err(self.dead("function", function.raw()));
        }
        self.modules.functions.get_mut(&function.raw()).ok_or(Code::INVALID_HANDLE)
    }

    pub(super) fn param_bytes(&mut self, function: FunctionHandle) -> Outcome<u64> {
        Ok(self.function(function)?.entry.param_bytes)
    }

    /// Registers and local memory are what an assembler makes of PTX: of a simulated GPU, which has
    /// none, a kernel takes none.
    pub(super) fn function_attribute(
        &mut self,
        attribute: FunctionAttribute,
        function: FunctionHandle,
    ) -> Outcome<i32> {
        let function = self.function(function)?;
        let value = match attribute {
            FunctionAttribute::MaxThreadsPerBlock => {
                function.entry.max_threads.unwrap_or(MAX_THREADS).min(MAX_THREADS)
            }
            FunctionAttribute::SharedSizeBytes => function.entry.static_smem_bytes,
            FunctionAttribute::LocalSizeBytes | FunctionAttribute::NumRegs => 0,
            FunctionAttribute::MaxDynamicSharedSizeBytes => function.max_dynamic_smem_bytes,
        };
        i32::try_from(value).map_err(|_| Code::INVALID_VALUE)
    }

    /// Static and dynamic shared memory together may not exceed what a block may opt in to.
    pub(super) fn set_function_attribute(
        &mut self,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Outcome<()> {
        let limit = self.props.smem_per_block_bytes;
        let function = self.function(function)?;
        let value = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
        let total = value.checked_add(function.entry.static_smem_bytes);
        let fits = total.is_some_and(|total| total <= limit);
        if attribute != FunctionAttribute::MaxDynamicSharedSizeBytes || !fits {
            return Err(Code::INVALID_VALUE);
        }
        function.max_dynamic_smem_bytes = value;
        Ok(())
    }
}
