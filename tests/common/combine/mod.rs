//! Pieces of units as attention forward would leave them, and their merge on a device, simulated or
//! real.

mod problem;

use std::sync::Arc;

use frazil::Device;
use frazil_cuda::combine::{KERNEL, NUM_THREADS, Params, request};
use frazil_cuda::compile::Arch;
use frazil_cuda::sdpa_fwd::{
    Band, Bias, HeadValues, Heads, OutputType, PageTable, Partials, RowOutput, RowTensor, Schedule,
    ScoreParams, SdpaFwdParams, Sections, SideRows,
};
use frazil_cuda::sim::Simulation;
use frazil_cuda::tools::{DeviceMemory, OwnedStream};
use frazil_cuda::work_list::{Header, Record};
use frazil_cuda::{Artifacts, CudaDevice, Divisor, DriverCalls, Kernel, LaunchShape};

pub(crate) use problem::{Merge, Seen, Storage};
use problem::{Row, index};

/// What nobody may write over.
const UNTOUCHED: u8 = 0x5a;

pub(crate) struct Merges {
    device: Device,
    stream: OwnedStream,
    kernel: Kernel<Params>,
}

/// Memory of one problem.
struct Memory {
    header: DeviceMemory,
    records: DeviceMemory,
    places: DeviceMemory,
    out: DeviceMemory,
    stats: DeviceMemory,
    sink: DeviceMemory,
    o: DeviceMemory,
    values: [DeviceMemory; 3],
}

impl Merges {
    pub(crate) fn new(artifacts: &Arc<Artifacts>, device: Device) -> Self {
        let on = CudaDevice::of(&device).unwrap();
        let arch = Arch::of(device.target()).unwrap();
        let artifact = artifacts.get(&request(arch, on.driver().image_kind())).unwrap().artifact;
        // SAFETY: the artifact is what the compiler gave for this request, whose kernel takes one
        // `Params`.
        #[expect(unsafe_code, reason = "machine code is loaded")]
        let kernel = unsafe { on.load(&artifact, KERNEL, 0) }.unwrap();
        let stream = OwnedStream::new(on).unwrap();
        Self { device, stream, kernel }
    }

    /// Merges twice and compares all that is stored, and that nothing else is.
    pub(crate) fn check(&self, merge: &Merge) -> Seen {
        let mut seen = Seen::default();
        let rows = merge.rows(&mut seen);
        let mut memory = self.memory(merge, &rows);
        let found = self.run(merge, &mut memory);
        assert!(found == self.run(merge, &mut memory), "other bits the second time: {merge:?}");
        let (o, values) = found;
        let mut is_written = vec![false; o.len()];
        let mut value_is_written = vec![false; values[0].len()];
        for row in &rows {
            let expected = merge.expected(row);
            seen.num_rows_without_keys +=
                usize::from(row.parts.values().all(|(_, part)| part.sum == 0.0));
            seen.num_nan_rows += usize::from(expected.values[0].is_nan());
            for (column, wanted) in expected.out.iter().enumerate() {
                let at = row.o_at + column;
                let (found, rounding) = o_at(&o, at, merge.o_type);
                let limit = 4e-6 + rounding * wanted.abs();
                let is_right = (found - wanted).abs() <= limit || found.is_nan() && wanted.is_nan();
                assert!(is_right, "O {found}, {wanted}: {merge:?}");
                is_written[at * width(merge.o_type)..][..width(merge.o_type)].fill(true);
            }
            for (found, wanted) in values.iter().zip(expected.values) {
                let bytes = found[row.value_at * 4..][..4].try_into().unwrap();
                let found = f64::from(f32::from_le_bytes(bytes));
                let is_right = found == wanted
                    || found.is_nan() && wanted.is_nan()
                    || (found - wanted).abs() <= 2e-5 * (1.0 + wanted.abs());
                assert!(is_right, "{found}, {wanted}: {merge:?}");
            }
            value_is_written[row.value_at * 4..][..4].fill(true);
        }
        let untouched = |bytes: &[u8], is_written: &[bool]| {
            bytes.iter().zip(is_written).all(|(&byte, &written)| written || byte == UNTOUCHED)
        };
        assert!(untouched(&o, &is_written), "O of others: {merge:?}");
        assert!(values.iter().all(|of| untouched(of, &value_is_written)), "{merge:?}");
        if let Some(simulation) = Simulation::of(&self.device) {
            assert_eq!(
                (simulation.misuses(), simulation.findings()),
                (vec![], vec![]),
                "{merge:?}"
            );
        }
        seen
    }

    fn memory(&self, merge: &Merge, rows: &[Row]) -> Memory {
        let on = CudaDevice::of(&self.device).unwrap();
        let new = |bytes: usize| DeviceMemory::new(on, bytes.max(16) as u64).unwrap();
        let records = merge.records();
        let num_bands = u32::try_from(records.len()).unwrap();
        let header = Header { num_bands, heads_per_section: 1, num_claimed: 0, costs_alike: 0 };
        let mut places = vec![0];
        for (_, tiles) in &records {
            places.push(places[places.len() - 1] + tiles + 1);
        }
        let mut memory = Memory {
            header: new(16),
            records: new(records.len() * 32),
            places: new(places.len() * 8),
            out: new(2 * index(merge.num_blocks) * index(merge.block_m * merge.head_dim_v) * 4),
            stats: new(2 * index(merge.num_blocks) * index(merge.block_m) * 8),
            sink: new(index(merge.num_q_heads()) * 4),
            o: new(index(merge.num_tokens() * merge.num_q_heads() * merge.head_dim_v)
                * width(merge.o_type)),
            values: std::array::from_fn(|_| {
                new(merge.q_lens.len() * index(merge.max_len() * merge.num_q_heads()) * 4)
            }),
        };
        memory.header.write(0, &[header]).unwrap();
        let records: Vec<Record> = records.into_iter().map(|(record, _)| record).collect();
        memory.records.write(0, &records).unwrap();
        memory.places.write(0, &places).unwrap();
        memory.sink.write(0, &merge.sinks()).unwrap();
        // What no piece leaves is never written, and of rows that see no key O is not either.
        for row in rows {
            for (slot, (in_tile, part)) in &row.parts {
                let at = (slot * index(merge.block_m) + in_tile) as u64;
                memory.stats.write(at * 8, &[part.max, part.sum]).unwrap();
                let row_bytes = u64::from(merge.head_dim_v.unsigned_abs()) * 4;
                memory.out.write(at * row_bytes, &part.out).unwrap();
            }
        }
        memory
    }

    /// The bytes of O, and of LSE, greatest score and sum.
    fn run(&self, merge: &Merge, memory: &mut Memory) -> (Vec<u8>, [Vec<u8>; 3]) {
        memory.o.fill(UNTOUCHED).unwrap();
        memory.values.iter_mut().for_each(|of| of.fill(UNTOUCHED).unwrap());
        let on = CudaDevice::of(&self.device).unwrap();
        let num_units = merge.records().len() * index(merge.num_kv_heads * merge.num_runs());
        let along_x = match merge.is_listed {
            true => merge.num_blocks.into(),
            false => u32::try_from(num_units).unwrap(),
        };
        let shape = LaunchShape {
            grid: [along_x, merge.blocks_per_unit, 1],
            block: [NUM_THREADS, 1, 1],
            cluster: [1; 3],
            dynamic_smem_bytes: 0,
            programmatic: false,
        };
        let queue = on.queue(self.stream.stream()).unwrap();
        // SAFETY: the addresses are of memory that lives until the stream is waited for, as large as
        // the problem says.
        #[expect(unsafe_code, reason = "addresses are handed to a kernel")]
        unsafe { self.kernel.launch(&queue, &shape, &params(merge, memory)) }.unwrap();
        drop(queue);
        self.stream.synchronize().unwrap();
        let read = |of: &DeviceMemory| of.read::<u8>(0, index(of.bytes())).unwrap();
        (read(&memory.o), [0, 1, 2].map(|at| read(&memory.values[at])))
    }
}

fn width(o_type: OutputType) -> usize {
    if o_type == OutputType::F32 { 4 } else { 2 }
}

/// An element of O, and half a unit of its last place as a share of it.
fn o_at(o: &[u8], at: usize, o_type: OutputType) -> (f64, f64) {
    let bits = |at: usize| u16::from_le_bytes([o[2 * at], o[2 * at + 1]]);
    match o_type {
        OutputType::F16 => (half_to_f64(bits(at)), f64::from(2_f32.powi(-11))),
        OutputType::Bf16 => {
            (f32::from_bits(u32::from(bits(at)) << 16).into(), f64::from(2_f32.powi(-8)))
        }
        OutputType::F32 => (f32::from_le_bytes(o[4 * at..][..4].try_into().unwrap()).into(), 0.0),
    }
}

fn half_to_f64(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    match exponent {
        0 => sign * fraction * f64::from(2_f32.powi(-14)),
        _ => sign * (1.0 + fraction) * f64::from(2_f32.powi(exponent - 15)),
    }
}

fn params(merge: &Merge, memory: &Memory) -> Params {
    let (o, values) = merge.strides();
    let row_output = |of: &DeviceMemory| RowOutput {
        data: of.addr(),
        batch_stride: values[0].into(),
        start_stride: if values[0] == 0 { values[1].into() } else { 0 },
        row_stride: values[1].into(),
        head_stride: values[2].into(),
        num_rows: if values[0] == 0 { 0 } else { merge.max_len().into() },
    };
    let sink = match merge.has_sink {
        true => HeadValues { data: memory.sink.addr(), batch_stride: 0, head_stride: 1 },
        false => HeadValues::default(),
    };
    let (pack, runs) = (merge.pack.unsigned_abs(), merge.num_runs().unsigned_abs());
    let op = SdpaFwdParams {
        q: RowTensor::default(),
        k: RowTensor::default(),
        v: RowTensor::default(),
        o: RowTensor {
            data: memory.o.addr(),
            batch_stride: o[0].into(),
            row_stride: o[1].into(),
            head_stride: o[2].into(),
        },
        lse: row_output(&memory.values[0]),
        max: row_output(&memory.values[1]),
        sum_exp: row_output(&memory.values[2]),
        sink,
        table_k: PageTable::default(),
        table_v: PageTable::default(),
        q_rows: SideRows { num_rows: merge.max_len().into(), ..SideRows::default() },
        kv_rows: SideRows::default(),
        score: ScoreParams {
            scale: 1.0,
            scale_log2: std::f32::consts::LOG2_E,
            lag_log2: 0.0,
            soft_cap: 0.0,
            inv_soft_cap: 0.0,
            band: Band { left: 0, right: 0, is_bottom_right: 0, is_bounded: 0 },
            alibi_is_bottom_right: 0,
            alibi: HeadValues::default(),
            bias: Bias::default(),
        },
        heads: Heads {
            num_q_heads: merge.num_q_heads(),
            num_kv_heads: merge.num_kv_heads,
            group: merge.group,
            num_runs: merge.num_runs(),
            pack: Divisor::new(pack),
            runs: Divisor::new(runs),
        },
        page_size: Divisor::default(),
        error_word: 0,
        fills_o: 0,
        batch: i64::try_from(merge.q_lens.len()).unwrap(),
        head_dim_qk: 8,
        head_dim_v: merge.head_dim_v,
        o_type: merge.o_type,
        lse_is_base2: merge.is_base2.into(),
    };
    let head_units = merge.num_kv_heads.unsigned_abs() * runs;
    let partials = Partials {
        prefix: if merge.is_listed { memory.places.addr() } else { 0 },
        out: memory.out.addr(),
        stats: memory.stats.addr(),
        slot_rows: merge.block_m,
        unit_places: i32::try_from(merge.tiles[0] + 1).unwrap(),
        blocks: Divisor::new(merge.num_blocks.into()),
    };
    let order = if merge.is_listed {
        Schedule::listed(memory.records.addr(), memory.header.addr(), head_units)
    } else {
        let num_pairs = u32::try_from(merge.q_lens.len()).unwrap() * head_units;
        Schedule::counted(Sections::new(1, num_pairs, 1 + num_pairs / 2), head_units)
    };
    let (schedule, band_tokens) = (Schedule { partials, ..order }, merge.band_tokens());
    Params { op, schedule, band_tokens, unused: 0 }
}
