//! A cell: one problem that engines are timed on.

use std::fmt;
use std::str::FromStr;

use frazil::{Align, Band, DType};
use frazil_conformance::case::{Case, PageOrder, SideCase, SinkCase};
use serde::{Deserialize, Serialize};

/// One problem, and what it is called.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// `preset/group/shape`, unique among all presets.
    pub(super) config: String,
    /// The model that has this shape; may be empty.
    pub(super) model: String,
    pub(super) dtype: DType,
    pub(super) mask: Mask,
    pub(super) sink: bool,
    pub(super) shape: Shape,
}

/// Extents and storage.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub(super) batch: u64,
    /// Rows of Q of a sequence; packed: the greatest length declared.
    pub(super) seqlen_q: u64,
    /// The same of K and V.
    pub(super) seqlen_kv: u64,
    pub(super) num_q_heads: u64,
    pub(super) num_kv_heads: u64,
    pub(super) head_dim_qk: u64,
    pub(super) head_dim_v: u64,
    /// Packed sequences, Q and K alike: name and lengths.
    pub(super) packed: Option<(String, Vec<u64>)>,
    /// K and V in pages of that many rows.
    pub(super) page_size: Option<u64>,
}

/// Keys that a query sees, as it is written in files: `none`, `causal`, `window_128` (128 keys, the
/// query's own position included).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) enum Mask {
    None,
    Causal,
    Window(u32),
}

impl Mask {
    pub(super) fn band(self) -> Option<Band> {
        let left = match self {
            Self::None => return None,
            Self::Causal => None,
            Self::Window(keys) => Some(keys - 1),
        };
        Some(Band { align: Align::BottomRight, left, right: Some(0) })
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Causal => f.pad("causal"),
            Self::Window(keys) => f.pad(&format!("window_{keys}")),
        }
    }
}

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let window = || text.strip_prefix("window_")?.parse().ok().filter(|&keys| keys > 0);
        match text {
            "none" => Ok(Self::None),
            "causal" => Ok(Self::Causal),
            _ => window()
                .map(Self::Window)
                .ok_or_else(|| format!("mask `{text}` is not none, causal or window_KEYS")),
        }
    }
}

impl TryFrom<String> for Mask {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Mask> for String {
    fn from(mask: Mask) -> Self {
        mask.to_string()
    }
}

impl Cell {
    pub(super) fn new(
        group: &str,
        model: &str,
        dtype: DType,
        (mask, sink): (Mask, bool),
        shape: Shape,
    ) -> Self {
        let mask_name = match mask {
            Mask::None => "full".to_owned(),
            mask => mask.to_string(),
        };
        let config = format!("{group}/{shape}_{mask_name}");
        Self { config, model: model.into(), dtype, mask, sink, shape }
    }

    /// The problem as a case of the conformance suite, with values of that seed.
    pub(super) fn case(&self, seed: u64) -> Case {
        let shape = &self.shape;
        Case {
            name: self.config.clone(),
            note: None,
            dtype: self.dtype,
            o_dtype: None,
            batch: shape.batch,
            num_q_heads: shape.num_q_heads,
            num_kv_heads: shape.num_kv_heads,
            num_v_heads: None,
            head_dim_qk: shape.head_dim_qk,
            head_dim_v: Some(shape.head_dim_v),
            seqlen_q: shape.seqlen_q,
            seqlen_kv: shape.seqlen_kv,
            q: shape.q_side(),
            kv: shape.kv_side(),
            softmax_scale: None,
            band: self.mask.band(),
            soft_cap: None,
            bias: None,
            alibi: None,
            sink: self.sink.then_some(SinkCase::AsInputs),
            dropout: None,
            block_mask: false,
            lse: None,
            max: false,
            sum_exp: false,
            row_outputs: Default::default(),
            place: Default::default(),
            declared: None,
            values: Default::default(),
            seed,
            error_word: Vec::new(),
            answers: Default::default(),
        }
    }
}

impl Shape {
    /// Live rows of Q and of K and V of each sequence.
    pub(super) fn lengths(&self) -> Vec<(u64, u64)> {
        match &self.packed {
            Some((_, lengths)) => lengths.iter().map(|&length| (length, length)).collect(),
            None => (0..self.batch).map(|_| (self.seqlen_q, self.seqlen_kv)).collect(),
        }
    }

    /// How the tensors are stored, as it is written in files.
    pub(super) fn storage(&self) -> String {
        match (&self.packed, self.page_size) {
            (Some(_), _) => "packed".into(),
            (None, Some(page_size)) => format!("paged_{page_size}"),
            (None, None) => "dense".into(),
        }
    }

    fn q_side(&self) -> SideCase {
        let Some((_, lengths)) = &self.packed else { return SideCase::Dense };
        SideCase::PackedPrefix {
            lengths: lengths.iter().map(|&length| signed(length)).collect(),
            base: 0,
            prefix: None,
            max_total: None,
            capacity: None,
        }
    }

    fn kv_side(&self) -> SideCase {
        let Some(page_size) = self.page_size else { return self.q_side() };
        SideCase::Paged {
            lengths: (0..self.batch).map(|_| signed(self.seqlen_kv)).collect(),
            page_size,
            num_pages: None,
            one_table: true,
            table: Default::default(),
            pool: Default::default(),
            pages: PageOrder::Shuffled,
        }
    }
}

/// Lengths are int32 on devices; presets stay far below.
fn signed(length: u64) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// `d128_h32x8_b1_s4096`: head dim (that of V after an `x` where it differs), heads of Q and of K
/// and V, batch, rows; `q1` before the rows where Q has others.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.head_dim_qk)?;
        if self.head_dim_v != self.head_dim_qk {
            write!(f, "x{}", self.head_dim_v)?;
        }
        write!(f, "_h{}", self.num_q_heads)?;
        if self.num_kv_heads != self.num_q_heads {
            write!(f, "x{}", self.num_kv_heads)?;
        }
        if let Some((name, lengths)) = &self.packed {
            write!(f, "_{name}")?;
            if lengths.iter().max() != Some(&self.seqlen_kv) {
                write!(f, "_max{}", self.seqlen_kv)?;
            }
            return Ok(());
        }
        write!(f, "_b{}", self.batch)?;
        if self.seqlen_q != self.seqlen_kv {
            write!(f, "_q{}", self.seqlen_q)?;
        }
        write!(f, "_s{}", self.seqlen_kv)?;
        self.page_size.map_or(Ok(()), |page_size| write!(f, "_page{page_size}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_as_they_are_written() {
        for mask in [Mask::None, Mask::Causal, Mask::Window(128)] {
            assert_eq!(mask.to_string().parse(), Ok(mask));
        }
        for bad in ["", "full", "window_0", "window_-1", "window_"] {
            assert!(bad.parse::<Mask>().is_err(), "{bad}");
        }
        // A window of W keys has W - 1 before the query's own.
        assert_eq!(Mask::Window(128).band().unwrap().left, Some(127));
    }
}
