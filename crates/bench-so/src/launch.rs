//! Bare launches, beside which a plan's host cost is put.

use frazil::cuda::{CudaDevice, DriverCalls, FunctionHandle, LaunchShape, device};

use crate::BenchLaunch;
use crate::failure::Failure;

/// Most bytes of a kernel's parameters that every driver takes.
const MAX_PARAMS_BYTES: usize = 4096;

/// # Safety
///
/// As `frazil_bench_launch`.
pub(crate) unsafe fn launch(ordinal: u32, launch: &BenchLaunch) -> Result<(), Failure> {
    let params = [0_u8; MAX_PARAMS_BYTES];
    let bytes = usize::try_from(launch.params_bytes).unwrap_or(usize::MAX);
    let params = params.get(..bytes).ok_or_else(|| {
        Failure::Misuse(format!("{bytes} bytes of parameters, at most {MAX_PARAMS_BYTES}"))
    })?;
    let function = FunctionHandle::from_raw(launch.function)
        .ok_or_else(|| Failure::Misuse("the function is null".into()))?;
    let device = device(ordinal).map_err(|error| Failure::Fault(error.to_string()))?;
    let device = CudaDevice::of(&device).map_err(|error| Failure::Fault(error.to_string()))?;
    let shape = LaunchShape {
        grid: [1; 3],
        block: [32, 1, 1],
        cluster: [1; 3],
        dynamic_smem_bytes: 0,
        programmatic: false,
    };
    for _ in 0..launch.repeats {
        // SAFETY: the caller's promise: a function of so many bytes of parameters, which point nowhere.
        unsafe { device.driver().launch_kernel_ex(&shape, launch.stream, function, params) }
            .map_err(|error| Failure::Fault(error.to_string()))?;
    }
    Ok(())
}
