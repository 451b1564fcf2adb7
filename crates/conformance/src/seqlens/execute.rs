//! A plan over a problem, and what it must leave in the workspace.

use frazil_core::{
    Bindings, Error, Executable, Geometry, GeometryError, Plan, Role, TensorId, WORKSPACE_ALIGN,
    Workspace,
};

use super::declare::Tensor;
use super::{Placed, Problem};
use crate::image::{DEAD, GUARD, GUARD_BYTES, fill};
use crate::memory::{Block, DeviceMemory, Exposed, MemoryError};

/// Why a problem could not be executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// A tensor of the problem is none.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Memory of the device.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The call.
    #[error(transparent)]
    Execute(#[from] Error),
    /// Bytes before or behind the workspace were written.
    #[error("bytes written outside of the workspace")]
    Burst,
}

/// Memory and place of one tensor.
struct Bound {
    tensor: Tensor,
    geometry: Geometry,
    block: Box<dyn Block>,
}

impl Bound {
    fn new(tensor: Tensor, memory: &dyn DeviceMemory) -> Result<Self, ExecuteError> {
        let geometry = tensor.bound()?;
        let bytes = tensor.bytes(&geometry);
        let mut block = memory.alloc(bytes.len() as u64)?;
        block.upload(0, &bytes)?;
        Ok(Self { tensor, geometry, block })
    }
}

impl Tensor {
    /// What is bound: the values of an int32 tensor, zeros of another one.
    fn bytes(&self, geometry: &Geometry) -> Vec<u8> {
        let size = self.dtype.bytes();
        let mut bytes = vec![0; usize::try_from(geometry.span() * size).unwrap_or(usize::MAX)];
        if !self.values.is_empty() {
            // Between entries lies what nobody may count on.
            fill(&mut bytes, DEAD);
        }
        for (at, value) in (0..).zip(&self.values) {
            let at = usize::try_from(at * geometry.stride(0) * size).unwrap_or(usize::MAX);
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}

const GUARD_ZONE: u64 = GUARD_BYTES as u64;
const _: () = assert!(GUARD_ZONE.is_multiple_of(WORKSPACE_ALIGN));

impl Problem {
    /// All bytes of every tensor that is bound, outputs included.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] where a tensor of the problem is none.
    pub fn contents(&self) -> Result<Vec<(TensorId, Vec<u8>)>, GeometryError> {
        let tensors = self.tensors().0.into_iter();
        tensors.map(|tensor| Ok((tensor.id, tensor.bytes(&tensor.bound()?)))).collect()
    }

    /// Executes a plan that was built for [`Problem::graph`] and gives back its workspace, which
    /// holds garbage before.
    ///
    /// # Errors
    ///
    /// [`ExecuteError`], also where bytes around the workspace were written.
    pub fn execute(
        &self,
        executable: &Executable,
        memory: &dyn DeviceMemory,
    ) -> Result<Vec<u8>, ExecuteError> {
        let tensors = self.tensors().0.into_iter().map(|tensor| Bound::new(tensor, memory));
        let mut tensors: Vec<Bound> = tensors.collect::<Result<_, _>>()?;
        let bytes = executable.plan().workspace_bytes();
        let garbage = garbage(bytes);
        let mut scratch = memory.alloc(garbage.len() as u64)?;
        scratch.upload(0, &garbage)?;
        let device = memory.device().id();
        let mut bindings = Bindings::new();
        for Bound { tensor, geometry, block } in &mut tensors {
            let span = geometry.span() * tensor.dtype.bytes();
            let buffer = Exposed::new(block.as_mut(), device).part(0, span);
            let bound = if tensor.is_overridden() {
                bindings.bind_as(tensor.id, buffer, *geometry)
            } else {
                bindings.bind(tensor.id, buffer)
            };
            bound.map_err(Error::from)?;
        }
        let workspace = Exposed::new(scratch.as_mut(), device).part(GUARD_ZONE, bytes);
        executable.execute(&bindings, Workspace::new(workspace), memory.stream())?;
        memory.sync()?;
        let mut image = vec![0; garbage.len()];
        scratch.download(0, &mut image)?;
        let body = GUARD_BYTES..image.len() - GUARD_BYTES;
        if image[..body.start] != garbage[..body.start] || image[body.end..] != garbage[body.end..]
        {
            return Err(ExecuteError::Burst);
        }
        Ok(image[body].to_vec())
    }

    /// The workspace that [`Problem::execute`] must give for a plan that runs setup alone: what
    /// its regions are named after, and the garbage of before everywhere else.
    ///
    /// | region | holds |
    /// |---|---|
    /// | `error_word` | a `u32` |
    /// | `q_lengths`, `kv_lengths` | int32, rows of each sequence |
    /// | `q_starts`, `kv_starts` | int32, first row of each sequence |
    /// | `q_element_offsets` and those of O, LSE, K and V | int64, first element of each sequence, and of the row past the last |
    ///
    /// # Errors
    ///
    /// [`GeometryError`] where a tensor of the problem is none.
    pub fn expected_workspace(&self, plan: &Plan) -> Result<Vec<u8>, GeometryError> {
        let mut image = garbage(plan.workspace_bytes());
        let tensors = self.tensors().0;
        let (q, kv) = (self.placed_q(), self.placed_kv());
        for (name, region) in plan.workspace().regions() {
            let side = if name.starts_with('k') || name.starts_with('v') { &kv } else { &q };
            let bytes = match name {
                "error_word" => self.error_word().0.to_le_bytes().to_vec(),
                "q_lengths" | "kv_lengths" => int32s(&side.lengths),
                "q_starts" | "kv_starts" => int32s(&side.starts),
                _ => {
                    let of =
                        |role: Role| name.strip_suffix("_element_offsets") == Some(role.name());
                    let tensor = tensors.iter().find(|tensor| of(tensor.role));
                    let Some(tensor) = tensor else { continue };
                    element_offsets(side, tensor.bound()?.stride(0))
                }
            };
            let at = GUARD_BYTES + usize::try_from(region.offset()).unwrap_or(usize::MAX);
            image[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(image[GUARD_BYTES..image.len() - GUARD_BYTES].to_vec())
    }
}

fn int32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn element_offsets(side: &Placed, row_stride: u64) -> Vec<u8> {
    let last = side.starts.last().zip(side.lengths.last());
    let end = last.map_or(0, |(&start, &len)| i64::from(start) + i64::from(len));
    let rows = side.starts.iter().copied().map(i64::from).chain([end]);
    let row_stride = i64::try_from(row_stride).unwrap_or(i64::MAX);
    rows.flat_map(|row| (row * row_stride).to_le_bytes()).collect()
}

/// A workspace of garbage between guard zones.
fn garbage(bytes: u64) -> Vec<u8> {
    let body = usize::try_from(bytes).unwrap_or(usize::MAX / 4);
    let mut image = vec![0; body + 2 * GUARD_BYTES];
    fill(&mut image, GUARD);
    fill(&mut image[GUARD_BYTES..][..body], DEAD);
    image
}
