//! One configuration of the peer's tests, as its file says it.

use frazil_core::{Align, DType};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fields::{FieldError, Fields};
use crate::rules::Family;

/// Rows of each sequence of both sides.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    pub(super) q: Vec<i32>,
    pub(super) kv: Vec<i32>,
}

/// Where rows lie, with what the form needs to be understood.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Dense,
    Padded(Lengths),
    Ragged(Lengths),
    Paged { lengths: Lengths, page_size: u64, ragged_q: bool },
}

/// Strides `[B, H, S, D]`, as given.
#[derive(Clone, Debug)]
pub(super) struct Strides {
    pub(super) q: [i64; 4],
    pub(super) k: [i64; 4],
    pub(super) v: [i64; 4],
    pub(super) o: [i64; 4],
    pub(super) stats: [i64; 4],
}

/// A line with its fields in their types; shapes have been checked against the extents.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) family: Family,
    pub(super) dtype: DType,
    pub(super) o_dtype: DType,
    pub(super) seed: u64,
    pub(super) batch: u64,
    pub(super) head_dim_qk: u64,
    pub(super) head_dim_v: u64,
    pub(super) seqlen_q: u64,
    pub(super) seqlen_kv: u64,
    pub(super) num_q_heads: u64,
    pub(super) num_k_heads: u64,
    pub(super) num_v_heads: u64,
    pub(super) form: Form,
    pub(super) strides: Strides,
    pub(super) align: Align,
    pub(super) left_bound: Option<u32>,
    pub(super) right_bound: Option<u32>,
    pub(super) bias: bool,
    pub(super) alibi: bool,
    pub(super) sink: bool,
    pub(super) dropout: Option<f32>,
    pub(super) block_mask: bool,
    pub(super) lse: bool,
    pub(super) max: bool,
    pub(super) sum_exp: bool,
}

/// The peer's names of element types.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PeerType {
    Float16,
    Bfloat16,
    Float32,
    #[serde(rename = "float8_e4m3fn")]
    E4m3,
    #[serde(rename = "float8_e5m2")]
    E5m2,
}

impl From<PeerType> for DType {
    fn from(of: PeerType) -> Self {
        match of {
            PeerType::Float16 => Self::F16,
            PeerType::Bfloat16 => Self::Bf16,
            PeerType::Float32 => Self::F32,
            PeerType::E4m3 => Self::F8E4m3,
            PeerType::E5m2 => Self::F8E5m2,
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum PeerAlign {
    TopLeft,
    BottomRight,
}

impl Row {
    /// Takes every field of a line.
    pub(super) fn read(fields: Map<String, Value>) -> Result<Self, FieldError> {
        let mut fields = Fields(fields);
        fields.ignore::<String>(&["suite"])?;
        fields.ignore::<bool>(&["is_determin", "with_unfuse_fma", "is_mxfp8"])?;
        fields.ignore::<f64>(&["rescale_threshold"])?;
        let id = fields.required("id")?;
        let family = fields.required("family")?;
        let dtype: PeerType = fields.required("data_type")?;
        let o_dtype = fields.optional("output_type")?.unwrap_or(dtype);
        let batch = fields.required("batches")?;
        let align = match fields.required("diag_align")? {
            PeerAlign::TopLeft => Align::TopLeft,
            PeerAlign::BottomRight => Align::BottomRight,
        };
        let left_bound = fields.optional("left_bound")?;
        if left_bound == Some(0) {
            return Err(FieldError::new(
                "left_bound",
                "0 is below the least, 1: the diagonal's key",
            ));
        }
        let dropout_prob = fields.optional("dropout_prob")?;
        let is_dropout = fields.flag("is_dropout")?;
        let row = Self {
            id,
            family,
            dtype: dtype.into(),
            o_dtype: o_dtype.into(),
            seed: fields.required("rng_data_seed")?,
            batch,
            head_dim_qk: fields.required("d_qk")?,
            head_dim_v: fields.required("d_v")?,
            seqlen_q: fields.required("s_q")?,
            seqlen_kv: fields.required("s_kv")?,
            num_q_heads: fields.required("h_q")?,
            num_k_heads: fields.required("h_k")?,
            num_v_heads: fields.required("h_v")?,
            form: read_form(&mut fields, batch)?,
            strides: Strides {
                q: fields.required("stride_q")?,
                k: fields.required("stride_k")?,
                v: fields.required("stride_v")?,
                o: fields.required("stride_o")?,
                stats: fields.required("stride_stats")?,
            },
            align,
            left_bound,
            right_bound: fields.optional("right_bound")?,
            bias: fields.flag("is_bias")?,
            alibi: fields.flag("is_alibi")?,
            sink: fields.flag("with_sink_token")?,
            dropout: is_dropout.then(|| dropout_prob.unwrap_or(PEER_DROPOUT)),
            block_mask: fields.flag("is_block_mask")?,
            // The exporter dropped false: a row without `is_infer` is a training forward.
            lse: !fields.flag("is_infer")?,
            max: fields.flag("with_score_max")?,
            sum_exp: fields.flag("with_score_sum_exp")?,
        };
        row.check_shapes(&mut fields)?;
        fields.finish()?;
        Ok(row)
    }

    /// Shapes repeat the extents; a row where they do not is misread.
    fn check_shapes(&self, fields: &mut Fields) -> Result<(), FieldError> {
        let Self { batch, num_q_heads, num_k_heads, num_v_heads, .. } = *self;
        let (q, kv, d_qk, d_v) = (self.seqlen_q, self.seqlen_kv, self.head_dim_qk, self.head_dim_v);
        let expected = [
            ("shape_q", [batch, num_q_heads, q, d_qk]),
            ("shape_k", [batch, num_k_heads, kv, d_qk]),
            ("shape_v", [batch, num_v_heads, kv, d_v]),
            ("shape_o", [batch, num_q_heads, q, d_v]),
            ("shape_stats", [batch, num_q_heads, q, 1]),
        ];
        for (name, expected) in expected {
            let found: [u64; 4] = fields.required(name)?;
            if found != expected {
                let reason = format!("is {found:?}, the extents say {expected:?}");
                return Err(FieldError::new(name, reason));
            }
        }
        Ok(())
    }
}

/// Probability of every dropout of the peer's tests.
const PEER_DROPOUT: f32 = 0.1;

/// The storage that the flags ask for. Lengths without `is_padding` and a page size without
/// `is_paged` have no effect, as in the peer.
fn read_form(fields: &mut Fields, batch: u64) -> Result<Form, FieldError> {
    let padding = fields.flag("is_padding")?;
    let ragged = fields.flag("is_ragged")?;
    let paged = fields.flag("is_paged")?;
    let page_size: Option<u64> = fields.optional("block_size")?;
    let q: Option<Vec<i32>> = fields.optional("seq_len_q")?;
    let kv: Option<Vec<i32>> = fields.optional("seq_len_kv")?;
    if !padding {
        if ragged || paged {
            return Err(FieldError::new(
                "is_padding",
                "must be set with `is_ragged` and `is_paged`",
            ));
        }
        return Ok(Form::Dense);
    }
    let present = |name, lengths: Option<Vec<i32>>| {
        let lengths = lengths.ok_or_else(|| FieldError::new(name, "is missing"))?;
        if lengths.len() as u64 == batch {
            return Ok(lengths);
        }
        let reason = format!("has {} entries for {batch} sequences", lengths.len());
        Err(FieldError::new(name, reason))
    };
    let lengths = Lengths { q: present("seq_len_q", q)?, kv: present("seq_len_kv", kv)? };
    Ok(match (ragged, paged) {
        (false, false) => Form::Padded(lengths),
        (true, false) => Form::Ragged(lengths),
        (ragged_q, true) => {
            let page_size = page_size.ok_or_else(|| FieldError::new("block_size", "is missing"))?;
            Form::Paged { lengths, page_size, ragged_q }
        }
    })
}
