//! Launches: what the driver checks before it queues one, and what came of it.
//!
//! Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", alike for
//! every one that frazil knows.

use std::sync::Arc;

use frazil_core::{ComputeCapability, CudaProps};

use super::code::{Code, Outcome};
use super::graph::Work;
use super::machine::Entry;
use super::misuse::Misuse;
use super::module::Function;
use super::{Fault, State};
use crate::{FunctionHandle, LaunchShape};

const MAX_GRID: [u32; 3] = [i32::MAX.cast_unsigned(), 65_535, 65_535];
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Threads of any block.
pub(super) const MAX_THREADS: u32 = 1024;
/// Blocks of a cluster, for kernels that did not ask for more.
const MAX_CLUSTER_BLOCKS: u32 = 8;
/// First with clusters and programmatic launches.
const FIRST_WITH_CLUSTERS: ComputeCapability = ComputeCapability::new(9, 0);

impl State {
    pub(super) fn launch(
        &mut self,
        shape: &LaunchShape,
        stream: u64,
        function: FunctionHandle,
        params: &[u8],
    ) -> Outcome<()> {
        let Some(loaded) = self.modules.function(function) else {
            return Err(self.dead("function", function.raw()));
        };
        if let Err(code) = check(shape, loaded, &self.props) {
            return Err(self.refused_launch(stream, code));
        }
        let (kernel, declared) = (Arc::clone(&loaded.name), loaded.entry.param_bytes);
        if params.len() as u64 != declared {
            let (kernel, found) = (kernel.to_string(), params.len() as u64);
            return Err(self.misused(Misuse::ParameterBytes { kernel, found, declared }));
        }
        self.put(stream, Work::Kernel { function, kernel, shape: *shape, params: params.into() })
    }

    /// Runs a kernel whose launch was checked.
    pub(super) fn run_kernel(
        &mut self,
        function: FunctionHandle,
        kernel: &str,
        shape: &LaunchShape,
        params: &[u8],
    ) {
        let Some(function) = self.modules.function(function) else {
            let kernel = kernel.to_owned();
            let code = self.misused(Misuse::UnloadedKernel { kernel });
            self.fault = Some(Fault { code, seen: false });
            return;
        };
        if let Err(code) = self.machine.run(&function.program, &function.name, shape, params) {
            self.fault = Some(Fault { code, seen: false });
        }
    }
}

/// Whether a GPU takes a launch of that shape.
fn check(shape: &LaunchShape, function: &Function, props: &CudaProps) -> Outcome<()> {
    let within = |extents: [u32; 3], limits: [u32; 3]| {
        extents.iter().zip(limits).all(|(&extent, limit)| (1..=limit).contains(&extent))
    };
    if !within(shape.grid, MAX_GRID) || !within(shape.block, MAX_BLOCK) {
        return Err(Code::INVALID_VALUE);
    }
    let Entry { max_threads, required_block, required_cluster, .. } = function.entry;
    let threads: u32 = shape.block.iter().product();
    if threads > max_threads.unwrap_or(MAX_THREADS).min(MAX_THREADS)
        || required_block.is_some_and(|required| required != shape.block)
    {
        return Err(Code::INVALID_VALUE);
    }
    if shape.dynamic_smem_bytes > function.max_dynamic_smem_bytes {
        return Err(Code::INVALID_VALUE);
    }
    let cluster = match required_cluster {
        None => shape.cluster,
        Some(required) if [required, [1; 3]].contains(&shape.cluster) => required,
        Some(_) => return Err(Code::INVALID_CLUSTER_SIZE),
    };
    check_cluster(shape, cluster, props.compute_capability)
}

fn check_cluster(shape: &LaunchShape, cluster: [u32; 3], device: ComputeCapability) -> Outcome<()> {
    let is_cluster = cluster != [1; 3];
    if (is_cluster || shape.programmatic) && device < FIRST_WITH_CLUSTERS {
        return Err(Code::NOT_SUPPORTED);
    }
    let blocks = cluster.iter().try_fold(1_u32, |blocks, &extent| blocks.checked_mul(extent));
    let divides = |(&grid, &cluster): (&u32, &u32)| cluster != 0 && grid.is_multiple_of(cluster);
    let is_whole = shape.grid.iter().zip(&cluster).all(divides);
    match blocks {
        Some(blocks) if is_whole && blocks <= MAX_CLUSTER_BLOCKS => Ok(()),
        _ => Err(Code::INVALID_CLUSTER_SIZE),
    }
}
