//! GPUs, real and simulated, for the runner; and an engine double for what needs one kernel.

mod memory;
mod setup_engine;

pub use memory::CudaMemory;
pub use setup_engine::{SETUP_ENGINE, SetupEngine, WORK_LIST_ENGINE};
