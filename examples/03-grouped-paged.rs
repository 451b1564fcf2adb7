//! Grouped queries over a paged cache: decode steps with one executable.
//!
//! ```sh
//! cargo run --example 03-grouped-paged
//! ```
//!
//! Three sequences of different lengths, 8 query heads on 2 heads of K and V, pages of 16 tokens
//! in no order. Each step appends a token to every sequence, in its last page or in a fresh one,
//! and attends from the newest token to all of its sequence. Lengths and pages are device data, so
//! nothing is planned or built again: on a GPU the same call can be captured in a graph and
//! replayed. Each step is held against dense attention over the rows gathered from the pages.

use std::error::Error;
use std::io::Write;

use frazil::{
    Align, Band, Bindings, Buffer, DType, Executable, GraphBuilder, HostBuffer, LengthBounds,
    Router, SdpaFwd, Storage, Stream, TensorId, TensorSpec, Workspace,
};

const BATCH: usize = 3;
const Q_HEADS: usize = 8;
const KV_HEADS: usize = 2;
const COLUMNS: usize = 64;
const PAGE_SIZE: usize = 16;
/// Tokens that one sequence can have, and the pages that hold them.
const MAX_LEN: u32 = 128;
const MAX_PAGES: usize = MAX_LEN as usize / PAGE_SIZE;
/// Pages of the pool.
const NUM_PAGES: i32 = 20;

const Q: TensorId = TensorId(0);
const K: TensorId = TensorId(1);
const V: TensorId = TensorId(2);
const O: TensorId = TensorId(3);
const TABLE: TensorId = TensorId(4);
const LENGTHS: TensorId = TensorId(5);

/// One new token of every sequence over all that it has: K and V in pages, one table for both.
fn build_decode(router: &Router) -> Result<Executable, Box<dyn Error>> {
    let mut graph = GraphBuilder::new();
    let tensor = |name, dtype, extents: &[usize]| {
        let extents: Vec<i64> = extents.iter().map(|&n| n as i64).collect();
        TensorSpec::contiguous(name, dtype, extents)
    };
    let row = [BATCH, Q_HEADS, 1, COLUMNS];
    let pool = [NUM_PAGES as usize, KV_HEADS, PAGE_SIZE, COLUMNS];
    graph.tensor(tensor("q", DType::F32, &row).id(Q))?;
    graph.tensor(tensor("k", DType::F32, &pool).id(K))?;
    graph.tensor(tensor("v", DType::F32, &pool).id(V))?;
    graph.tensor(tensor("o", DType::F32, &row).id(O))?;
    graph.tensor(tensor("table", DType::I32, &[BATCH, MAX_PAGES]).id(TABLE))?;
    graph.tensor(tensor("lengths", DType::I32, &[BATCH]).id(LENGTHS))?;
    let bounds = LengthBounds::up_to(MAX_LEN);
    let paged = Storage::Paged { table_k: TABLE, table_v: TABLE, lengths: LENGTHS, bounds };
    let causal = Band::causal(Align::BottomRight);
    graph.sdpa_fwd(SdpaFwd::new(Q, K, V, O).storage(Storage::Dense, paged).band(causal))?;
    Ok(router.build(&graph.finish()?, &frazil::cpu::host())?.executable)
}

/// The cache of a server, in the least words.
struct Cache {
    /// Pools `[NUM_PAGES, KV_HEADS, PAGE_SIZE, COLUMNS]`.
    k: Vec<f32>,
    v: Vec<f32>,
    /// `[BATCH, MAX_PAGES]`. Entries past the last live page are never read: -1 may stand there.
    table: Vec<i32>,
    lengths: Vec<i32>,
    /// Taken from the end.
    free_pages: Vec<i32>,
}

impl Cache {
    fn new() -> Self {
        let pool = NUM_PAGES as usize * KV_HEADS * PAGE_SIZE * COLUMNS;
        // Rows that no token was written to may hold anything, NaN included.
        let (k, v) = (vec![f32::NAN; pool], vec![f32::NAN; pool]);
        // 7 and 20 have no common factor, so this names every page once, in no order.
        let free_pages = (0..NUM_PAGES).map(|n| n * 7 % NUM_PAGES).collect();
        Self { k, v, table: vec![-1; BATCH * MAX_PAGES], lengths: vec![0; BATCH], free_pages }
    }

    /// First element of a row of a head.
    fn offset(&self, b: usize, head: usize, token: usize) -> usize {
        let page = self.table[b * MAX_PAGES + token / PAGE_SIZE] as usize;
        ((page * KV_HEADS + head) * PAGE_SIZE + token % PAGE_SIZE) * COLUMNS
    }

    /// Appends a token to a sequence.
    fn append(&mut self, b: usize) -> Result<(), Box<dyn Error>> {
        let token = self.lengths[b] as usize;
        if token.is_multiple_of(PAGE_SIZE) {
            let page = self.free_pages.pop().ok_or("the pool has no free page")?;
            self.table[b * MAX_PAGES + token / PAGE_SIZE] = page;
        }
        for head in 0..KV_HEADS {
            let offset = self.offset(b, head, token);
            for d in 0..COLUMNS {
                let seed = ((b * 131 + token) * KV_HEADS + head) * COLUMNS + d;
                self.k[offset + d] = (seed as f32 * 0.71).sin();
                self.v[offset + d] = (seed as f32 * 0.13).cos();
            }
        }
        self.lengths[b] += 1;
        Ok(())
    }

    /// The rows of one sequence as `[KV_HEADS, length, COLUMNS]`.
    fn gather(&self, pool: &[f32], b: usize) -> Vec<f32> {
        let rows = (0..KV_HEADS).flat_map(|head| {
            (0..self.lengths[b] as usize).map(move |token| self.offset(b, head, token))
        });
        rows.flat_map(|offset| pool[offset..offset + COLUMNS].to_vec()).collect()
    }
}

/// One decode step.
fn decode(
    attention: &Executable,
    queries: &[f32],
    cache: &Cache,
) -> Result<Vec<f32>, frazil::Error> {
    let mut output = vec![0.0; queries.len()];
    let mut scratch = HostBuffer::workspace_of(attention.plan());
    let bindings = Bindings::of([
        (Q, Buffer::from_slice(queries)),
        (K, Buffer::from_slice(&cache.k)),
        (V, Buffer::from_slice(&cache.v)),
        (O, Buffer::from_slice_mut(&mut output)),
        (TABLE, Buffer::from_slice(&cache.table)),
        (LENGTHS, Buffer::from_slice(&cache.lengths)),
    ])?;
    attention.execute(&bindings, Workspace::new(scratch.buffer()), Stream::HOST)?;
    Ok(output)
}

/// The same for one sequence, from gathered rows: a graph of its own for each length.
fn dense(router: &Router, q: &[f32], k: &[f32], v: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
    let [q_heads, kv_heads, columns] = [Q_HEADS, KV_HEADS, COLUMNS].map(|n| n as i64);
    let len = (k.len() / (KV_HEADS * COLUMNS)) as i64;
    let mut graph = GraphBuilder::new();
    for (id, name, heads, rows) in [
        (Q, "q", q_heads, 1),
        (K, "k", kv_heads, len),
        (V, "v", kv_heads, len),
        (O, "o", q_heads, 1),
    ] {
        graph.tensor(TensorSpec::contiguous(name, DType::F32, [1, heads, rows, columns]).id(id))?;
    }
    graph.sdpa_fwd(SdpaFwd::new(Q, K, V, O))?;
    let attention = router.build(&graph.finish()?, &frazil::cpu::host())?.executable;
    let mut output = vec![0.0; q.len()];
    let mut scratch = HostBuffer::workspace_of(attention.plan());
    let bindings = Bindings::of([
        (Q, Buffer::from_slice(q)),
        (K, Buffer::from_slice(k)),
        (V, Buffer::from_slice(v)),
        (O, Buffer::from_slice_mut(&mut output)),
    ])?;
    attention.execute(&bindings, Workspace::new(scratch.buffer()), Stream::HOST)?;
    Ok(output)
}

/// The example, printing to `out`.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let router = Router::from_registrations()?;
    let attention = build_decode(&router)?;
    let mut cache = Cache::new();
    // Prompts. The next token of the second sequence is the first of a page.
    for (b, length) in [37, 32, 100].into_iter().enumerate() {
        (0..length).try_for_each(|_| cache.append(b))?;
    }
    for step in 0..2 {
        (0..BATCH).try_for_each(|b| cache.append(b))?;
        let queries: Vec<f32> =
            (0..BATCH * Q_HEADS * COLUMNS).map(|n| ((n + step) as f32 * 0.37).sin()).collect();
        let output = decode(&attention, &queries, &cache)?;

        let per_sequence = Q_HEADS * COLUMNS;
        let mut worst = 0.0_f32;
        for (b, (q, found)) in
            queries.chunks_exact(per_sequence).zip(output.chunks_exact(per_sequence)).enumerate()
        {
            let (k, v) = (cache.gather(&cache.k, b), cache.gather(&cache.v, b));
            let expected = dense(&router, q, &k, &v)?;
            // Not by `max`, which would drop a NaN.
            for (found, expected) in found.iter().zip(expected) {
                let difference = (found - expected).abs();
                assert!(difference < 1e-6, "sequence {b}: {found}, expected {expected}");
                worst = worst.max(difference);
            }
        }
        let pages = MAX_PAGES * BATCH - cache.table.iter().filter(|&&page| page < 0).count();
        writeln!(
            out,
            "step {step}: lengths {:?} in {pages} pages, greatest difference from dense {worst:.1e}",
            cache.lengths
        )?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}
