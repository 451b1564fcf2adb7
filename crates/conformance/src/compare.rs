//! What came back, against what must be.

use frazil_core::{LseForm, Role};

use crate::case::Case;
use crate::expected::{HeadRows, Reference, Want};
use crate::image::{GUARD_BYTES, Run};
use crate::instance::{Instance, Placed};

/// All findings about one run.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What is wrong, one text for each output and buffer.
    pub(crate) wrong: Vec<String>,
    /// The element that is worst relative to its tolerance.
    pub(crate) worst: Option<Worst>,
}

/// An error and the tolerance of the element that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worst {
    pub(crate) err: f64,
    pub(crate) tol: f64,
}

impl Worst {
    /// Error as a share of the tolerance; no number counts as the worst of all.
    pub(crate) fn ratio(self) -> f64 {
        match (self.err, self.tol) {
            (0.0, _) => 0.0,
            (err, _) if err.is_nan() => f64::INFINITY,
            (err, tol) => err / tol,
        }
    }

    pub(crate) fn worse_of(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.ratio() > a.ratio() { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// Compares every output and every byte that is not one; `images` are the buffers as they came
/// back.
///
/// Each element that the engine must write is judged, then replaced by what was there before, so
/// that afterwards any difference left is a byte that nobody may write.
pub(crate) fn compare(
    case: &Case,
    instance: &Instance,
    reference: &Reference,
    images: &mut [Vec<u8>],
) -> Findings {
    let mut findings = Findings::default();
    let outputs = instance.tensors.iter().filter(|placed| placed.tensor.role.is_output());
    for placed in outputs {
        let image = &mut images[placed.image];
        let before = &instance.images[placed.image].bytes;
        let mut judge = Judge { case, placed, image, before, output: Output::default() };
        judge.all(instance, reference);
        let Output { num_wrong, count, first, num_nan, worst } = judge.output;
        findings.worst = Worst::worse_of(findings.worst, worst);
        if let Some(first) = first {
            findings.wrong.push(format!("{first} ({num_wrong} of {count} wrong, {num_nan} NaN)"));
        }
    }
    for (image, before) in images.iter().zip(&instance.images) {
        findings.wrong.extend(untouched(&before.name, instance, image, &before.bytes));
    }
    findings
}

/// What differs between a buffer and what it held before.
fn untouched(name: &str, instance: &Instance, image: &[u8], before: &[u8]) -> Option<String> {
    if image == before {
        return None;
    }
    let differs = || image.iter().zip(before).enumerate().filter(|(_, (now, then))| now != then);
    let (at, _) = differs().next()?;
    let count = differs().count();
    let body = GUARD_BYTES..before.len() - GUARD_BYTES;
    let place = if at < body.start {
        format!("{} bytes before its start", body.start - at)
    } else if at >= body.end {
        format!("{} bytes past its end", at - body.end)
    } else {
        let at = at - body.start;
        let within = |placed: &&Placed| {
            let first = usize::try_from(placed.tensor.offset_bytes).unwrap_or(usize::MAX);
            let bytes = usize::try_from(placed.span_bytes()).unwrap_or(usize::MAX);
            placed.tensor.buffer == name && (first..first.saturating_add(bytes)).contains(&at)
        };
        let tensor = instance.tensors.iter().find(within);
        let role = tensor.map_or("no tensor", |placed| placed.tensor.role.name());
        format!("byte {at} ({role})")
    };
    Some(format!("buffer `{name}`: {count} bytes written that must not be, first at {place}"))
}

#[derive(Debug, Default)]
struct Output {
    count: usize,
    num_wrong: usize,
    num_nan: usize,
    first: Option<String>,
    worst: Option<Worst>,
}

/// Judges one output.
struct Judge<'a> {
    case: &'a Case,
    placed: &'a Placed,
    image: &'a mut [u8],
    before: &'a [u8],
    output: Output,
}

/// Where an element is: sequence, head, row, column.
type Index = (u64, u64, u64, usize);

impl Judge<'_> {
    fn all(&mut self, instance: &Instance, reference: &Reference) {
        let live = &instance.live;
        let tensor = &self.placed.tensor;
        let (role, geometry) = (tensor.role, tensor.geometry);
        let compared = !(live.q.is_packed() && live.q.rows_overlap());
        let (dead_rows, extent) = match role {
            Role::O if live.q.is_packed() => (false, 0),
            Role::O => (true, geometry.extent(2)),
            _ if live.q.writes_dead_rows(&geometry) => (true, geometry.extent(2)),
            _ => (false, 0),
        };
        let columns = match role {
            Role::O => usize::try_from(self.case.head_dim_v()).unwrap_or(0),
            _ => 1,
        };
        let mut got = Vec::with_capacity(columns);
        for (b, &len) in (0_u64..).zip(&live.q.lens) {
            for h in 0..self.case.num_q_heads {
                let head = reference.head(b, h);
                let end = if dead_rows { extent.max(len) } else { len };
                for i in 0..end {
                    let run = match role {
                        Role::O => self.placed.row(live, b, h, i),
                        _ => self.placed.run(live.q.row_output(&geometry, b, h, i), 0),
                    };
                    if compared {
                        got.clear();
                        run.load(self.image, columns, &mut got);
                        for (column, &got) in got.iter().enumerate() {
                            let want = self.want(role, head, i, column, i < len);
                            self.element(run, (b, h, i, column), got, want);
                        }
                    }
                    run.copy(self.before, self.image, columns);
                }
            }
        }
    }

    /// What an element must be.
    fn want(&self, role: Role, head: &HeadRows, i: u64, column: usize, live: bool) -> Want {
        let row = usize::try_from(i).unwrap_or(usize::MAX);
        let exactly = |value| Want { value, tol: 0.0 };
        match role {
            Role::O | Role::SumExp if !live => exactly(0.0),
            _ if !live => exactly(f64::NEG_INFINITY),
            Role::O => {
                let at = row * usize::try_from(self.case.head_dim_v()).unwrap_or(0) + column;
                Want { value: head.o[at], tol: head.o_tol[at].into() }
            }
            Role::Lse if self.case.lse == Some(LseForm::Base2) => {
                let Want { value, tol } = head.lse[row];
                Want { value: value / std::f64::consts::LN_2, tol: tol / std::f64::consts::LN_2 }
            }
            Role::Lse => head.lse[row],
            Role::Max => head.max[row],
            _ => head.sum_exp[row],
        }
    }

    fn element(&mut self, run: Run, index: Index, got: f32, want: Want) {
        let judged = judge(got, want);
        let output = &mut self.output;
        output.count += 1;
        output.num_nan += usize::from(got.is_nan());
        let ratio = judged.ratio();
        if output.worst.is_none_or(|worst| ratio > worst.ratio()) {
            output.worst = Some(judged);
        }
        if ratio <= 1.0 {
            return;
        }
        output.num_wrong += 1;
        if output.first.is_none() {
            let name = self.placed.tensor.role.name();
            let (b, h, i, d) = index;
            let column = if name == "o" { format!(",d={d}") } else { String::new() };
            let place = format!("{name}[b={b},h={h},i={i}{column}]");
            let got = if run.is_poison(self.image, d) {
                "left unwritten".into()
            } else {
                format!("= {got:?}")
            };
            let Want { value, tol } = want;
            output.first = Some(format!("{place} {got}, want {value:?} within {tol:.3e}"));
        }
    }
}

/// How far a value is from what it must be. An infinity must be met exactly, and so must a zero
/// without tolerance, its sign included.
fn judge(got: f32, Want { value, tol }: Want) -> Worst {
    let right = Worst { err: 0.0, tol };
    let wrong = Worst { err: f64::INFINITY, tol };
    if value.is_nan() {
        return if got.is_nan() { right } else { wrong };
    }
    if value.is_infinite() {
        return if f64::from(got) == value { right } else { wrong };
    }
    if value == 0.0 && tol == 0.0 {
        return if got.to_bits() == 0 { right } else { wrong };
    }
    let err = (f64::from(got) - value).abs();
    Worst { err, tol }
}
