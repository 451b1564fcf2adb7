//! candle's attention on the host, as its models call it.

use std::hint::black_box;
use std::time::Instant;

use candle_core::{Device, Result, Tensor};
use candle_nn::attention::{AttnMask, flash_attn};
use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use frazil::DType;

use crate::cell::{Cell, Mask};
use crate::record::{Record, Subject};

/// Times one cell.
pub(crate) fn bench(group: &mut BenchmarkGroup<'_, WallTime>, cell: &Cell, record: &mut Record) {
    let mut inputs = None;
    let subject = Subject::Candle(*cell);
    group.throughput(subject.throughput());
    group.bench_function(cell.to_string(), |bencher| {
        let inputs = inputs.get_or_insert_with(|| {
            [1, 2, 3].map(|seed| tensor(cell, seed).expect("the numbers fill the shape"))
        });
        record.time(subject, bencher, || {
            let begin = Instant::now();
            black_box(attend(cell, inputs).expect("candle serves the cell"));
            begin.elapsed()
        });
    });
}

/// `[1, rows, heads, head_dim]`, as the function takes it.
fn tensor(cell: &Cell, seed: u64) -> Result<Tensor> {
    let shape = (1, cell.q_rows, cell.heads, cell.head_dim);
    let tensor = Tensor::from_vec(cell.numbers(cell.q_rows, seed), shape, &Device::Cpu)?;
    match cell.dtype {
        DType::F16 => tensor.to_dtype(candle_core::DType::F16),
        DType::Bf16 => tensor.to_dtype(candle_core::DType::BF16),
        _ => Ok(tensor),
    }
}

fn attend(cell: &Cell, [q, k, v]: &[Tensor; 3]) -> Result<Tensor> {
    let scale = 1.0 / (cell.head_dim as f32).sqrt();
    let mask = if cell.mask == Mask::Causal { AttnMask::causal() } else { AttnMask::None };
    match cell.dtype {
        DType::F16 => flash_attn::<half::f16>(q, k, v, scale, mask, None, None),
        DType::Bf16 => flash_attn::<half::bf16>(q, k, v, scale, mask, None, None),
        _ => flash_attn::<f32>(q, k, v, scale, mask, None, None),
    }
}
