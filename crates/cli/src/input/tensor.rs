//! Tensors of a file, in memory that any engine can read.

use frazil::{DType, HostBuffer};
use half::{bf16, f16};
use safetensors::{Dtype, tensor::TensorView};

/// A float tensor, contiguous.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) dtype: DType,
    /// Rank 2 to 4.
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: HostBuffer,
}

/// Zeroed memory, or a message where there is not that much.
pub(crate) fn memory(bytes: usize) -> Result<HostBuffer, String> {
    // `HostBuffer` ends the program where memory cannot be had; a reservation can be refused.
    let slack = 4096;
    Vec::<u8>::new()
        .try_reserve_exact(bytes.saturating_add(slack))
        .map_err(|_| format!("takes {bytes} bytes of memory, which cannot be had"))?;
    Ok(HostBuffer::zeroed(bytes))
}

/// Bytes of a contiguous tensor.
pub(crate) fn size_bytes(dtype: DType, shape: &[usize]) -> Result<usize, String> {
    let width = usize::try_from(dtype.bytes()).unwrap_or(usize::MAX);
    shape
        .iter()
        .try_fold(width, |bytes, &extent| bytes.checked_mul(extent))
        .ok_or_else(|| format!("{dtype} {shape:?} takes more than 2^64 bytes"))
}

impl Tensor {
    pub(crate) fn zeroed(dtype: DType, shape: Vec<usize>) -> Result<Self, String> {
        let bytes = memory(size_bytes(dtype, &shape)?)?;
        Ok(Self { dtype, shape, bytes })
    }

    pub(super) fn read(view: &TensorView<'_>) -> Result<Self, String> {
        let dtype = match view.dtype() {
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::Bf16,
            Dtype::F32 => DType::F32,
            other => return Err(format!("is {other}; F16, BF16 or F32 is needed")),
        };
        let mut bytes = memory(view.data().len())?;
        bytes.as_bytes_mut().copy_from_slice(view.data());
        Ok(Self { dtype, shape: view.shape().to_vec(), bytes })
    }

    /// The values, widened without loss.
    pub(crate) fn values(&self) -> Vec<f32> {
        let bytes = self.bytes.as_bytes();
        match self.dtype {
            DType::F16 => words(bytes).map(|word| f16::from_le_bytes(word).to_f32()).collect(),
            DType::Bf16 => words(bytes).map(|word| bf16::from_le_bytes(word).to_f32()).collect(),
            DType::F32 => words(bytes).map(f32::from_le_bytes).collect(),
            // `read` and `zeroed` make no others.
            _ => Vec::new(),
        }
    }

    /// The same values rounded to another type.
    pub(super) fn converted(&self, dtype: DType) -> Result<Self, String> {
        let mut to = Self::zeroed(dtype, self.shape.clone())?;
        let values = self.values();
        let bytes = to.bytes.as_bytes_mut();
        match dtype {
            DType::F16 => fill(bytes, &values, |value| f16::from_f32(value).to_le_bytes()),
            DType::Bf16 => fill(bytes, &values, |value| bf16::from_f32(value).to_le_bytes()),
            _ => fill(bytes, &values, f32::to_le_bytes),
        }
        Ok(to)
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}

fn fill<const N: usize>(bytes: &mut [u8], values: &[f32], word: impl Fn(f32) -> [u8; N]) {
    for (to, &value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *to = word(value);
    }
}
