//! How much there is to compute.

use super::{Case, SideCase};

impl Case {
    /// Floating-point operations on live rows, a multiplication and an addition being two; the
    /// band, which saves some of them, is not looked at. At most `u64::MAX`.
    pub fn live_flops(&self) -> u64 {
        let (q, kv) = (self.q.live_lengths(), self.kv.live_lengths());
        let at = |lengths: &Option<Vec<u64>>, b: usize, extent: u64| match lengths {
            Some(lengths) => lengths.get(b).copied().unwrap_or(0).min(extent),
            None => extent,
        };
        let pairs: u64 = match (&q, &kv) {
            (None, None) => product([self.batch, self.seqlen_q, self.seqlen_kv]),
            // Whoever lists lengths lists one for each sequence.
            (Some(list), _) | (None, Some(list)) => (0..list.len())
                .map(|b| product([at(&q, b, self.seqlen_q), at(&kv, b, self.seqlen_kv)]))
                .fold(0, u64::saturating_add),
        };
        let columns = self.head_dim_qk.saturating_add(self.head_dim_v());
        product([2, columns, self.num_q_heads, pairs])
    }
}

/// Saturates: what no machine can compute is a lot.
fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

impl SideCase {
    /// Rows of each sequence, negative ones as 0; `None` where every row of the extents is live.
    pub(crate) fn live_lengths(&self) -> Option<Vec<u64>> {
        let count = |length: i64| u64::try_from(length).unwrap_or(0);
        match self {
            Self::Dense => None,
            Self::PackedPrefix { prefix: Some(prefix), .. } => {
                let length = |pair: &[i32]| count(i64::from(pair[1]) - i64::from(pair[0]));
                Some(prefix.windows(2).map(length).collect())
            }
            Self::Padded { lengths, .. }
            | Self::PackedLengths { lengths, .. }
            | Self::PackedPrefix { lengths, .. }
            | Self::PackedStarts { lengths, .. }
            | Self::Paged { lengths, .. } => {
                Some(lengths.iter().map(|&length| count(length.into())).collect())
            }
        }
    }
}
