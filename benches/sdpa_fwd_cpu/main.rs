//! Attention forward on the host: frazil's engine, candle's, and what the processor does at most.
//!
//! ```sh
//! cargo bench -p frazil-benches                              # everything, about six minutes
//! cargo bench -p frazil-benches -- 'sdpa_fwd_cpu/.*/2048/'   # some
//! RAYON_NUM_THREADS=16 cargo bench -p frazil-benches         # on so many threads
//! ```
//!
//! The last lines say what share of the two limits each cell reached in this run: for prefill, of the
//! rate of one f32 product of 2048 x 2048 matrices by the `gemm` crate on the same threads; for one
//! query row, of the time to read K and V once.

mod candle;
mod cell;
mod ours;
mod record;

use std::time::Duration;

use criterion::Criterion;
use frazil::DType;
use frazil_roofline::{Product, Sweep};

use cell::{Cell, Mask};
use record::{Record, Subject};

const DTYPES: [DType; 3] = [DType::F32, DType::Bf16, DType::F16];
const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let mut record = Record::default();
    product("product_f32/before", &mut criterion, &mut record);
    prefill(&mut criterion, &mut record);
    decode(&mut criterion, &mut record);
    candle_prefill(&mut criterion, &mut record);
    product("product_f32/after", &mut criterion, &mut record);
    criterion.final_summary();
    record.print();
}

/// One f32 product of 2048 x 2048 matrices, before and after the cells.
fn product(name: &str, criterion: &mut Criterion, record: &mut Record) {
    const N: usize = 2048;
    let mut product = Product::new(N, rayon::current_num_threads());
    let subject = Subject::Product(2 * (N as u64).pow(3));
    let mut group = criterion.benchmark_group("limit");
    group.throughput(subject.throughput());
    group.bench_function(name, |bencher| record.time(subject, bencher, || product.run()));
    group.finish();
}

fn prefill(criterion: &mut Criterion, record: &mut Record) {
    let mut group = criterion.benchmark_group("sdpa_fwd_cpu");
    for dtype in DTYPES {
        for head_dim in [64, 128] {
            for rows in [512, 2048, 8192] {
                for mask in MASKS {
                    let cell =
                        Cell { dtype, heads: 8, q_rows: rows, kv_rows: rows, head_dim, mask };
                    ours::bench(&mut group, &cell, record);
                }
            }
        }
    }
    group.finish();
}

/// One query row against many keys, beside one read of as much memory.
fn decode(criterion: &mut Criterion, record: &mut Record) {
    for dtype in DTYPES {
        for head_dim in [64, 128] {
            for heads in [1, 8] {
                let cell =
                    Cell { dtype, heads, q_rows: 1, kv_rows: 32_768, head_dim, mask: Mask::Causal };
                read(criterion, &cell, record);
                let mut group = criterion.benchmark_group("sdpa_fwd_cpu");
                ours::bench(&mut group, &cell, record);
                group.finish();
            }
        }
    }
}

fn read(criterion: &mut Criterion, cell: &Cell, record: &mut Record) {
    let mut sweep = None;
    let subject = Subject::Read(cell.kv_bytes());
    let mut group = criterion.benchmark_group("limit");
    group.throughput(subject.throughput());
    group.bench_function(format!("read/{cell}"), |bencher| {
        let sweep = sweep.get_or_insert_with(|| Sweep::new(cell.kv_bytes()));
        record.time(subject, bencher, || sweep.run());
    });
    group.finish();
}

/// The peer, where it does not take minutes: bf16 it refuses to be fast in as f16.
fn candle_prefill(criterion: &mut Criterion, record: &mut Record) {
    let mut group = criterion.benchmark_group("candle");
    for (dtype, rows) in [(DType::F32, 512), (DType::F32, 2048), (DType::F16, 512)] {
        for head_dim in [64, 128] {
            for mask in MASKS {
                let cell = Cell { dtype, heads: 8, q_rows: rows, kv_rows: rows, head_dim, mask };
                candle::bench(&mut group, &cell, record);
            }
        }
    }
    group.finish();
}
