//! Sequences with gaps, hostile integers, other strides at execute.

#![expect(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{K, Problem, Q, V, assert_near, number};
use frazil_core::{
    Bindings, Buffer, DType, ErrorWord, Geometry, Graph, GraphBuilder, LengthBounds, LseForm,
    SdpaFwd, Sequences, Storage, TensorId, TensorSpec,
};

const POISON: f32 = 777.0;
/// Columns, heads of Q, rows of the buffers of Q and of K.
const D: usize = 8;
const H: usize = 2;
const CAPACITY: (usize, usize) = (40, 60);
const BATCH: usize = 3;
const LSE_ROWS: usize = 16;

struct Gaps {
    graph: Graph,
    /// q, k, v, o, lse, then starts and lengths of Q and of K.
    ids: [TensorId; 9],
}

/// Both sides packed by starts and lengths, LSE `[B, H, S]`.
fn gaps() -> Gaps {
    let mut graph = GraphBuilder::new();
    let mut tensor = |name, dtype, extents: &[usize]| {
        let extents: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
        graph.tensor(TensorSpec::contiguous(name, dtype, extents).align(4)).unwrap()
    };
    let q = tensor("q", DType::F32, &[CAPACITY.0, H, D]);
    let k = tensor("k", DType::F32, &[CAPACITY.1, 1, D]);
    let v = tensor("v", DType::F32, &[CAPACITY.1, 1, D]);
    let o = tensor("o", DType::F32, &[CAPACITY.0, H, D]);
    let lse = tensor("lse", DType::F32, &[BATCH, H, LSE_ROWS]);
    let ints = ["q_starts", "q_lengths", "kv_starts", "kv_lengths"]
        .map(|name| tensor(name, DType::I32, &[BATCH]));
    let packed = |starts, lengths, max, max_total: usize| Storage::Packed {
        sequences: Sequences::Starts { starts, lengths },
        bounds: LengthBounds::up_to(max),
        max_total: max_total as u32,
    };
    let on_q = packed(ints[0], ints[1], LSE_ROWS as u32 - 3, CAPACITY.0 - 2);
    let on_kv = packed(ints[2], ints[3], 50, CAPACITY.1);
    let op = SdpaFwd::new(q, k, v, o).storage(on_q, on_kv).lse(lse, LseForm::Natural);
    graph.sdpa_fwd(op).unwrap();
    graph.overridable();
    let [a, b, c, d] = ints;
    Gaps { graph: graph.finish().unwrap(), ids: [q, k, v, o, lse, a, b, c, d] }
}

/// Row, head and column of each element.
fn indices(rows: usize, heads: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..rows).flat_map(move |i| (0..heads).flat_map(move |h| (0..D).map(move |d| (i, h, d))))
}

/// Starts and lengths of Q and of K.
type Ints = [[i32; BATCH]; 4];

const FINE: Ints = [[30, 2, 11], [8, 0, 13], [40, 1, 10], [5, 20, 30]];

/// O, LSE and the error word. Rows of Q and O lie `spread` times as far apart as declared.
fn run(ints: &Ints, spread: usize) -> (Vec<f32>, Vec<f32>, u32) {
    let Gaps { graph, ids } = gaps();
    let executable = common::built(&graph, 2);
    let mut q = vec![f32::NAN; CAPACITY.0 * H * D * spread];
    let mut k = vec![f32::NAN; CAPACITY.1 * D];
    let mut v = k.clone();
    for b in 0..BATCH {
        let [q_start, q_len, kv_start, kv_len] = FINE.map(|ints| ints[b] as usize);
        for (i, h, d) in indices(q_len, H) {
            q[(((q_start + i) * H + h) * D + d) * spread] = number(Q, [b, h, i, d]);
        }
        for (j, h, d) in indices(kv_len, 1) {
            let at = (kv_start + j) * D + d;
            (k[at], v[at]) = (number(K, [b, h, j, d]), number(V, [b, h, j, d]));
        }
    }
    let mut o = vec![POISON; q.len()];
    let mut lse = vec![POISON; BATCH * H * LSE_ROWS];
    let mut bindings = Bindings::new();
    let [rows, heads, columns] = [CAPACITY.0, H, D].map(|extent| extent as i64);
    let stride = spread as i64;
    let strides = [heads * columns * stride, columns * stride, stride];
    let spread_out = Geometry::strided(&[rows, heads, columns], &strides).unwrap();
    bindings.bind_as(ids[0], Buffer::from_slice(&q), spread_out).unwrap();
    bindings.bind(ids[1], Buffer::from_slice(&k)).unwrap();
    bindings.bind(ids[2], Buffer::from_slice(&v)).unwrap();
    bindings.bind_as(ids[3], Buffer::from_slice_mut(&mut o), spread_out).unwrap();
    bindings.bind(ids[4], Buffer::from_slice_mut(&mut lse)).unwrap();
    for (&id, ints) in ids[5..].iter().zip(ints) {
        bindings.bind(id, Buffer::from_slice(ints)).unwrap();
    }
    let errors = common::execute(&executable, &bindings);
    (o, lse, errors)
}

#[test]
fn sequences_with_gaps_and_spread_elements() {
    let problem = Problem::new((H, 1), (D, D));
    for spread in [1, 3] {
        let (o, lse, errors) = run(&FINE, spread);
        assert_eq!(errors, 0);
        let mut untouched = vec![true; o.len()];
        for b in 0..BATCH {
            let lens = (FINE[1][b] as usize, FINE[3][b] as usize);
            for (h, i) in (0..H).flat_map(|h| (0..LSE_ROWS).map(move |i| (h, i))) {
                let lse = lse[(b * H + h) * LSE_ROWS + i];
                if i >= lens.0 {
                    assert_eq!(lse, f32::NEG_INFINITY, "past the length");
                    continue;
                }
                let row = problem.row(b, h, i, lens);
                assert_near(lse, row.lse, 1e-5, ("lse", b, h, i));
                for (d, expected) in row.o.into_iter().enumerate() {
                    let at = (((FINE[0][b] as usize + i) * H + h) * D + d) * spread;
                    assert_near(o[at], expected, 2e-6, (b, h, i, d));
                    untouched[at] = false;
                }
            }
        }
        assert!(o.iter().zip(untouched).all(|(&o, untouched)| !untouched || o == POISON));
    }
}

#[test]
fn hostile_starts_and_lengths_stay_inside() {
    let (q_length, kv_length) = (ErrorWord::Q_LENGTH, ErrorWord::KV_LENGTH);
    let (q_rows, kv_rows) = (ErrorWord::Q_ROWS, ErrorWord::KV_ROWS);
    let cases = [
        (0, [31, 2, 11], q_rows, "past the bound of the total"),
        (0, [i32::MAX, 2, 11], q_rows, "past everything"),
        (0, [i32::MIN, 2, 11], q_rows, "before everything"),
        (0, [11, 11, 11], ErrorWord::NONE, "the same rows twice"),
        (1, [14, 0, 13], q_length.with(q_rows), "too long, and past the bound of the total"),
        (1, [8, -1, 13], q_length, "negative"),
        (2, [56, 1, 10], kv_rows, "past the capacity"),
        (3, [i32::MAX, i32::MIN, 30], kv_length.with(kv_rows), "far too long and negative"),
    ];
    for (which, hostile, expected, what) in cases {
        let mut ints = FINE;
        ints[which] = hostile;
        let (o, _, errors) = run(&ints, 1);
        assert_eq!(errors, expected.0, "{what}");
        assert!(o[(CAPACITY.0 - 2) * H * D..].iter().all(|&o| o == POISON), "{what}");
    }
}
