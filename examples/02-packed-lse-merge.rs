//! A packed batch with its log-sum-exp, and a merge of two partial results.
//!
//! ```sh
//! cargo run --example 02-packed-lse-merge
//! ```
//!
//! Keys that do not fit one place (another GPU, a shared prefix, a page that is still on its way)
//! are attended to in parts: each part gives an output and the log-sum-exp of its scores, and
//! together these say what attention over all keys would have given. Here every sequence of a
//! packed batch is split in two, and the merged result is held against the undivided one.
//!
//! Three rules make it right:
//!
//! - The band is a matter of each part. For as many queries as keys, the diagonal of the first part
//!   starts in its top left corner and that of the second ends in its bottom right one.
//! - A row that sees no key of a part has `O = 0` and `LSE = -inf` there: weight 0, no exception.
//! - The sink is in the denominator once, so it belongs to exactly one of the parts.

use std::error::Error;
use std::io::Write;

use frazil::{
    Align, Band, Bindings, Buffer, DType, Executable, GraphBuilder, HostBuffer, LengthBounds,
    LseForm, Router, SdpaFwd, Sequences, Storage, Stream, TensorId, TensorSpec, Workspace,
};

const HEADS: usize = 4;
const COLUMNS: usize = 32;
/// Rows of each sequence: prompts of unequal lengths, one of them empty.
const LENGTHS: [i32; 4] = [37, 1, 0, 90];
const BATCH: usize = LENGTHS.len();
const MAX_TOTAL: u32 = 128;
const TOTAL: usize = MAX_TOTAL as usize;

// Ids may be chosen by the caller, so that all three graphs share them.
const Q: TensorId = TensorId(0);
const K: TensorId = TensorId(1);
const V: TensorId = TensorId(2);
const O: TensorId = TensorId(3);
const LSE: TensorId = TensorId(4);
const PREFIX: TensorId = TensorId(5);
const STARTS: TensorId = TensorId(6);
const KEY_LENGTHS: TensorId = TensorId(7);
const SINK: TensorId = TensorId(8);

/// Which keys of its sequence a graph sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    All,
    FirstHalf,
    SecondHalf,
}

impl Keys {
    /// For the undivided run either corner will do: there are as many queries as keys.
    fn align(self) -> Align {
        if self == Self::FirstHalf { Align::TopLeft } else { Align::BottomRight }
    }

    /// Of the two halves the first one has it.
    fn has_sink(self) -> bool {
        self != Self::SecondHalf
    }

    /// First key and number of keys of each sequence, as rows of the packed buffer.
    fn rows(self) -> ([i32; BATCH], [i32; BATCH]) {
        let (mut starts, mut lengths) = ([0; BATCH], LENGTHS);
        let prefix = prefix();
        for b in 0..BATCH {
            let half = LENGTHS[b] / 2;
            (starts[b], lengths[b]) = match self {
                Self::All => (prefix[b], LENGTHS[b]),
                Self::FirstHalf => (prefix[b], half),
                Self::SecondHalf => (prefix[b] + half, LENGTHS[b] - half),
            };
        }
        (starts, lengths)
    }
}

/// Running sums of the lengths, as `cu_seqlens`.
fn prefix() -> [i32; BATCH + 1] {
    let mut prefix = [0; BATCH + 1];
    (0..BATCH).for_each(|b| prefix[b + 1] = prefix[b] + LENGTHS[b]);
    prefix
}

/// Attention over some of the keys. Host numbers are bounds alone: one executable serves every
/// batch of up to `MAX_TOTAL` rows, whatever the lengths on the device say.
fn build(router: &Router, keys: Keys) -> Result<Executable, Box<dyn Error>> {
    let [heads, columns, total, batch] = [HEADS, COLUMNS, TOTAL, BATCH].map(|n| n as i64);
    let mut graph = GraphBuilder::new();
    for (id, name) in [(Q, "q"), (K, "k"), (V, "v"), (O, "o")] {
        let spec = TensorSpec::contiguous(name, DType::F32, [total, heads, columns]);
        graph.tensor(spec.id(id))?;
    }
    graph.tensor(TensorSpec::contiguous("lse", DType::F32, [total, heads]).id(LSE))?;
    graph.tensor(TensorSpec::contiguous("prefix", DType::I32, [batch + 1]).id(PREFIX))?;
    graph.tensor(TensorSpec::contiguous("starts", DType::I32, [batch]).id(STARTS))?;
    graph.tensor(TensorSpec::contiguous("key_lengths", DType::I32, [batch]).id(KEY_LENGTHS))?;
    let packed = |sequences| {
        let bounds = LengthBounds::up_to(MAX_TOTAL);
        Storage::Packed { sequences, bounds, max_total: MAX_TOTAL }
    };
    // The halves of K and V lie in gaps of one another: starts and lengths, and nothing is copied.
    let q_side = packed(Sequences::Prefix(PREFIX));
    let kv_side = packed(Sequences::Starts { starts: STARTS, lengths: KEY_LENGTHS });
    let mut op = SdpaFwd::new(Q, K, V, O)
        .storage(q_side, kv_side)
        .band(Band::causal(keys.align()))
        .lse(LSE, LseForm::Natural);
    if keys.has_sink() {
        graph.tensor(TensorSpec::contiguous("sink", DType::F32, [heads]).id(SINK))?;
        op = op.sink(SINK);
    }
    graph.sdpa_fwd(op)?;
    Ok(router.build(&graph.finish()?, &frazil::cpu::host())?.executable)
}

/// Inputs that all runs share.
struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    sink: Vec<f32>,
}

/// O `[TOTAL, HEADS, COLUMNS]` and LSE `[TOTAL, HEADS]`.
struct Partial {
    o: Vec<f32>,
    lse: Vec<f32>,
}

fn execute(attention: &Executable, inputs: &Inputs, keys: Keys) -> Result<Partial, frazil::Error> {
    let mut result = Partial { o: vec![0.0; inputs.q.len()], lse: vec![0.0; TOTAL * HEADS] };
    let (prefix, (starts, key_lengths)) = (prefix(), keys.rows());
    let mut scratch = HostBuffer::workspace_of(attention.plan());
    let mut bindings = Bindings::of([
        (Q, Buffer::from_slice(&inputs.q)),
        (K, Buffer::from_slice(&inputs.k)),
        (V, Buffer::from_slice(&inputs.v)),
        (O, Buffer::from_slice_mut(&mut result.o)),
        (LSE, Buffer::from_slice_mut(&mut result.lse)),
        (PREFIX, Buffer::from_slice(&prefix)),
        (STARTS, Buffer::from_slice(&starts)),
        (KEY_LENGTHS, Buffer::from_slice(&key_lengths)),
    ])?;
    // A tensor that the plan does not know is an error, so that none is ignored.
    if keys.has_sink() {
        bindings.bind(SINK, Buffer::from_slice(&inputs.sink))?;
    }
    attention.execute(&bindings, Workspace::new(scratch.buffer()), Stream::HOST)?;
    Ok(result)
}

/// What attention over the keys of both would have given.
fn merge(a: &Partial, b: &Partial) -> Partial {
    let mut merged = Partial { o: Vec::new(), lse: Vec::new() };
    let rows_of = |partial: &Partial| {
        let lse = partial.lse.clone().into_iter();
        lse.zip(partial.o.chunks_exact(COLUMNS).map(<[f32]>::to_vec)).collect::<Vec<_>>()
    };
    for ((lse_a, row_a), (lse_b, row_b)) in rows_of(a).into_iter().zip(rows_of(b)) {
        let max = lse_a.max(lse_b);
        // Neither saw a key: -inf less -inf would be NaN.
        let weight = |lse: f32| if max == f32::NEG_INFINITY { 0.0 } else { (lse - max).exp() };
        let (weight_a, weight_b) = (weight(lse_a), weight(lse_b));
        let sum = weight_a + weight_b;
        let mix = |(x, y)| if sum > 0.0 { (weight_a * x + weight_b * y) / sum } else { 0.0 };
        merged.o.extend(row_a.into_iter().zip(row_b).map(mix));
        merged.lse.push(max + sum.ln());
    }
    merged
}

/// The example, printing to `out`.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let wave = |step: f32| (0..TOTAL * HEADS * COLUMNS).map(move |n| (n as f32 * step).sin());
    let inputs = Inputs {
        q: wave(0.37).collect(),
        k: wave(0.73).collect(),
        v: wave(0.11).collect(),
        sink: vec![0.0, 1.0, -2.0, 3.0],
    };
    let router = Router::from_registrations()?;
    let run = |keys| -> Result<Partial, Box<dyn Error>> {
        Ok(execute(&build(&router, keys)?, &inputs, keys)?)
    };
    let whole = run(Keys::All)?;
    let (first, second) = (run(Keys::FirstHalf)?, run(Keys::SecondHalf)?);
    let merged = merge(&first, &second);

    // The first token of the longest sequence sees no key of the second half.
    for token in [prefix()[3] as usize, TOTAL - 1] {
        let row = token * HEADS;
        let [a, b, m, w] = [&first, &second, &merged, &whole].map(|partial| partial.lse[row]);
        writeln!(out, "token {token}: lse {a:.6} and {b:.6}, merged {m:.6}, undivided {w:.6}")?;
    }

    let worst =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let (of_o, of_lse) = (worst(&merged.o, &whole.o), worst(&merged.lse, &whole.lse));
    writeln!(out, "greatest difference: o {of_o:.1e}, lse {of_lse:.1e}")?;
    // A few roundings of f32 at values near 1 and 5. `max` drops a NaN, so each is looked for.
    assert!(merged.o.iter().chain(&merged.lse).all(|value| value.is_finite()));
    assert!(of_o < 1e-6 && of_lse < 4e-6, "o {of_o}, lse {of_lse}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}
