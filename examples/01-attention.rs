//! Attention in twenty lines: declare, build, execute.
//!
//! ```sh
//! cargo run --example 01-attention
//! ```
//!
//! Key `j` is chosen so that its score is `ln(j + 1)`, so softmax gives it the weight `j + 1` over
//! the sum of the visible ones, and value `j` is `j + 1`. Causal attention then has a closed form:
//! row `i` is `(1² + 2² + … + n²) / (1 + 2 + … + n) = (2n + 1) / 3` with `n = i + 1`.

use std::error::Error;
use std::io::Write;

use frazil::{
    Align, Band, Bindings, Buffer, DType, GraphBuilder, HostBuffer, Router, SdpaFwd, Stream,
    TensorSpec, Workspace,
};

const HEADS: usize = 8;
const ROWS: usize = 128;
const COLUMNS: usize = 64;

/// What a caller writes.
fn attention(queries: &[f32], keys: &[f32], values: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
    // Declare: what is wrong with a graph is said here, with the tensor, the value and the limit.
    let mut graph = GraphBuilder::new();
    let extents = [1, HEADS as i64, ROWS as i64, COLUMNS as i64];
    let q = graph.tensor(TensorSpec::contiguous("q", DType::F32, extents))?;
    let k = graph.tensor(TensorSpec::contiguous("k", DType::F32, extents))?;
    let v = graph.tensor(TensorSpec::contiguous("v", DType::F32, extents))?;
    let o = graph.tensor(TensorSpec::contiguous("o", DType::F32, extents))?;
    let causal = Band::causal(Align::BottomRight);
    graph.sdpa_fwd(SdpaFwd::new(q, k, v, o).softmax_scale(1.0).band(causal))?;

    // Build: every engine linked into the program is asked, the best plan is made ready. Once.
    let device = frazil::cpu::host();
    let attention = Router::from_registrations()?.build(&graph.finish()?, &device)?.executable;

    // Execute: as often as you like. It allocates nothing; all memory is yours.
    let mut output = vec![0.0; queries.len()];
    let mut scratch = HostBuffer::workspace_of(attention.plan());
    let bindings = Bindings::of([
        (q, Buffer::from_slice(queries)),
        (k, Buffer::from_slice(keys)),
        (v, Buffer::from_slice(values)),
        (o, Buffer::from_slice_mut(&mut output)),
    ])?;
    attention.execute(&bindings, Workspace::new(scratch.buffer()), Stream::HOST)?;
    Ok(output)
}

/// The example, printing to `out`.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    // [1, HEADS, ROWS, COLUMNS], all columns of a row alike.
    let tensor = |of_row: fn(f32) -> f32| -> Vec<f32> {
        let rows = (0..HEADS).flat_map(|_| 0..ROWS);
        rows.flat_map(|row| [of_row(row as f32); COLUMNS]).collect()
    };
    let (queries, values) = (tensor(|_| 1.0), tensor(|j| j + 1.0));
    let keys = tensor(|j| (j + 1.0).ln() / COLUMNS as f32);

    let output = attention(&queries, &keys, &values)?;

    for (i, row) in output.chunks_exact(COLUMNS).take(ROWS).enumerate() {
        let expected = (2 * i + 3) as f32 / 3.0;
        if i < 4 || i == ROWS - 1 {
            writeln!(out, "row {i:>3}: {:.4}, expected {expected:.4}", row[0])?;
        }
    }
    for (row, i) in output.chunks_exact(COLUMNS).zip((0..HEADS).flat_map(|_| 0..ROWS)) {
        let expected = (2 * i + 3) as f32 / 3.0;
        let right = row.iter().all(|value| (value - expected).abs() < 1e-5 * expected);
        assert!(right, "row {i} is {row:?}, expected {expected}");
    }
    writeln!(out, "all {} rows are (2n + 1) / 3", HEADS * ROWS)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}
