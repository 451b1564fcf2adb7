//! Safetensors files with the tensors of attention.

mod header;
mod side;
mod tensor;

use std::path::{Path, PathBuf};

use frazil::DType;
use safetensors::SafeTensors;
use safetensors::tensor::Metadata;

use crate::failure::Failure;
use crate::files;

pub(crate) use side::{Rows, Side};
pub(crate) use tensor::{Tensor, memory};

/// Tensors that a file may hold.
const NAMES: [&str; 9] = [
    "q",
    "k",
    "v",
    "q_prefix",
    "q_lengths",
    "kv_prefix",
    "kv_lengths",
    "expected_o",
    "expected_lse",
];

/// One file, checked: the tensors agree with one another as far as their lengths go.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    pub(crate) q: Tensor,
    pub(crate) k: Tensor,
    pub(crate) v: Tensor,
    pub(crate) q_side: Side,
    pub(crate) kv_side: Side,
    pub(crate) softmax_scale: Option<f32>,
    pub(crate) expected_o: Option<Tensor>,
    pub(crate) expected_lse: Option<Tensor>,
    /// Whether the inputs were rounded after reading, so that expected tensors answer other ones.
    pub(crate) rounded: bool,
}

impl Input {
    /// Reads a file and converts q, k and v where a type is given.
    pub(crate) fn read(path: &Path, dtype: Option<DType>) -> Result<Self, Failure> {
        let file = files::read(path)?;
        Self::parse(path, &file, dtype).map_err(|what| Failure::in_file(path, what))
    }

    /// The same from the bytes of a file.
    pub(crate) fn parse(path: &Path, file: &[u8], dtype: Option<DType>) -> Result<Self, String> {
        header::check(file)?;
        let (_, metadata) = SafeTensors::read_metadata(file).map_err(|error| error.to_string())?;
        let softmax_scale = softmax_scale(&metadata)?;
        let file = SafeTensors::deserialize(file).map_err(|error| error.to_string())?;
        if let Some(other) = file.names().into_iter().find(|name| !NAMES.contains(name)) {
            return Err(format!(
                "tensor `{other}` has no meaning here; known: {}",
                NAMES.join(", ")
            ));
        }
        let optional = |name: &str| {
            let view = file.tensor(name).ok();
            let tensor = view.map(|view| Tensor::read(&view)).transpose();
            tensor.map_err(|what| format!("tensor `{name}` {what}"))
        };
        let required = |name: &str| optional(name)?.ok_or(format!("tensor `{name}` is missing"));
        let (q, k, v) = (required("q")?, required("k")?, required("v")?);
        let mut input = Self {
            path: path.to_owned(),
            q_side: Side::read(&file, "q", "q", &q.shape)?,
            kv_side: Side::read(&file, "kv", "k", &k.shape)?,
            softmax_scale,
            expected_o: optional("expected_o")?,
            expected_lse: optional("expected_lse")?,
            rounded: false,
            q,
            k,
            v,
        };
        if let Some(dtype) = dtype {
            input.convert(dtype)?;
        }
        Ok(input)
    }

    fn convert(&mut self, dtype: DType) -> Result<(), String> {
        for tensor in [&mut self.q, &mut self.k, &mut self.v] {
            let converted = tensor.converted(dtype)?;
            let same =
                |(a, b): (f32, f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            self.rounded |= !tensor.values().into_iter().zip(converted.values()).all(same);
            *tensor = converted;
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a scale is an f32; the graph refuses infinity"
)]
fn softmax_scale(metadata: &Metadata) -> Result<Option<f32>, String> {
    let strings = metadata.metadata().as_ref();
    let Some(text) = strings.and_then(|strings| strings.get("softmax_scale")) else {
        return Ok(None);
    };
    match text.parse::<f64>() {
        Ok(scale) => Ok(Some(scale as f32)),
        Err(error) => Err(format!("metadata softmax_scale `{text}`: {error}")),
    }
}
