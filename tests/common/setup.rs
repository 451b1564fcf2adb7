//! Two calls of packed-length setup over one graph, which differ in what is on the device alone.

use frazil_conformance::seqlens::{Content, Problem, SideProblem};
use frazil_core::LengthBounds;

/// Both sides packed; the second problem has lengths and starts outside of their bounds.
pub(crate) fn problems() -> [Problem; 2] {
    let q = [vec![3, 0, 7, 2], vec![5, 1, 90, 4]];
    let kv = [(vec![9, 0, 20, 31], vec![8, 3, 10, 1]), (vec![0, 70, 11, -3], vec![2, 9, -4, 6])];
    let packed = |content| SideProblem {
        content,
        bounds: LengthBounds { min: 0, max: 10 },
        max_total: 40,
        rows: [40; 3],
        spare_rows: 0,
        int_stride: 1,
        repeated: false,
    };
    [0, 1].map(|at| {
        let (starts, lengths) = kv[at].clone();
        Problem {
            batch: 4,
            spare_batch: 0,
            num_heads: 1,
            band: None,
            q: packed(Content::PackedLengths(q[at].clone())),
            kv: packed(Content::PackedStarts { starts, lengths }),
        }
    })
}
