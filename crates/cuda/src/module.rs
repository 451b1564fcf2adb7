//! Compiled kernels in a device's memory, and their launches.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use bytemuck::NoUninit;
use frazil_core::{DeviceHandle, Error};

use crate::{
    Artifact, ContextHandle, CudaDevice, DriverCalls, DriverError, FunctionAttribute,
    FunctionHandle, ImageKind, Key, LaunchShape, ModuleHandle, Queue,
};

/// Modules of one device's context, by the name of what was loaded.
///
/// None is ever unloaded: a module may be part of a graph that somebody captured, and an unload
/// breaks a capture that goes on in GLOBAL mode, in whichever thread.
#[derive(Default)]
pub(crate) struct Modules(Mutex<HashMap<Key, ModuleHandle>>);

/// A kernel that is loaded on a device and takes one `P`, by value.
///
/// `P` mirrors the parameter struct of the kernel's source: `repr(C)`, plain data, and no byte that
/// is padding (write it out as a field), so that a launch hands over bytes that are all defined, to
/// a driver that copies them as to a simulated one that reads them.
pub struct Kernel<P> {
    device: CudaDevice,
    context: ContextHandle,
    function: FunctionHandle,
    resources: KernelResources,
    params: PhantomData<fn(&P)>,
}

/// What the driver says a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelResources {
    /// Threads that a block may have.
    pub max_threads_per_block: i32,
    /// Registers of a thread.
    pub registers: i32,
    /// Bytes of local memory of a thread: its stack and what its registers did not hold.
    pub local_bytes: i32,
    /// Bytes of static shared memory of a block.
    pub static_smem_bytes: i32,
}

/// Why a kernel could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A driver call failed.
    #[error("{kernel}: {error}")]
    Driver {
        /// The kernel.
        kernel: String,
        /// The call, its code and name.
        error: DriverError,
    },
    /// The artifact has no such kernel.
    #[error("no kernel {kernel} in {key}, which has {}", found.join(", "))]
    NoSuchKernel {
        /// The kernel asked for.
        kernel: String,
        /// The artifact.
        key: Key,
        /// Kernels that it has.
        found: Vec<String>,
    },
    /// The artifact is machine code, and the driver takes PTX alone.
    #[error("{kernel} is {found:?}, the driver takes {need:?}")]
    ImageKind {
        /// The kernel.
        kernel: String,
        /// What it is.
        found: ImageKind,
        /// What is taken.
        need: ImageKind,
    },
    /// The image is neither an ELF file nor text that ends in a zero byte, as its kind has it.
    #[error("{kernel}: its image is no {kind:?}")]
    Image {
        /// The kernel.
        kernel: String,
        /// What it should be.
        kind: ImageKind,
    },
    /// Host and kernel disagree on the parameter struct.
    #[error("{kernel} takes {kernel_bytes} bytes of parameters, the host passes {host_bytes}")]
    Params {
        /// The kernel.
        kernel: String,
        /// Bytes that the kernel takes.
        kernel_bytes: u64,
        /// Bytes of the host's struct.
        host_bytes: u64,
    },
}

impl LoadError {
    fn kernel(&self) -> &str {
        let (Self::Driver { kernel, .. }
        | Self::NoSuchKernel { kernel, .. }
        | Self::ImageKind { kernel, .. }
        | Self::Image { kernel, .. }
        | Self::Params { kernel, .. }) = self;
        kernel
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Driver { error, .. } => error.into(),
            other => Self::Kernel { kernel: other.kernel().into(), message: other.to_string() },
        }
    }
}

impl CudaDevice {
    /// Loads a kernel, or finds it loaded: of threads that ask at once, one loads.
    ///
    /// It works within a capture of any mode, of this thread or another: the driver measured lets
    /// loads through, and the documentation promises that for relaxed threads alone. Launches may then
    /// ask for as much dynamic shared memory as is stated here, or by another load of the same kernel.
    ///
    /// # Errors
    ///
    /// [`LoadError`], before anything is launched.
    ///
    /// # Safety
    ///
    /// The artifact is what a compiler gave, unchanged, and `P` is laid out as the one parameter of
    /// its kernel.
    pub unsafe fn load<P: NoUninit>(
        &self,
        artifact: &Artifact,
        kernel: &str,
        dynamic_smem_bytes: u32,
    ) -> Result<Kernel<P>, LoadError> {
        let failed = |error| LoadError::Driver { kernel: kernel.into(), error };
        check(artifact, kernel, self.driver().image_kind())?;
        let _current = self.make_current().map_err(failed)?;
        let _relaxed = self.relax_capture().map_err(failed)?;
        let context = self.context().map_err(failed)?;
        // SAFETY: the caller's promise about the artifact; the context is current.
        let function = unsafe { self.function(artifact, kernel, dynamic_smem_bytes) };
        let function = function.map_err(failed)?;
        // SAFETY: modules are never unloaded.
        let kernel_bytes = unsafe { self.driver().func_param_bytes(function) }.map_err(failed)?;
        let host_bytes = size_of::<P>() as u64;
        if let Some(kernel_bytes) = kernel_bytes.filter(|&bytes| bytes != host_bytes) {
            let kernel = kernel.into();
            return Err(LoadError::Params { kernel, kernel_bytes, host_bytes });
        }
        let resources = self.resources(function).map_err(failed)?;
        let device = self.clone();
        Ok(Kernel { device, context, function, resources, params: PhantomData })
    }

    /// A function of a module that is loaded at most once.
    ///
    /// # Safety
    ///
    /// The artifact is whole, and the device's context is current.
    unsafe fn function(
        &self,
        artifact: &Artifact,
        kernel: &str,
        dynamic_smem_bytes: u32,
    ) -> Result<FunctionHandle, DriverError> {
        let driver = self.driver();
        // Held over the load, so that a second thread finds the first one's module.
        let mut modules = self.modules().0.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.get(&artifact.key) {
            Some(module) => *module,
            None => {
                // SAFETY: the caller's promise that the image is whole.
                let module = unsafe { driver.module_load_data(&artifact.image) }?;
                modules.insert(artifact.key, module);
                module
            }
        };
        // SAFETY: the module is loaded and never unloaded.
        let function = unsafe { driver.module_get_function(module, kernel) }?;
        let attribute = FunctionAttribute::MaxDynamicSharedSizeBytes;
        // SAFETY: as above. The limit is the function's, whoever loaded it: it is only raised.
        let limit = unsafe { driver.func_get_attribute(attribute, function) }?;
        let need = i32::try_from(dynamic_smem_bytes).unwrap_or(i32::MAX);
        if need > limit {
            // SAFETY: as above.
            unsafe { driver.func_set_attribute(function, attribute, need) }?;
        }
        Ok(function)
    }

    fn resources(&self, function: FunctionHandle) -> Result<KernelResources, DriverError> {
        // SAFETY: the function is of a module that is never unloaded.
        let ask = |attribute| unsafe { self.driver().func_get_attribute(attribute, function) };
        Ok(KernelResources {
            max_threads_per_block: ask(FunctionAttribute::MaxThreadsPerBlock)?,
            registers: ask(FunctionAttribute::NumRegs)?,
            local_bytes: ask(FunctionAttribute::LocalSizeBytes)?,
            static_smem_bytes: ask(FunctionAttribute::SharedSizeBytes)?,
        })
    }
}

/// What can be told without the driver.
fn check(artifact: &Artifact, kernel: &str, need: ImageKind) -> Result<(), LoadError> {
    let kernel = || kernel.to_owned();
    if !artifact.symbols.contains(&kernel()) {
        let (key, found) = (artifact.key, artifact.symbols.clone());
        return Err(LoadError::NoSuchKernel { kernel: kernel(), key, found });
    }
    let kind = artifact.kind;
    // The driver of a GPU takes PTX too, and compiles it; what a simulated one cannot take is
    // machine code.
    if kind == ImageKind::Cubin && need == ImageKind::Ptx {
        return Err(LoadError::ImageKind { kernel: kernel(), found: kind, need });
    }
    let is_sound = match kind {
        ImageKind::Cubin => artifact.image.starts_with(b"\x7fELF"),
        ImageKind::Ptx => artifact.image.ends_with(b"\0"),
    };
    if is_sound { Ok(()) } else { Err(LoadError::Image { kernel: kernel(), kind }) }
}

impl<P: NoUninit> Kernel<P> {
    /// Queues one launch. No heap, no driver call but `cuLaunchKernelEx`.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDevice`] for a queue of another device than the kernel's; [`Error::Driver`]
    /// where the launch is refused, as for a shape that the device does not have.
    ///
    /// # Safety
    ///
    /// Until the stream has passed the work, what the kernel reads and writes by way of its
    /// parameters is memory of the device, as large as the kernel takes it for, and not written, or
    /// where the kernel writes not read, by others.
    pub unsafe fn launch(
        &self,
        queue: &Queue<'_>,
        shape: &LaunchShape,
        params: &P,
    ) -> Result<(), Error> {
        if queue.context() != self.context {
            let (found, need) = (queue.device().id(), self.device.id());
            let (found, need) = (found.to_string(), need.to_string());
            return Err(Error::WrongDevice { found, need });
        }
        let params = bytemuck::bytes_of(params);
        let driver = queue.device().driver();
        // SAFETY: the function is of a module that is never unloaded, and takes one parameter of
        // this layout, as the caller of `load` promised; a queue's stream lives; the rest is the
        // caller's promise.
        unsafe { driver.launch_kernel_ex(shape, queue.raw(), self.function, params) }?;
        Ok(())
    }
}

impl<P> Kernel<P> {
    /// The device that it is loaded on.
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// What the driver says it takes.
    pub fn resources(&self) -> KernelResources {
        self.resources
    }
}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = std::any::type_name::<P>();
        write!(f, "Kernel({params} on {}, {:?})", self.device.id(), self.resources)
    }
}

#[cfg(test)]
mod tests;
