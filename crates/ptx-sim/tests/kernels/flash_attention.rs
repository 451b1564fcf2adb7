//! Attention forward with asynchronous copies, `ldmatrix` and `mma`, and the same with its synchronisation broken.

use super::{Device, numbers, texts};
use crate::device::Parameter;

/// Rows of a tile, and elements of a row.
const ROWS: usize = 64;
const DIM: usize = 64;
const SCALE: f64 = 0.125;

/// Heads with their own queries, keys and values; all of bf16, by rows.
struct Attention {
    heads: usize,
    num_queries: usize,
    num_keys: usize,
    q: Vec<u16>,
    k: Vec<u16>,
    v: Vec<u16>,
}

#[derive(PartialEq)]
struct Output {
    o: Vec<u16>,
    lse: Vec<f32>,
}

fn value(bits: u16) -> f64 {
    f32::from_bits(u32::from(bits) << 16).into()
}

impl Attention {
    fn new(heads: usize, num_queries: usize, num_keys: usize) -> Self {
        let draw = |rows: usize, seed: u64| {
            let in_range = |x: u64| (x as i16) as f32 / 16384.0;
            let values = numbers(heads * rows * DIM, seed).into_iter().map(in_range);
            values.map(|value| (value.to_bits() >> 16) as u16).collect()
        };
        let (q, k, v) = (draw(num_queries, 11), draw(num_keys, 12), draw(num_keys, 13));
        Self { heads, num_queries, num_keys, q, k, v }
    }

    fn launch(&self) -> [u32; 3] {
        [self.num_queries.div_ceil(ROWS) as u32, self.heads as u32, 1]
    }

    fn upload(&self, device: &mut Device) -> ([u64; 2], Parameter) {
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|values| device.upload(values));
        let o = device.alloc(2 * self.q.len() as u64);
        let lse = device.alloc(4 * (self.heads * self.num_queries) as u64);
        let mut params: Vec<u8> = [q, k, v, o, lse].iter().flat_map(|x| x.to_le_bytes()).collect();
        params.extend((self.num_queries as u32).to_le_bytes());
        params.extend((self.num_keys as u32).to_le_bytes());
        params.extend(((SCALE * std::f64::consts::LOG2_E) as f32).to_le_bytes());
        params.extend([0; 4]);
        ([o, lse], Parameter(params))
    }

    fn run(&self, device: &mut Device) -> Output {
        let ([o, lse], params) = self.upload(device);
        device.launch(self.launch(), [128, 1, 1], &[params]);
        let rows = self.heads * self.num_queries;
        Output { o: device.download(o, rows * DIM), lse: device.download(lse, rows) }
    }

    /// A row's weights times values, the same with their magnitudes, and the logarithm of the sum, in f64.
    fn row(&self, head: usize, row: usize) -> ([f64; DIM], [f64; DIM], f64) {
        let of = |values: &[u16], rows: usize, row: usize| {
            let begin = (head * rows + row) * DIM;
            std::array::from_fn::<f64, DIM, _>(|i| value(values[begin + i]))
        };
        let q = of(&self.q, self.num_queries, row);
        let visible = (row + self.num_keys + 1).saturating_sub(self.num_queries).min(self.num_keys);
        let score = |key| {
            let k = of(&self.k, self.num_keys, key);
            SCALE * q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>()
        };
        let scores: Vec<_> = (0..visible).map(score).collect();
        let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
        let (mut o, mut magnitude) = ([0.0; DIM], [0.0; DIM]);
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - highest).exp() / total;
            for (i, v) in of(&self.v, self.num_keys, key).into_iter().enumerate() {
                o[i] += weight * v;
                magnitude[i] += weight * v.abs();
            }
        }
        (o, magnitude, if visible == 0 { f64::NEG_INFINITY } else { highest + total.ln() })
    }

    fn check(&self, got: &Output) {
        for (head, row) in (0..self.heads).flat_map(|h| (0..self.num_queries).map(move |r| (h, r)))
        {
            let (o, magnitude, lse) = self.row(head, row);
            let at = head * self.num_queries + row;
            let got_lse = f64::from(got.lse[at]);
            let same = got_lse == lse || (got_lse - lse).abs() < 1e-5 * (1.0 + lse.abs());
            assert!(same, "LSE of row {row} of head {head}: {got_lse}, not {lse}");
            for i in 0..DIM {
                // The weights and the result are rounded to bf16; the rest is much closer.
                let bound = (magnitude[i] + o[i].abs()) / 256.0 + 1e-5;
                let got = value(got.o[at * DIM + i]);
                assert!(
                    (got - o[i]).abs() <= bound,
                    "{i} of row {row} of head {head}: {got}, not {}",
                    o[i]
                );
            }
        }
    }
}

/// Full and ragged tiles, one row, rows and whole blocks that see no key.
#[test]
fn attention_is_that_of_f64_at_every_time_of_its_copies() {
    for (heads, num_queries, num_keys) in
        [(2, 100, 150), (1, 64, 128), (1, 214, 150), (1, 1, 1), (3, 5, 300)]
    {
        let attention = Attention::new(heads, num_queries, num_keys);
        for (target, text) in texts!("flash_attention") {
            let outputs = (0..6).map(|seed| attention.run(&mut Device::new(text, seed, target)));
            let outputs: Vec<_> = outputs.collect();
            attention.check(&outputs[0]);
            // A seed changes when things happen, and no sum.
            assert!(outputs.iter().all(|output| *output == outputs[0]), "{target}");
        }
    }
}

/// Ways to break what orders copies and threads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Break {
    Remove,
    /// A wait leaves one more group under way.
    LeaveOneMore,
    /// The barrier that follows the wait comes before it.
    AfterBarrier,
}

/// Every wait, commit and barrier of a text, broken in every way that it can be: its line, the way, and the text.
fn broken(text: &str) -> Vec<(String, Break, String)> {
    let lines: Vec<_> = text.lines().collect();
    let starts = |at: usize, opcode: &str| lines[at].trim_start().starts_with(opcode);
    let with = |changes: &[(usize, String)]| {
        let mut lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        for (at, line) in changes {
            lines[*at].clone_from(line);
        }
        lines.join("\n")
    };
    let mut all = Vec::new();
    for at in 0..lines.len() {
        let is_wait = starts(at, "cp.async.wait_group");
        if !(is_wait || starts(at, "cp.async.commit_group") || starts(at, "bar.sync")) {
            continue;
        }
        let name = || format!("line {}, {}", at + 1, lines[at].trim());
        all.push((name(), Break::Remove, with(&[(at, String::new())])));
        if is_wait {
            let pending = if lines[at].contains(" 0;") { 1 } else { 2 };
            let more = format!("cp.async.wait_group {pending};");
            all.push((name(), Break::LeaveOneMore, with(&[(at, more)])));
            let barrier = (at..lines.len()).find(|line| starts(*line, "bar.sync")).unwrap();
            let swapped = [(at, lines[barrier].to_owned()), (barrier, lines[at].to_owned())];
            all.push((name(), Break::AfterBarrier, with(&swapped)));
        }
    }
    all
}

#[test]
fn every_broken_synchronisation_of_attention_is_found_by_every_seed() {
    // The first block sees no key, the last one has three tiles.
    let attention = Attention::new(1, 214, 150);
    for (target, text) in texts!("flash_attention") {
        let broken = broken(text);
        // Four commits, three waits and four barriers.
        assert_eq!(broken.len(), 11 + 2 * 3, "{target}");
        for (line, way, text) in broken {
            for seed in 0..3 {
                let mut device = Device::new(&text, seed, target);
                let (_, params) = attention.upload(&mut device);
                let report = device.run(attention.launch(), [128, 1, 1], &[params]).unwrap();
                let mut findings = report.findings.iter();
                let is_found = findings.any(|finding| finding.place.source.is_some());
                // The group that the last wait then leaves is the values of a block that sees none: no bug.
                let is_right = line.contains("wait_group 0") && way == Break::LeaveOneMore;
                assert_eq!(is_found, !is_right, "{target}: {line}, {way:?}, seed {seed}");
            }
        }
    }
}
