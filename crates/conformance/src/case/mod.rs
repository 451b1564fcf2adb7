//! Cases: attention forward written down as data, independent of any engine.
//!
//! A case says what is asked (extents, storage, modifiers), what the inputs hold, and what every
//! engine answers. [`CaseFile`] is the TOML form; the peer's JSON lines become the same type.

mod finite;
mod place;
mod read;
mod storage;
mod work;

use std::collections::BTreeMap;

use frazil_core::{Band, DType, LseForm};
use serde::{Deserialize, Serialize};

pub use place::{Place, Places};
pub use read::CaseFileError;
pub use storage::{PageOrder, PoolOrder, SideCase, TableOrder};

/// A file of cases.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The cases.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// One attention forward: the question, its inputs, and the answers.
///
/// Absent fields mean the plain thing: no mask, no modifier, no extra output, contiguous
/// `[B, H, S, D]` tensors, standard normal values.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it probes, in words joined by underscores; unique within a file.
    pub name: String,
    /// Why it exists: the symptom and its source, for cases from the bug log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,

    /// Type of Q, K and V.
    pub dtype: DType,
    /// Type of O; absent: as `dtype`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub o_dtype: Option<DType>,
    /// Sequences.
    pub batch: u64,
    /// Heads of Q and O.
    pub num_q_heads: u64,
    /// Heads of K and V.
    pub num_kv_heads: u64,
    /// Heads of V, where a graph is meant to contradict itself; absent: as `num_kv_heads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_v_heads: Option<u64>,
    /// Columns of Q and K.
    pub head_dim_qk: u64,
    /// Columns of V and O; absent: as `head_dim_qk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim_v: Option<u64>,
    /// Rows of Q per sequence (dense, padded), or the greatest length (packed).
    pub seqlen_q: u64,
    /// Rows of K and V per sequence (dense, padded), or the greatest length (packed, paged).
    pub seqlen_kv: u64,
    /// How Q and O are stored.
    #[serde(default, skip_serializing_if = "SideCase::is_dense")]
    pub q: SideCase,
    /// How K and V are stored.
    #[serde(default, skip_serializing_if = "SideCase::is_dense")]
    pub kv: SideCase,

    /// Factor of `q . k`; absent: the builder's default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "finite::softmax_scale"
    )]
    pub softmax_scale: Option<f32>,
    /// Keys that queries see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// `cap * tanh(s / cap)`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "finite::soft_cap"
    )]
    pub soft_cap: Option<f32>,
    /// A tensor added to the scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<BiasCase>,
    /// Slopes of the distance penalty; the values are `alibi_slopes(num_q_heads)`, scaled by a
    /// factor that differs per sequence where they are per sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibi: Option<AlibiCase>,
    /// A logit of the denominator per head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkCase>,
    /// Declares dropout of that probability.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "finite::dropout"
    )]
    pub dropout: Option<f32>,
    /// Declares a block mask.
    #[serde(default, skip_serializing_if = "is_false")]
    pub block_mask: bool,

    /// Asks for the log-sum-exp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lse: Option<LseForm>,
    /// Asks for the greatest score.
    #[serde(default, skip_serializing_if = "is_false")]
    pub max: bool,
    /// Asks for the sum of exponentials.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sum_exp: bool,
    /// Layout of LSE, max and sum-exp.
    #[serde(default, skip_serializing_if = "RowLayout::is_default")]
    pub row_outputs: RowLayout,

    /// Strides, buffers and alignments that are not the plain ones.
    #[serde(default, skip_serializing_if = "Places::is_empty")]
    pub place: Places,
    /// Extents of the declaration where the case runs with smaller ones, given at execute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredCase>,

    /// What the inputs hold.
    #[serde(default, skip_serializing_if = "Values::is_default")]
    pub values: Values,
    /// Seed of the inputs.
    #[serde(default)]
    pub seed: u64,
    /// Bits that the error word must hold, by name (`q_length`, `kv_length`, `q_rows`, `kv_rows`,
    /// `page_k`, `page_v`); empty: it must be 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_word: Vec<String>,

    /// What each engine answers on its own kind of device: `served`, or the kind of
    /// [`Unsupported`](frazil_core::Unsupported), for a feature as `Feature(dropout)`. Of an engine that
    /// is not named, any answer will do, and what it serves must be right.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, String>,
}

/// A bias `[B or 1, Hq or 1, Sq, Skv]`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BiasCase {
    /// Its type: f32 or the type of Q.
    pub dtype: DType,
    /// Whether each sequence has its own.
    #[serde(default)]
    pub per_batch: bool,
    /// Whether each head has its own.
    #[serde(default)]
    pub per_head: bool,
    /// What it holds.
    #[serde(default)]
    pub values: BiasValues,
}

/// What a bias holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BiasValues {
    /// As the case's inputs.
    #[default]
    AsInputs,
    /// -inf in every entry of the first query row, else 0: a row masked by its bias alone.
    FirstRowMinusInf,
    /// -inf for about half of the entries, else as the inputs.
    HalfMinusInf,
    /// -1e9 for about half of the entries, else as the inputs: masked by a number, as callers do
    /// that have no mask. For f32 and bf16, whose range it is in.
    #[serde(rename = "half_minus_1e9")]
    HalfMinus1e9,
}

/// Extents of ALiBi slopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlibiCase {
    /// `[Hq]`.
    PerHead,
    /// `[B, Hq]`.
    PerBatchAndHead,
}

/// What the sink holds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkCase {
    /// As the case's inputs.
    AsInputs,
    /// One number for every head.
    Constant(#[serde(deserialize_with = "finite::constant")] f32),
}

/// Layout of LSE, max and sum-exp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowLayout {
    /// `[B, Hq, Sq]` contiguous for dense and padded Q, `[T, Hq]` token-major for packed Q.
    #[default]
    Natural,
    /// `[T, Hq]` with strides `(1, pitch)`: one run of rows per head.
    HeadMajor {
        /// Rows from one head to the next.
        pitch: u64,
    },
    /// `[B, Hq, Sq]` for packed Q.
    Padded,
}

/// Extents of the declaration of a case that runs overridden.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredCase {
    /// Sequences declared.
    pub batch: u64,
    /// As [`Case::seqlen_q`].
    pub seqlen_q: u64,
    /// As [`Case::seqlen_kv`].
    pub seqlen_kv: u64,
}

/// What Q, K and V (and the bias and sink that follow them) hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Standard normal.
    #[default]
    Normal,
    /// Four fifths zeros, else integers from -2 to 2, as the peer's tests.
    SparseInts,
    /// Normal Q and K; row `j` of V is 1 in column `j % Dv` and 0 elsewhere, so that O shows which
    /// keys were seen.
    OneHotV,
    /// Normal times 8: scores far apart.
    Large,
    /// V holds 7 everywhere: a mean of V is 7, and a dead row is 0.
    ConstantV,
    /// Q and K so that every score is strongly negative: LSE far below zero.
    NegativeScores,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl RowLayout {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Values {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Case {
    /// Columns of V and O.
    pub fn head_dim_v(&self) -> u64 {
        self.head_dim_v.unwrap_or(self.head_dim_qk)
    }

    /// Heads of V: those of K in every graph that means something.
    pub fn num_v_heads(&self) -> u64 {
        self.num_v_heads.unwrap_or(self.num_kv_heads)
    }

    /// Type of O.
    pub fn o_dtype(&self) -> DType {
        self.o_dtype.unwrap_or(self.dtype)
    }
}
