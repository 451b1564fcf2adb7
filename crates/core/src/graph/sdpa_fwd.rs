//! Attention forward as a caller declares it.

use serde::{Deserialize, Serialize};

use crate::TensorId;

/// Which corner of the score matrix the diagonal of a band starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Query 0 meets key 0: `off = 0`.
    TopLeft,
    /// The last query meets the last key: `off = Lk - Lq`, per sequence, and may be negative.
    BottomRight,
}

impl Align {
    /// `off`: the key on the diagonal of query 0, for a sequence of these lengths.
    pub fn offset(self, len_q: i64, len_kv: i64) -> i64 {
        match self {
            Self::TopLeft => 0,
            Self::BottomRight => len_kv - len_q,
        }
    }
}

/// Keys that a query may see: `i + off - left <= j <= i + off + right`, both ends inclusive.
///
/// `off` comes from [`Align`] and the lengths of each sequence. `None` leaves a side open. Causal
/// is `right = 0`; a Hugging Face `sliding_window = W` is `left = W - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Where the diagonal starts.
    pub align: Align,
    /// Keys before the diagonal; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// Keys after the diagonal; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<u32>,
}

impl Band {
    /// No key after the diagonal.
    pub fn causal(align: Align) -> Self {
        Self { align, left: None, right: Some(0) }
    }

    /// The diagonal's key and the `window - 1` before it, as `sliding_window` in model configs.
    pub fn sliding_window(align: Align, window: std::num::NonZeroU32) -> Self {
        Self { align, left: Some(window.get() - 1), right: Some(0) }
    }

    /// Whether any key can be hidden. A band without bounds only lends its alignment to ALiBi.
    pub fn is_bounded(&self) -> bool {
        self.left.is_some() || self.right.is_some()
    }
}

/// Limits of the lengths in a device tensor, known on the host, in rows.
///
/// A length above `max` is clamped to it and a bit of the plan's error word is set; one below `min`
/// only sets the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthBounds {
    /// Least length of a sequence.
    #[serde(default)]
    pub min: u32,
    /// Greatest length of a sequence.
    pub max: u32,
}

impl LengthBounds {
    /// Lengths from 0 to `max`.
    pub fn up_to(max: u32) -> Self {
        Self { min: 0, max }
    }
}

/// How the rows of a packed batch are found. All tensors are int32 and count rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sequences {
    /// `lengths[B]`: sequence `b` starts at the sum of the lengths before it, as the tensor gives
    /// them: one above its bound still moves what follows by all of itself, a negative one by 0.
    Lengths(TensorId),
    /// `prefix[B+1]`: length `prefix[b+1] - prefix[b]`, first row `prefix[b] - prefix[0]`.
    Prefix(TensorId),
    /// `starts[B]` and `lengths[B]`: sequences with gaps between them; nothing is subtracted.
    Starts {
        /// First row of each sequence.
        starts: TensorId,
        /// Rows of each sequence.
        lengths: TensorId,
    },
}

/// How the rows of one side (Q and O; or K and V) are stored.
///
/// | variant | Q, K, V and O | rows that count |
/// |---|---|---|
/// | `Dense` | `[B, H, S, D]` | all `S` |
/// | `Padded` | `[B, H, S, D]` | the first `lengths[b]` |
/// | `Packed` | `[T, H, D]` | those of [`Sequences`] |
/// | `Paged` | pools `[N, H, page_size, D]` | the first `lengths[b]` of the sequence |
///
/// The names of axes give their order in the extents; strides are free, so a token-major
/// `[B, S, H, D]` buffer is `[B, H, S, D]` with other strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Storage {
    /// Every row of the extents is live.
    Dense,
    /// A batch padded to one extent.
    Padded {
        /// int32 `[B]`.
        lengths: TensorId,
        /// Limits of a length; `max` is at most the extent.
        bounds: LengthBounds,
    },
    /// Sequences one after another in a buffer of `T` rows.
    Packed {
        /// Where each sequence starts and how long it is.
        sequences: Sequences,
        /// Limits of a length.
        bounds: LengthBounds,
        /// Limit of the sum of the lengths; for [`Sequences::Starts`], of the rows they reach.
        max_total: u32,
    },
    /// K and V in pages; row `t` of sequence `b` is row `t % page_size` of page
    /// `table[b][t / page_size]`. Entries past the last live page are never read.
    Paged {
        /// int32 `[B, P]`, pages of K.
        table_k: TensorId,
        /// int32 `[B, P]`, pages of V; may be the same tensor as `table_k`.
        table_v: TensorId,
        /// int32 `[B]`.
        lengths: TensorId,
        /// Limits of a length; `max` is at most `P * page_size`.
        bounds: LengthBounds,
    },
}

/// Logarithm in which a log-sum-exp is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LseForm {
    /// Natural: `ln sum exp(s)`.
    Natural,
    /// Base two: the natural form divided by `ln 2`.
    Base2,
}

/// Bits of a block mask that hide whole tiles of 128 queries by 128 keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockMask {
    /// u8 `[B, Hq, ceil(Sq/128), ceil(ceil(Skv/128)/8)]`, bit `t` (lowest first) one tile of keys;
    /// 1 = attend.
    pub bits: TensorId,
}

/// Dropout of attention weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability that a weight is dropped, in `0.0..1.0`.
    pub probability: f32,
    /// int64 `[1]`.
    pub seed: TensorId,
    /// int64 `[1]`.
    pub offset: TensorId,
}

/// Attention forward: `O = softmax(mask(modify(scale * Q K^T))) V`, grouped query heads allowed.
///
/// Order of the score modifiers: scale, soft cap, bias, ALiBi, then the band by select, then
/// softmax with the sink in the denominator.
///
/// | tensor | extents | type |
/// |---|---|---|
/// | `q` | see [`Storage`], heads `Hq`, columns `Dqk` | any float |
/// | `k`, `v` | see [`Storage`], heads `Hkv`, columns `Dqk` and `Dv` | any float |
/// | `o` | as `q`, columns `Dv` | its own |
/// | `bias` | `[B or 1, Hq or 1, Sq, Skv]` | f32 or `q`'s |
/// | `alibi_slopes` | `[Hq]` or `[B, Hq]` | f32 |
/// | `sink` | `[Hq]` | f32 |
/// | `lse`, `max`, `sum_exp` | `[B, Hq, Sq]`, or `[T, Hq]` for packed Q | f32 |
///
/// With no visible key `O = +0`, `LSE = -inf` (with a sink `s`: `O = 0`, `LSE = s`).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct SdpaFwd {
    pub(crate) q: TensorId,
    pub(crate) k: TensorId,
    pub(crate) v: TensorId,
    pub(crate) o: TensorId,
    pub(crate) q_storage: Storage,
    pub(crate) kv_storage: Storage,
    pub(crate) softmax_scale: Option<f32>,
    pub(crate) band: Option<Band>,
    pub(crate) soft_cap: Option<f32>,
    pub(crate) bias: Option<TensorId>,
    pub(crate) alibi_slopes: Option<TensorId>,
    pub(crate) sink: Option<TensorId>,
    pub(crate) block_mask: Option<BlockMask>,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) lse: Option<(TensorId, LseForm)>,
    pub(crate) max: Option<TensorId>,
    pub(crate) sum_exp: Option<TensorId>,
}

impl SdpaFwd {
    /// Dense attention with the default scale `1/sqrt(Dqk)` and no mask.
    pub fn new(q: TensorId, k: TensorId, v: TensorId, o: TensorId) -> Self {
        Self {
            q,
            k,
            v,
            o,
            q_storage: Storage::Dense,
            kv_storage: Storage::Dense,
            softmax_scale: None,
            band: None,
            soft_cap: None,
            bias: None,
            alibi_slopes: None,
            sink: None,
            block_mask: None,
            dropout: None,
            lse: None,
            max: None,
            sum_exp: None,
        }
    }

    /// How Q and O, and how K and V are stored.
    pub fn storage(mut self, q: Storage, kv: Storage) -> Self {
        self.q_storage = q;
        self.kv_storage = kv;
        self
    }

    /// Factor of `q . k`: any finite number, zero and negative included.
    pub fn softmax_scale(mut self, scale: f32) -> Self {
        self.softmax_scale = Some(scale);
        self
    }

    /// Hides the keys outside a band.
    pub fn band(mut self, band: Band) -> Self {
        self.band = Some(band);
        self
    }

    /// Replaces a scaled score `s` by `cap * tanh(s / cap)`; `cap` is positive and finite.
    pub fn soft_cap(mut self, cap: f32) -> Self {
        self.soft_cap = Some(cap);
        self
    }

    /// Adds `bias[b, h, i, j]` to the scores.
    pub fn bias(mut self, bias: TensorId) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Adds `-slope[h] * |i + off - j|`, `off` as in the band's alignment (0 without a band).
    pub fn alibi(mut self, slopes: TensorId) -> Self {
        self.alibi_slopes = Some(slopes);
        self
    }

    /// Adds `exp(sink[h])` to the denominator: a raw logit, neither scaled nor capped.
    pub fn sink(mut self, sink: TensorId) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Hides tiles by bits. Declared only: no engine serves it yet.
    pub fn block_mask(mut self, mask: BlockMask) -> Self {
        self.block_mask = Some(mask);
        self
    }

    /// Drops weights at random. Declared only: no engine serves it yet.
    pub fn dropout(mut self, dropout: Dropout) -> Self {
        self.dropout = Some(dropout);
        self
    }

    /// Asks for the log-sum-exp of each row's scores, sink included.
    pub fn lse(mut self, lse: TensorId, form: LseForm) -> Self {
        self.lse = Some((lse, form));
        self
    }

    /// Asks for the greatest final score of each row's visible keys and the sink.
    pub fn max(mut self, max: TensorId) -> Self {
        self.max = Some(max);
        self
    }

    /// Asks for the sum of `exp(score - max)` over each row's visible keys and the sink.
    pub fn sum_exp(mut self, sum_exp: TensorId) -> Self {
        self.sum_exp = Some(sum_exp);
        self
    }
}

/// ALiBi slopes for `num_heads` heads: `2^(-8h/n)` for `h = 1..=n` where `n` is a power of two,
/// else the slopes of the power of two below, filled up with every second one of the power above
/// (Press et al., "Train Short, Test Long", arXiv:2108.12409, and its reference code).
pub fn alibi_slopes(num_heads: u32) -> Vec<f32> {
    let series = |n: u32, step: usize, count: u32| {
        (1..=n)
            .step_by(step)
            .take(count as usize)
            .map(move |h| (-8.0 * f64::from(h) / f64::from(n)).exp2())
    };
    let below = 1_u32 << num_heads.max(1).ilog2();
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the type of the slopes")]
    series(below, 1, num_heads)
        .chain(series(2 * below, 2, num_heads.saturating_sub(below)))
        .map(|slope| slope as f32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_follow_the_paper() {
        assert_eq!(alibi_slopes(8)[..3], [0.5, 0.25, 0.125]);
        assert_eq!(alibi_slopes(8)[7], 1.0 / 256.0);
        // 12 heads: the 8 of n = 8, then the 1st, 3rd, 5th and 7th of n = 16.
        let twelve = alibi_slopes(12);
        assert_eq!(twelve.len(), 12);
        assert_eq!(twelve[..8], alibi_slopes(8));
        assert_eq!(
            twelve[8..],
            [0.5_f32.sqrt(), 0.5_f32.powf(1.5), 0.5_f32.powf(2.5), 0.5_f32.powf(3.5)]
        );
        assert!(alibi_slopes(0).is_empty());
    }
}
