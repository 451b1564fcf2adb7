//! A plain f32 engine on the host, right unless told to be wrong in one way.

#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test's engine")]

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use frazil_conformance::memory::HostMemory;
use frazil_core::{
    Align, Band, BuildError, Call, Candidate, Compiled, Config, DType, Device, DeviceHandle,
    DeviceId, DeviceProps, Engine, EngineId, Error, ErrorWord, Facts, Feature, FeatureSet, Launch,
    Launches, Layout, LseForm, Maturity, MemoryAt, OverrideRules, Plan, Region, RegisteredEngine,
    Role, SdpaFwdFacts, SideFacts, Support, Target, Unsupported, View,
};
use frazil_router::Router;
use half::{bf16, f16};

/// A way to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    DropsLastKey,
    IgnoresBand,
    IgnoresSink,
    WritesPastRow,
    WritesBeforeOutput,
    WritesInput,
    WritesPastWorkspace,
    LeavesRow,
    FillsDeadRowsWithMinusZero,
    ReadsPastLength,
    UsesScratch,
    CountsExecutes,
    WrongErrorWord,
    IgnoresPageTable,
    Fails,
    Panics,
    PanicsWhenAsked,
    DeclinesEveryDevice,
    DeclinesTheHost,
    DeclinesBuilds,
    DeclinesTheFirstBuild,
}

#[derive(Debug)]
struct Host(Target);

impl DeviceHandle for Host {
    fn target(&self) -> &Target {
        &self.0
    }
    fn id(&self) -> DeviceId {
        DeviceId::Host
    }
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
        Ok(MemoryAt::Unknown)
    }
}

pub(crate) fn host() -> HostMemory {
    HostMemory::new(Device::new(Host(Target::host())))
}

const SERVED: &[Feature] = &[
    Feature::Band,
    Feature::SoftCap,
    Feature::Bias,
    Feature::Alibi,
    Feature::Sink,
    Feature::LseNatural,
    Feature::LseBase2,
    Feature::Max,
    Feature::SumExp,
    Feature::AlibiPerSequence,
    Feature::QPadded,
    Feature::QPackedLengths,
    Feature::QPackedPrefix,
    Feature::QPackedStarts,
    Feature::KvPadded,
    Feature::KvPackedLengths,
    Feature::KvPackedPrefix,
    Feature::KvPackedStarts,
    Feature::KvPaged,
    Feature::PaddedRowOutputs,
];

pub(crate) fn router(fault: Fault) -> Router {
    Router::over([RegisteredEngine::new(
        EngineId::new("test/sdpa_fwd_naive"),
        FeatureSet::of(SERVED),
        Maturity::Simulated,
        env!("CARGO_CRATE_NAME"),
        Arc::new(Naive(fault)),
    )])
    .unwrap()
}

#[derive(Debug)]
struct Naive(Fault);

fn layout() -> (Layout, Region) {
    let mut layout = Layout::new();
    let word = layout.region("error_word", 4);
    (layout, word)
}

impl Engine for Naive {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        let is_declined = match self.0 {
            Fault::PanicsWhenAsked => panic!("asked too much"),
            Fault::DeclinesEveryDevice => true,
            Fault::DeclinesTheHost => matches!(target.device, DeviceProps::Host(_)),
            _ => false,
        };
        if is_declined {
            return Err(Unsupported::Device { found: "this".into(), need: "another" });
        }
        let Facts::SdpaFwd(facts) = facts else {
            return Err(Unsupported::Operation { found: facts.op_name() });
        };
        let (_, word) = layout();
        let candidate = |number| Candidate {
            config: Config::new([("number", number)]),
            workspace: layout().0,
            launches: Launches::Own(Vec::new()),
            error_word: facts.has_device_lengths().then_some(word.offset()),
            overrides: Some(OverrideRules::default()),
        };
        Support::best_first(vec![candidate(0), candidate(1)]).ok_or(Unsupported::Overrides)
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let Facts::SdpaFwd(facts) = plan.facts() else { unreachable!("served nothing else") };
        let number = plan.config().get("number").unwrap();
        let is_declined = match self.0 {
            Fault::DeclinesBuilds => true,
            Fault::DeclinesTheFirstBuild => number == 0,
            _ => false,
        };
        if is_declined {
            return Err(BuildError::Declined(Unsupported::Overrides));
        }
        Ok(Box::new(Built { facts: facts.clone(), fault: self.0, executes: AtomicU32::new(0) }))
    }
}

struct Built {
    facts: SdpaFwdFacts,
    fault: Fault,
    executes: AtomicU32,
}

/// Live rows of a side, as the device tensors say.
struct Side {
    starts: Vec<u64>,
    lens: Vec<u64>,
}

fn element(view: &View, dtype: DType, index: &[u64]) -> u64 {
    let steps = index.iter().enumerate().map(|(axis, i)| i * view.geometry.stride(axis));
    view.addr + steps.sum::<u64>() * dtype.bytes()
}

fn read(addr: u64, dtype: DType) -> f32 {
    let at = std::ptr::with_exposed_provenance::<u8>(usize::try_from(addr).unwrap());
    let mut bytes = [0; 4];
    let count = usize::try_from(dtype.bytes()).unwrap();
    // SAFETY: an element of a tensor that core has checked against its buffer.
    unsafe { std::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), count) };
    match dtype {
        DType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        DType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        _ => f32::from_le_bytes(bytes),
    }
}

fn write(addr: u64, bytes: &[u8]) {
    let at = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(addr).unwrap());
    // SAFETY: an element of a tensor or workspace; or, for a seeded fault, within a guard zone.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
}

fn write_float(addr: u64, dtype: DType, value: f32) {
    match dtype {
        DType::F16 => write(addr, &f16::from_f32(value).to_le_bytes()),
        DType::Bf16 => write(addr, &bf16::from_f32(value).to_le_bytes()),
        _ => write(addr, &value.to_le_bytes()),
    }
}

impl Built {
    fn ints(&self, call: &Call<'_>, role: Role) -> Option<Vec<i64>> {
        let view = call.view(role)?;
        let at = |i| element(&view, DType::I32, &[i]);
        let int = |i| i64::from(read(at(i), DType::F32).to_bits().cast_signed());
        Some((0..view.geometry.extent(0)).map(int).collect())
    }

    fn side(&self, call: &Call<'_>, kv: bool, word: &mut ErrorWord) -> Side {
        let f = &self.facts;
        let (facts, first, second, roles, bits) = if kv {
            let roles = (Role::KvLengths, Role::KvPrefix, Role::KvStarts);
            (f.kv_side(), Role::K, Role::V, roles, (ErrorWord::KV_LENGTH, ErrorWord::KV_ROWS))
        } else {
            let roles = (Role::QLengths, Role::QPrefix, Role::QStarts);
            (f.q_side(), Role::Q, Role::O, roles, (ErrorWord::Q_LENGTH, ErrorWord::Q_ROWS))
        };
        let view = call.view(first).unwrap();
        let Some(bounds) = facts.bounds() else {
            let batch = usize::try_from(view.geometry.extent(0)).unwrap();
            return Side { starts: vec![0; batch], lens: vec![view.geometry.extent(2); batch] };
        };
        let prefix = self.ints(call, roles.1);
        let lengths = self.ints(call, roles.0).unwrap_or_else(|| {
            prefix.iter().flat_map(|p| p.windows(2).map(|pair| pair[1] - pair[0])).collect()
        });
        let mut max = i64::from(bounds.max);
        if let SideFacts::Padded { .. } = facts {
            max = max.min(view.geometry.extent(2).cast_signed());
        }
        let clamped: Vec<i64> = lengths.iter().map(|&len| len.clamp(0, max)).collect();
        if lengths.iter().any(|&len| len > max || len < i64::from(bounds.min)) {
            *word = word.with(bits.0);
        }
        let limit = match facts {
            SideFacts::PackedLengths { max_total, .. }
            | SideFacts::PackedPrefix { max_total, .. }
            | SideFacts::PackedStarts { max_total, .. } => {
                let rows = |role| call.view(role).unwrap().geometry.extent(0).cast_signed();
                i64::from(max_total).min(rows(first)).min(rows(second))
            }
            _ => {
                let lens = clamped.iter().map(|len| len.cast_unsigned()).collect();
                return Side { starts: vec![0; clamped.len()], lens };
            }
        };
        let starts = self.ints(call, roles.2).unwrap_or_else(|| match &prefix {
            Some(prefix) => prefix.iter().map(|row| row - prefix[0]).take(clamped.len()).collect(),
            None => clamped
                .iter()
                .scan(0, |next, len| Some(std::mem::replace(next, *next + len)))
                .collect(),
        });
        let mut side = Side { starts: Vec::new(), lens: Vec::new() };
        for (start, len) in starts.into_iter().zip(clamped) {
            if start < 0 || start + len > limit {
                *word = word.with(bits.1);
            }
            let start = start.clamp(0, limit);
            side.starts.push(start.cast_unsigned());
            side.lens.push(len.min(limit - start).cast_unsigned());
        }
        side
    }

    /// Pages of K and V by sequence.
    fn pages(&self, call: &Call<'_>, role: Role, pool: Role, kv: &Side) -> (Vec<Vec<u64>>, bool) {
        let SideFacts::Paged { page_size, .. } = self.facts.kv_side() else {
            return (vec![Vec::new(); kv.lens.len()], false);
        };
        let (table, pool) = (call.view(role).unwrap(), call.view(pool).unwrap());
        let last = pool.geometry.extent(0).cast_signed() - 1;
        let mut outside = false;
        let pages = (0..).zip(&kv.lens).map(|(b, len)| {
            let page = |t| {
                let at = element(&table, DType::I32, &[b, t]);
                let id = i64::from(read(at, DType::F32).to_bits().cast_signed());
                outside |= id < 0 || id > last;
                if self.fault == Fault::IgnoresPageTable {
                    t
                } else {
                    id.clamp(0, last).cast_unsigned()
                }
            };
            (0..len.div_ceil(page_size)).map(page).collect()
        });
        (pages.collect(), outside)
    }
}

/// Address of an element of Q, K, V or O.
fn at(
    side: SideFacts,
    rows: &Side,
    view: &View,
    dtype: DType,
    pages: &[Vec<u64>],
    index: [u64; 4],
) -> u64 {
    let [b, h, i, d] = index;
    let sequence = usize::try_from(b).unwrap();
    match side {
        SideFacts::Paged { page_size, .. } => {
            let page = pages[sequence][usize::try_from(i / page_size).unwrap()];
            element(view, dtype, &[page, h, i % page_size, d])
        }
        side if side.is_packed() => element(view, dtype, &[rows.starts[sequence] + i, h, d]),
        _ => element(view, dtype, &[b, h, i, d]),
    }
}

impl Launch for Built {
    #[expect(clippy::too_many_lines, reason = "one loop nest, plainly")]
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        match self.fault {
            Fault::Fails => {
                return Err(Error::Driver { call: "cuTest", name: "TEST".into(), code: 7 });
            }
            Fault::Panics => panic!("told to"),
            _ => {}
        }
        let f = &self.facts;
        let mut word = ErrorWord::NONE;
        let q_rows = self.side(call, false, &mut word);
        let kv_rows = self.side(call, true, &mut word);
        let table_v = if call.view(Role::TableV).is_some() { Role::TableV } else { Role::TableK };
        let (pages_k, outside_k) = self.pages(call, Role::TableK, Role::K, &kv_rows);
        let (pages_v, outside_v) = self.pages(call, table_v, Role::V, &kv_rows);
        for (outside, bit) in [(outside_k, ErrorWord::PAGE_K), (outside_v, ErrorWord::PAGE_V)] {
            word = if outside { word.with(bit) } else { word };
        }
        let scratch = call.region(layout().1);
        let count = self.executes.fetch_add(1, Ordering::Relaxed);
        let used = match self.fault {
            Fault::UsesScratch => read(scratch, DType::F32),
            Fault::CountsExecutes => count as f32 / 256.0,
            _ => 0.0,
        };
        if self.fault == Fault::WrongErrorWord {
            word.0 ^= 1;
        }
        write(scratch, &word.0.to_le_bytes());
        if self.fault == Fault::WritesPastWorkspace {
            write(scratch + 256, &[0]);
        }
        let view = |role| call.view(role).unwrap();
        let (q, k, v, o) = (view(Role::Q), view(Role::K), view(Role::V), view(Role::O));
        let dtype = f.dtype(Role::Q).unwrap();
        let o_dtype = f.dtype(Role::O).unwrap();
        let shape = f.shape();
        let no_pages = vec![Vec::new(); q_rows.lens.len()];
        if self.fault == Fault::WritesInput {
            write(k.addr, &[1, 2]);
        }
        for b in 0..q_rows.lens.len() as u64 {
            let (len_q, len_kv) = (q_rows.lens[b as usize], kv_rows.lens[b as usize]);
            let dropped = u64::from(self.fault == Fault::DropsLastKey);
            let extra = u64::from(self.fault == Fault::ReadsPastLength && b + 1 < shape.batch);
            let num_keys = len_kv.saturating_sub(dropped) + extra;
            for h in 0..shape.num_q_heads {
                let kv_head = h / (shape.num_q_heads / shape.num_kv_heads);
                let element_q =
                    |i, d| read(at(f.q_side(), &q_rows, &q, dtype, &no_pages, [b, h, i, d]), dtype);
                let element_k = |j, d| {
                    read(at(f.kv_side(), &kv_rows, &k, dtype, &pages_k, [b, kv_head, j, d]), dtype)
                };
                let element_v = |j, d| {
                    read(at(f.kv_side(), &kv_rows, &v, dtype, &pages_v, [b, kv_head, j, d]), dtype)
                };
                for i in 0..len_q {
                    let mut scores = Vec::new();
                    for j in 0..num_keys {
                        if !self.sees(i, j, (len_q, len_kv)) {
                            continue;
                        }
                        let dot: f32 =
                            (0..shape.head_dim_qk).map(|d| element_q(i, d) * element_k(j, d)).sum();
                        scores.push((j, self.modified(call, dot, [b, h, i, j], (len_q, len_kv))));
                    }
                    let sink = call
                        .view(Role::Sink)
                        .map(|view| read(element(&view, DType::F32, &[h]), DType::F32));
                    let sink = sink.filter(|_| self.fault != Fault::IgnoresSink);
                    let logits = || scores.iter().map(|(_, score)| *score).chain(sink);
                    let max = logits().fold(f32::NEG_INFINITY, f32::max);
                    let exp = |score: f32| {
                        if max == f32::NEG_INFINITY { 0.0 } else { (score - max).exp() }
                    };
                    let sum_exp: f32 = logits().map(exp).sum();
                    if self.fault == Fault::LeavesRow && i + 1 == len_q && h == 0 {
                        continue;
                    }
                    for d in 0..shape.head_dim_v {
                        let sum: f32 =
                            scores.iter().map(|&(j, score)| exp(score) * element_v(j, d)).sum();
                        let value = if sum_exp == 0.0 { 0.0 } else { sum / sum_exp };
                        let addr = at(f.q_side(), &q_rows, &o, o_dtype, &no_pages, [b, h, i, d]);
                        write_float(addr, o_dtype, value + used);
                        if self.fault == Fault::WritesPastRow && d + 1 == shape.head_dim_v {
                            write_float(addr + o_dtype.bytes(), o_dtype, 0.0);
                        }
                        if self.fault == Fault::WritesBeforeOutput
                            && d == 0
                            && b == 0
                            && h == 0
                            && i == 0
                        {
                            write_float(o.addr - o_dtype.bytes(), o_dtype, 0.0);
                        }
                    }
                    self.row_outputs(call, &q_rows, [b, h, i], (max, sum_exp));
                }
                let zero = if self.fault == Fault::FillsDeadRowsWithMinusZero { -0.0 } else { 0.0 };
                if !f.q_side().is_packed() {
                    for i in len_q..o.geometry.extent(2) {
                        for d in 0..shape.head_dim_v {
                            write_float(element(&o, o_dtype, &[b, h, i, d]), o_dtype, zero);
                        }
                    }
                }
                for role in [Role::Lse, Role::Max, Role::SumExp] {
                    let Some(view) = call.view(role).filter(|view| view.geometry.rank() == 3)
                    else {
                        continue;
                    };
                    for i in len_q..view.geometry.extent(2) {
                        let value = if role == Role::SumExp { 0.0 } else { f32::NEG_INFINITY };
                        write_float(element(&view, DType::F32, &[b, h, i]), DType::F32, value);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Built {
    fn sees(&self, i: u64, j: u64, (len_q, len_kv): (u64, u64)) -> bool {
        let Some(Band { align, left, right }) = self.facts.band() else { return true };
        if self.fault == Fault::IgnoresBand {
            return true;
        }
        let off = align.offset(len_q.cast_signed(), len_kv.cast_signed());
        let distance = j.cast_signed() - i.cast_signed() - off;
        left.is_none_or(|left| -distance <= left.into())
            && right.is_none_or(|right| distance <= right.into())
    }

    fn modified(&self, call: &Call<'_>, dot: f32, [b, h, i, j]: [u64; 4], lens: (u64, u64)) -> f32 {
        let f = &self.facts;
        let mut score = f.softmax_scale() * dot;
        if let Some(cap) = f.soft_cap() {
            score = cap * (score / cap).tanh();
        }
        if let Some(bias) = call.view(Role::Bias) {
            let dtype = f.dtype(Role::Bias).unwrap();
            score += read(element(&bias, dtype, &[b, h, i, j]), dtype);
        }
        if let Some((slopes, align)) = call.view(Role::AlibiSlopes).zip(f.alibi()) {
            let index: &[u64] = if slopes.geometry.rank() == 2 { &[b, h] } else { &[h] };
            let slope = read(element(&slopes, DType::F32, index), DType::F32);
            let off = if align == Align::TopLeft {
                0
            } else {
                lens.1.cast_signed() - lens.0.cast_signed()
            };
            score -= slope * (i.cast_signed() + off - j.cast_signed()).abs() as f32;
        }
        score
    }

    fn row_outputs(
        &self,
        call: &Call<'_>,
        rows: &Side,
        [b, h, i]: [u64; 3],
        (max, sum_exp): (f32, f32),
    ) {
        for role in [Role::Lse, Role::Max, Role::SumExp] {
            let Some(view) = call.view(role) else { continue };
            let value = match role {
                Role::Max => max,
                Role::SumExp => sum_exp,
                _ if self.facts.lse() == Some(LseForm::Base2) => {
                    (max + sum_exp.ln()) / std::f32::consts::LN_2
                }
                _ => max + sum_exp.ln(),
            };
            let row = rows.starts[b as usize] + i;
            let addr = if view.geometry.rank() == 2 {
                element(&view, DType::F32, &[row, h])
            } else {
                element(&view, DType::F32, &[b, h, i])
            };
            write_float(addr, DType::F32, value);
        }
    }
}
