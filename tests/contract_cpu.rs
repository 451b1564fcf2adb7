//! The rules of execute that need no GPU: what a call may depend on, and what it leaves behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::sync::Arc;

use frazil::{
    Align, Band, Bindings, DType, Device, ErrorWord, Executable, Facts, Graph, GraphBuilder,
    HostBuffer, LengthBounds, LseForm, Router, SdpaFwd, Sequences, Storage, Stream, TensorSpec,
    Workspace,
};
use frazil_conformance::reference::Head;

use common::values;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const D: usize = 16;
const CAPACITY: usize = 96;
const MAX_TOTAL: u32 = 80;
const MAX_LEN: u32 = 40;
const BATCH: usize = 4;

/// A packed, causal batch in f32; both sides are found by one tensor of lengths or of a prefix.
fn declare(by_prefix: bool) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut tensor = |name: &str, dtype, extents: [i64; 3]| {
        let rank = extents.iter().take_while(|&&extent| extent != 0).count();
        builder.tensor(TensorSpec::contiguous(name, dtype, &extents[..rank])).unwrap()
    };
    let rows = |heads: usize| [CAPACITY as i64, heads as i64, D as i64];
    let q = tensor("q", DType::F32, rows(HEADS));
    let k = tensor("k", DType::F32, rows(KV_HEADS));
    let v = tensor("v", DType::F32, rows(KV_HEADS));
    let o = tensor("o", DType::F32, rows(HEADS));
    let lse = tensor("lse", DType::F32, [CAPACITY as i64, HEADS as i64, 0]);
    let steer = tensor("steer", DType::I32, [BATCH as i64 + i64::from(by_prefix), 0, 0]);
    let sequences = if by_prefix { Sequences::Prefix(steer) } else { Sequences::Lengths(steer) };
    let side =
        Storage::Packed { sequences, bounds: LengthBounds::up_to(MAX_LEN), max_total: MAX_TOTAL };
    let op = SdpaFwd::new(q, k, v, o)
        .storage(side, side)
        .band(Band::causal(Align::BottomRight))
        .lse(lse, LseForm::Natural);
    builder.sdpa_fwd(op).unwrap();
    builder.finish().unwrap()
}

/// An executable, shared between the jobs that run it.
#[derive(Clone)]
struct Built {
    graph: Graph,
    executable: Arc<Executable>,
}

impl Built {
    fn new(by_prefix: bool, device: &Device) -> Self {
        let graph = declare(by_prefix);
        let facts = Arc::new(Facts::read(&graph).unwrap());
        let router = Router::from_registrations().unwrap();
        let plans = router.plans(&facts, &Arc::new(device.target().clone())).unwrap();
        let executable = Arc::new(router.build_first(&plans, device).unwrap().executable);
        Self { graph, executable }
    }

    fn workspace(&self) -> HostBuffer {
        HostBuffer::zeroed(usize::try_from(self.executable.plan().workspace_bytes()).unwrap())
    }
}

/// Memory for one caller.
struct Job {
    built: Built,
    tensors: Vec<HostBuffer>,
    workspace: HostBuffer,
}

fn bytes_of<T: bytemuck::NoUninit>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

impl Job {
    /// Rows past the greatest total hold `slack`.
    fn new(built: &Built, slack: f32) -> Self {
        let tensors = built.graph.tensors().iter().zip(1..).map(|(tensor, seed)| {
            let bytes = usize::try_from(tensor.span_bytes()).unwrap();
            let mut memory = HostBuffer::zeroed(bytes);
            if ["q", "k", "v"].contains(&tensor.name()) {
                let mut contents = values(seed, bytes / 4);
                let row = contents.len() / CAPACITY;
                contents[MAX_TOTAL as usize * row..].fill(slack);
                memory.as_bytes_mut().copy_from_slice(bytes_of(&contents));
            }
            memory
        });
        Self { tensors: tensors.collect(), workspace: built.workspace(), built: built.clone() }
    }

    fn steer(&mut self, words: &[i32]) {
        self.tensors[5].as_bytes_mut().copy_from_slice(bytes_of(words));
    }

    /// Executes over poisoned outputs; gives the bytes of O and LSE, and the error word.
    fn execute(&mut self) -> (Vec<u8>, ErrorWord) {
        for output in [3, 4] {
            self.tensors[output].as_bytes_mut().fill(0xA5);
        }
        let mut bindings = Bindings::new();
        for (tensor, memory) in self.built.graph.tensors().iter().zip(&mut self.tensors) {
            bindings.bind(tensor.id(), memory.buffer()).unwrap();
        }
        let workspace = Workspace::new(self.workspace.buffer());
        self.built.executable.execute(&bindings, workspace, Stream::HOST).unwrap();
        let at = usize::try_from(self.built.executable.plan().error_word().unwrap()).unwrap();
        let word = self.workspace.as_bytes()[at..at + 4].try_into().unwrap();
        let outputs = [self.tensors[3].as_bytes(), self.tensors[4].as_bytes()].concat();
        (outputs, ErrorWord(u32::from_ne_bytes(word)))
    }

    fn floats(&self, tensor: usize) -> &[f32] {
        bytemuck::cast_slice(self.tensors[tensor].as_bytes())
    }

    /// O and LSE of the last execute against the reference, for these lengths.
    fn assert_right(&self, lengths: &[i32]) {
        let gather = |tensor: usize, heads: usize, h: usize, rows: std::ops::Range<usize>| {
            let all = self.floats(tensor);
            rows.flat_map(|t| all[(t * heads + h) * D..][..D].to_vec()).collect::<Vec<f32>>()
        };
        let mut start = 0;
        for &len in lengths {
            let len = usize::try_from(len).unwrap();
            for h in 0..HEADS {
                let kv_head = h / (HEADS / KV_HEADS);
                let (q, k, v) = (
                    gather(0, HEADS, h, start..start + len),
                    gather(1, KV_HEADS, kv_head, start..start + len),
                    gather(2, KV_HEADS, kv_head, start..start + len),
                );
                let head = Head {
                    len_q: len,
                    len_kv: len,
                    head_dim_qk: D,
                    head_dim_v: D,
                    q: &q,
                    k: &k,
                    v: &v,
                    softmax_scale: 0.25,
                    soft_cap: None,
                    bias: None,
                    alibi: None,
                    band: Some(Band::causal(Align::BottomRight)),
                    sink: None,
                };
                for i in 0..len {
                    let expected = head.row(i);
                    let lse = f64::from(self.floats(4)[(start + i) * HEADS + h]);
                    assert!((lse - expected.lse).abs() < 1e-5);
                    let o = &self.floats(3)[((start + i) * HEADS + h) * D..][..D];
                    let close = |(o, e): (&f32, &f64)| (f64::from(*o) - e).abs() < 1e-5;
                    assert!(o.iter().zip(&expected.o).all(close), "{lengths:?} {h} {i}");
                }
            }
            start += len;
        }
    }
}

const LENGTHS: [i32; BATCH] = [17, 0, 33, 5];
const PREFIX: [i32; BATCH + 1] = [0, 17, 17, 50, 55];

/// PP-01, PP-93: one executable, lengths rewritten in place before every call.
#[test]
fn every_call_honours_the_lengths_it_finds() {
    let mut job = Job::new(&Built::new(false, &frazil::cpu::host()), f32::NAN);
    for step in 0..60 {
        let lengths = [step % 41, (step * 7) % 23, 3, (step * 5) % 13];
        job.steer(&lengths);
        assert_eq!(job.execute().1, ErrorWord::NONE);
        job.assert_right(&lengths);
    }
}

#[test]
fn lengths_and_prefixes_of_any_base_give_the_same_bits() {
    let host = frazil::cpu::host();
    let mut by_lengths = Job::new(&Built::new(false, &host), 0.0);
    by_lengths.steer(&LENGTHS);
    let expected = by_lengths.execute();
    let mut by_prefix = Job::new(&Built::new(true, &host), 0.0);
    for base in [0, 1000, -50, i32::MAX - 55] {
        by_prefix.steer(&PREFIX.map(|entry| entry + base));
        assert!(by_prefix.execute() == expected, "base {base}");
    }
}

/// PP-04: what lies past the total has no effect, whatever it holds.
#[test]
fn slack_has_no_effect_on_a_single_bit() {
    let built = Built::new(false, &frazil::cpu::host());
    let run = |slack| {
        let mut job = Job::new(&built, slack);
        job.steer(&LENGTHS);
        job.execute()
    };
    let expected = run(0.0);
    for slack in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        assert!(run(slack) == expected, "{slack}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let run = |threads| {
        let built = Built::new(false, &frazil::cpu::host_with_threads(threads));
        let mut job = Job::new(&built, 0.0);
        job.steer(&LENGTHS);
        job.execute()
    };
    let expected = run(1);
    assert!([2, 3, 16].map(run).iter().all(|outputs| *outputs == expected));
}

/// PP-70.
#[test]
fn a_thousand_calls_give_the_same_bits() {
    let mut job = Job::new(&Built::new(false, &frazil::cpu::host()), 0.0);
    job.steer(&LENGTHS);
    let expected = job.execute();
    assert!((1..1000).all(|_| job.execute() == expected));
}

#[test]
fn two_threads_may_execute_one_executable_at_once() {
    let built = Built::new(false, &frazil::cpu::host());
    let run = |lengths: [i32; BATCH], calls: usize| {
        let mut job = Job::new(&built, 0.0);
        job.steer(&lengths);
        let first = job.execute();
        assert!((1..calls).all(|_| job.execute() == first));
        first
    };
    let batches = [LENGTHS, [5, 33, 0, 17]];
    let alone = batches.map(|lengths| run(lengths, 1));
    let together = std::thread::scope(|scope| {
        let threads = batches.map(|lengths| scope.spawn(move || run(lengths, 200)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(alone == together);
}

/// Rule 8: the content of a workspace is undefined, and one may serve many plans in turn.
#[test]
fn one_workspace_serves_two_plans_in_turn() {
    let host = frazil::cpu::host();
    let mut jobs = [false, true].map(|by_prefix| Job::new(&Built::new(by_prefix, &host), 0.0));
    jobs[0].steer(&LENGTHS);
    jobs[1].steer(&PREFIX);
    let expected = jobs[0].execute();
    let mut shared = jobs[0].built.workspace();
    for turn in 0..6 {
        let job = &mut jobs[turn % 2];
        let garbage = [0xFF, 0x00, 0x7F][turn % 3];
        shared.as_bytes_mut().fill(garbage);
        std::mem::swap(&mut job.workspace, &mut shared);
        assert!(job.execute() == expected);
        std::mem::swap(&mut job.workspace, &mut shared);
    }
}

/// The error word is written by every execute, so one call's report does not outlive it, and what
/// is clamped stays inside its buffers.
#[test]
fn the_error_word_speaks_of_its_own_call() {
    let mut job = Job::new(&Built::new(false, &frazil::cpu::host()), 0.0);
    job.steer(&LENGTHS);
    let fine = job.execute();
    assert_eq!(fine.1, ErrorWord::NONE);
    let both_lengths = ErrorWord::Q_LENGTH.with(ErrorWord::KV_LENGTH);
    for hostile in [[41, 0, 0, 0], [i32::MAX, 0, 0, 0], [-1, 0, 0, 0], [i32::MIN; 4]] {
        job.steer(&hostile);
        assert!(job.execute().1.contains(both_lengths), "{hostile:?}");
        job.steer(&LENGTHS);
        assert!(job.execute() == fine);
    }
    job.steer(&[40, 40, 40, 40]);
    let (_, word) = job.execute();
    assert!(word.contains(ErrorWord::Q_ROWS.with(ErrorWord::KV_ROWS)));
}

/// Design section 4: inside the live rows a NaN in K reaches only queries that see that key; one in
/// V may reach any query of its sequence, and no other.
#[test]
fn a_nan_in_a_live_row_reaches_no_further_than_it_may() {
    const KEY: usize = 10;
    let built = Built::new(false, &frazil::cpu::host());
    let run = |poisoned: Option<usize>| {
        let mut job = Job::new(&built, 0.0);
        if let Some(tensor) = poisoned {
            // Row 10 of the first sequence, the head of K and V that heads 0 and 1 of Q share.
            let row: &mut [f32] = bytemuck::cast_slice_mut(job.tensors[tensor].as_bytes_mut());
            row[KEY * KV_HEADS * D..][..D].fill(f32::NAN);
        }
        job.steer(&LENGTHS);
        job.execute();
        job
    };
    let clean = run(None);
    for (poisoned, first_row) in [(1, KEY), (2, 0)] {
        let job = run(Some(poisoned));
        for row in 0..55 {
            for head in 0..HEADS {
                let at = row * HEADS + head;
                let o = |job: &Job| job.floats(3)[at * D..][..D].to_vec();
                let reached = head < 2 && (first_row..17).contains(&row);
                if !reached {
                    assert_eq!(o(&job), o(&clean), "row {row} of head {head}");
                    assert_eq!(job.floats(4)[at], clean.floats(4)[at]);
                } else if row >= KEY {
                    assert!(o(&job).iter().all(|value| value.is_nan()), "row {row} lost a NaN");
                    assert_eq!(job.floats(4)[at].is_nan(), poisoned == 1);
                }
            }
        }
    }
}
