//! An engine of your own in one file, held to the conformance suite.
//!
//! ```sh
//! cargo run --example 04-your-own-engine
//! ```
//!
//! Copy this file into a crate that depends on `frazil-core` and replace `Ready::launch` by your
//! kernel. The parts are an [`EngineRegistration`], which makes every router of the program ask;
//! an [`Engine`], which says yes or says why not and never touches a device before `build`; and a
//! [`Launch`], which queues the work of one call. Core has then checked every binding, so an
//! engine repeats no check: it declines what it does not want to see.
//!
//! This one serves contiguous f32 attention with a band on the host, and nothing else.

#![allow(
    clippy::cast_possible_truncation,
    reason = "extents and addresses are of this host, and results are rounded to f32"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use frazil::{
    Band, BuildError, Call, Candidate, Compiled, Config, DType, Device, DeviceId, DeviceProps,
    Engine, EngineId, EngineRegistration, Facts, Feature, FeatureSet, Geometry, Launch, Launches,
    Layout, LseForm, Maturity, Plan, Role, Router, SdpaFwdFacts, Support, Target, Unsupported,
    View, inventory,
};
use frazil_conformance::case::{Case, CaseFile, Places, RowLayout, SideCase};
use frazil_conformance::declare::declare;
use frazil_conformance::generator::case_from_seed;
use frazil_conformance::memory::HostMemory;
use frazil_conformance::run::Entry;
use frazil_conformance::suite::{Report, run_suite};

/// `vendor/operation_architecture`. Names of frazil's own engines have no vendor.
const ID: EngineId = EngineId::new("acme/sdpa_fwd_plain");

/// What `Plan::launches` promises, and for a GPU what a captured graph must show.
const KERNEL: &str = "acme_sdpa_fwd_plain";

// Whatever is not named here is declined before the engine is asked, features of later versions
// included.
inventory::submit! {
    EngineRegistration {
        id: ID,
        features: FeatureSet::of(&[Feature::Band, Feature::LseNatural]),
        maturity: Maturity::Silicon { device: "any host", date: "2026-11-29" },
        package: env!("CARGO_CRATE_NAME"),
        construct: || Arc::new(Plain),
    }
}

#[derive(Debug)]
struct Plain;

impl Engine for Plain {
    /// Every reason carries what was found and what would do; the first one that applies is given.
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        let DeviceProps::Host(_) = target.device else {
            let found = target.device.to_string();
            return Err(Unsupported::Device { found, need: "the host" });
        };
        let Facts::SdpaFwd(sdpa) = facts else {
            return Err(Unsupported::Operation { found: facts.op_name() });
        };
        for role in [Role::Q, Role::K, Role::V, Role::O, Role::Lse] {
            let Some(port) = sdpa.ports().get(role) else { continue };
            let (tensor, found) = (role.name(), port.desc().dtype());
            if found != DType::F32 {
                return Err(Unsupported::DType { tensor, found, served: "f32" });
            }
            check_contiguous(tensor, port.desc().geometry())?;
        }
        Ok(Support::one(candidate()))
    }

    /// Nothing here is compiled at run time. An engine with kernels makes them here, and `build`
    /// finds them.
    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let Facts::SdpaFwd(facts) = plan.facts() else {
            return Err(frazil::Error::ForeignPlan { name: plan.name() }.into());
        };
        if device.id() != DeviceId::Host {
            let (found, need) = (device.id().to_string(), "the host".into());
            return Err(frazil::Error::WrongDevice { found, need }.into());
        }
        Ok(Box::new(Ready { facts: facts.clone() }))
    }
}

/// One way to do it, without scratch. Tiles, stages and the like would be named in the config.
fn candidate() -> Candidate {
    Candidate {
        config: Config::default(),
        workspace: Layout::new(),
        launches: Launches::Own(vec![KERNEL.into()]),
        error_word: None,
        overrides: None,
    }
}

/// Row-major without gaps. The stride of an extent of 1 means nothing, and an empty tensor has none
/// that would matter.
fn check_contiguous(tensor: &'static str, geometry: &Geometry) -> Result<(), Unsupported> {
    let extents = || (0..geometry.rank()).map(|axis| geometry.extent(axis));
    if extents().any(|extent| extent == 0) {
        return Ok(());
    }
    let mut need = 1;
    for axis in (0..geometry.rank()).rev() {
        let (extent, found) = (geometry.extent(axis), geometry.stride(axis));
        if extent > 1 && found != need {
            return Err(Unsupported::Stride { tensor, axis, found, served: "row-major" });
        }
        need *= extent;
    }
    Ok(())
}

/// A plan made ready. A GPU engine would hold its loaded kernel here.
struct Ready {
    facts: SdpaFwdFacts,
}

impl Launch for Ready {
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), frazil::Error> {
        // SAFETY: core has checked the call against the plan, and these are its tensors, which
        // `check_support` found contiguous and f32.
        let [q, k, v] = [Role::Q, Role::K, Role::V].map(|role| unsafe { input(call.view(role)) });
        // SAFETY: as above; core has also checked that outputs overlap nothing.
        let [o, lse] = [Role::O, Role::Lse].map(|role| unsafe { output(call.view(role)) });
        attention(&self.facts, [q, k, v], o, lse);
        Ok(())
    }
}

/// The elements of a tensor, none where there is no such tensor.
///
/// # Safety
///
/// The view is of a live call, and its tensor f32 and contiguous.
unsafe fn input<'a>(view: Option<View>) -> &'a [f32] {
    match view.map(|view| (view.addr, view.geometry.span() as usize)) {
        // SAFETY: core has checked that the buffer holds the span, aligned and initialised, and
        // whoever made it from an address has exposed its provenance.
        Some((addr, len)) if len > 0 => unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(addr as usize), len)
        },
        _ => &[],
    }
}

/// The elements of an output, none where there is no such tensor.
///
/// # Safety
///
/// As [`input`], and the tensor is an output of the call that is taken once.
unsafe fn output<'a>(view: Option<View>) -> &'a mut [f32] {
    match view.map(|view| (view.addr, view.geometry.span() as usize)) {
        // SAFETY: as in `input`; outputs share no address with any other tensor.
        Some((addr, len)) if len > 0 => unsafe {
            std::slice::from_raw_parts_mut(
                std::ptr::with_exposed_provenance_mut(addr as usize),
                len,
            )
        },
        _ => &mut [],
    }
}

/// The kernel: the plainest attention there is, `[B, H, S, D]`, in f64, two passes over the keys.
fn attention(facts: &SdpaFwdFacts, [q, k, v]: [&[f32]; 3], o: &mut [f32], lse: &mut [f32]) {
    let shape = facts.shape();
    let [heads, kv_heads, columns, columns_v, len_q, len_kv] = [
        shape.num_q_heads,
        shape.num_kv_heads,
        shape.head_dim_qk,
        shape.head_dim_v,
        shape.q.rows,
        shape.kv.rows,
    ]
    .map(|number| number as usize);
    for (row, o) in o.chunks_exact_mut(columns_v).enumerate() {
        let (b, h, i) = (row / len_q / heads, row / len_q % heads, row % len_q);
        let kv_head = b * kv_heads + h / (heads / kv_heads);
        let score = |j: usize| {
            let q = &q[row * columns..][..columns];
            let k = &k[(kv_head * len_kv + j) * columns..][..columns];
            let product: f64 = q.iter().zip(k).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
            f64::from(facts.softmax_scale()) * product
        };
        let visible = |&j: &usize| sees(facts.band(), [i, j], [len_q, len_kv]);
        let scores: Vec<(usize, f64)> =
            (0..len_kv).filter(visible).map(|j| (j, score(j))).collect();
        let max = scores.iter().map(|&(_, score)| score).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|(_, score)| (score - max).exp()).sum();
        for (d, o) in o.iter_mut().enumerate() {
            let value = |j: usize| f64::from(v[(kv_head * len_kv + j) * columns_v + d]);
            let weighted = scores.iter().map(|&(j, score)| (score - max).exp() / sum * value(j));
            // No visible key: +0, as the sum of nothing; its LSE is -inf.
            *o = weighted.fold(0.0, |sum, term| sum + term) as f32;
        }
        if let Some(lse) = lse.get_mut(row) {
            *lse = (max + sum.ln()) as f32;
        }
    }
}

/// Whether query `i` sees key `j`.
fn sees(band: Option<Band>, [i, j]: [usize; 2], [len_q, len_kv]: [usize; 2]) -> bool {
    let Some(band) = band else { return true };
    let diagonal = i as i64 + band.align.offset(len_q as i64, len_kv as i64);
    let j = j as i64;
    band.left.is_none_or(|left| j >= diagonal - i64::from(left))
        && band.right.is_none_or(|right| j <= diagonal + i64::from(right))
}

/// Cases of our own, with the answers that we promise. `frazil check` runs such files too.
const CASES: &str = r#"
[[case]]
name = "grouped_causal"
dtype = "f32"
batch = 2
num_q_heads = 6
num_kv_heads = 2
head_dim_qk = 16
seqlen_q = 5
seqlen_kv = 9
band = { align = "bottom_right", right = 0 }
lse = "natural"
answers = { "acme/sdpa_fwd_plain" = "served" }

[[case]]
name = "half_precision"
dtype = "bf16"
batch = 1
num_q_heads = 1
num_kv_heads = 1
head_dim_qk = 16
seqlen_q = 4
seqlen_kv = 4
answers = { "acme/sdpa_fwd_plain" = "DType" }

[[case]]
name = "token_major"
dtype = "f32"
batch = 1
num_q_heads = 2
num_kv_heads = 2
head_dim_qk = 16
seqlen_q = 4
seqlen_kv = 4
place = { q = { strides = [128, 16, 32, 1] } }
answers = { "acme/sdpa_fwd_plain" = "Stride" }

[[case]]
name = "a_sink"
dtype = "f32"
batch = 1
num_q_heads = 2
num_kv_heads = 2
head_dim_qk = 16
seqlen_q = 4
seqlen_kv = 4
sink = "as_inputs"
answers = { "acme/sdpa_fwd_plain" = "Feature(sink)" }
"#;

/// The example, printing to `out`.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let cases = CaseFile::parse(CASES)?.cases;

    writeln!(out, "asked by the router, beside the engines of frazil:\n")?;
    let router = Router::from_registrations()?;
    for case in &cases {
        let explanation = router.explain(&declare(case)?.facts, &Arc::new(Target::host()));
        writeln!(out, "{}\n{explanation}", case.name)?;
    }

    // The suite, over this engine alone: what it answers, and that what it serves is right. Memory
    // around tensors is guarded and what may not be read is poisoned.
    let ours = inventory::iter::<EngineRegistration>.into_iter().filter(|engine| engine.id == ID);
    let router = Router::collect(ours)?;
    let host = HostMemory::new(frazil::cpu::host());
    let report = run_suite(&router, &host, cases);
    report.assert_right();
    writeln!(out, "our cases: {report}")?;

    // Graphs drawn at random, as they come and reduced to what may be served. Any answer will do,
    // and what is served must be right. A note says that core itself refuses the graph.
    let drawn = (0..300).map(case_from_seed).filter(|case| case.note.is_none());
    let drawn = drawn.flat_map(|case| [case.clone(), reduced(case)]);
    let entries = drawn.map(|case| Entry { expect: None, ..case.into() });
    let report = run_suite(&router, &host, entries);
    report.assert_right();
    writeln!(out, "drawn graphs: {report}")?;
    for (reason, count) in reasons(&report) {
        writeln!(out, "{count:>5}  {reason}")?;
    }
    Ok(())
}

/// The same extents, heads, band and values without all that the engine lacks.
fn reduced(mut case: Case) -> Case {
    (case.dtype, case.o_dtype) = (DType::F32, None);
    (case.q, case.kv) = (SideCase::Dense, SideCase::Dense);
    (case.bias, case.alibi, case.sink, case.soft_cap) = (None, None, None, None);
    (case.dropout, case.block_mask, case.max, case.sum_exp) = (None, false, false, false);
    case.lse = case.lse.map(|_| LseForm::Natural);
    (case.row_outputs, case.place, case.declared) = (RowLayout::Natural, Places::default(), None);
    case.error_word.clear();
    case
}

/// How often each reason for a decline was given.
fn reasons(report: &Report) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    let given = report.verdicts.iter().filter_map(|verdict| verdict.reason.as_deref());
    given.for_each(|reason| *counts.entry(reason).or_default() += 1);
    counts
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}
