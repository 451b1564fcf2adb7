//! Attention forward.

use super::RankRow;

/// Best first where several match.
pub(super) const ROWS: &[RankRow] = &[
    // The only engine of ours for the host; nothing to measure it against.
    RankRow { engine: "sdpa_fwd_cpu", when: |_, _| true, score: 0, measured: None },
    // The universal engine for GPUs, and the only one of ours: nothing to measure it against.
    RankRow { engine: "sdpa_fwd_sm80", when: |_, _| true, score: 0, measured: None },
];
