//! frazil's engine for the host.

use std::error::Error;
use std::time::Instant;

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use frazil::{
    Align, Band, Bindings, DType, Executable, GraphBuilder, HostBuffer, Router, SdpaFwd, Stream,
    TensorId, TensorSpec, Workspace,
};
use half::{bf16, f16};

use crate::cell::{Cell, Mask};
use crate::record::{Record, Subject};

/// Times one cell; outputs and scratch are allocated before.
pub(crate) fn bench(group: &mut BenchmarkGroup<'_, WallTime>, cell: &Cell, record: &mut Record) {
    let mut ready = None;
    let subject = Subject::Ours(*cell);
    group.throughput(subject.throughput());
    group.bench_function(cell.to_string(), |bencher| {
        let ready = ready
            .get_or_insert_with(|| Ready::new(cell).expect("the host's engine serves every cell"));
        record.time(subject, bencher, || {
            let begin = Instant::now();
            ready.execute().expect("the bindings are those of the graph");
            begin.elapsed()
        });
    });
}

/// A built plan with its memory.
struct Ready {
    executable: Executable,
    tensors: [(TensorId, HostBuffer); 4],
    scratch: HostBuffer,
}

impl Ready {
    fn new(cell: &Cell) -> Result<Self, Box<dyn Error>> {
        let mut graph = GraphBuilder::new();
        let mut tensor = |name, rows: usize| {
            let extents = [1, cell.heads, rows, cell.head_dim].map(|extent| extent as i64);
            graph.tensor(TensorSpec::contiguous(name, cell.dtype, extents))
        };
        let (q, k) = (tensor("q", cell.q_rows)?, tensor("k", cell.kv_rows)?);
        let (v, o) = (tensor("v", cell.kv_rows)?, tensor("o", cell.q_rows)?);
        let mut op = SdpaFwd::new(q, k, v, o);
        if cell.mask == Mask::Causal {
            op = op.band(Band::causal(Align::BottomRight));
        }
        graph.sdpa_fwd(op)?;
        let router = Router::from_registrations()?;
        let executable = router.build(&graph.finish()?, &frazil::cpu::host())?.executable;
        let scratch = HostBuffer::workspace_of(executable.plan());
        let tensors = [
            (q, filled(cell, cell.q_rows, 1)),
            (k, filled(cell, cell.kv_rows, 2)),
            (v, filled(cell, cell.kv_rows, 3)),
            (o, filled(cell, cell.q_rows, 4)),
        ];
        Ok(Self { executable, tensors, scratch })
    }

    fn execute(&mut self) -> Result<(), Box<dyn Error>> {
        let mut bindings = Bindings::new();
        for (id, buffer) in &mut self.tensors {
            bindings.bind(*id, buffer.buffer())?;
        }
        let workspace = Workspace::new(self.scratch.buffer());
        Ok(self.executable.execute(&bindings, workspace, Stream::HOST)?)
    }
}

fn filled(cell: &Cell, rows: usize, seed: u64) -> HostBuffer {
    let numbers = cell.numbers(rows, seed);
    let mut buffer = HostBuffer::zeroed(numbers.len() * cell.element_bytes());
    let elements = buffer.as_bytes_mut().chunks_exact_mut(cell.element_bytes());
    for (number, element) in numbers.into_iter().zip(elements) {
        match cell.dtype {
            DType::F16 => element.copy_from_slice(&f16::from_f32(number).to_ne_bytes()),
            DType::Bf16 => element.copy_from_slice(&bf16::from_f32(number).to_ne_bytes()),
            _ => element.copy_from_slice(&number.to_ne_bytes()),
        }
    }
    buffer
}
