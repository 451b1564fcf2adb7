//! An engine of another crate, in one file: it registers, ranks after ours, and is held to the
//! suite by the conformance library.
//!
//! It serves dense f32 attention with a band, the plainest way, and declines the rest.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::sync::Arc;

use frazil::{
    Align, Band, BuildError, Call, Candidate, Compiled, Config, DType, Device, DeviceId,
    DeviceProps, Engine, EngineId, EngineRegistration, Error, Facts, Feature, FeatureSet, Launch,
    Launches, Layout, Maturity, Plan, Role, Router, SdpaFwdFacts, Support, Target, Unsupported,
    View, inventory,
};
use frazil_conformance::case::BiasCase;
use frazil_conformance::run::Entry;
use frazil_conformance::suite::run_suite;

const ID: EngineId = EngineId::new("example/sdpa_fwd_plain");

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
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        let Facts::SdpaFwd(facts) = facts else {
            return Err(Unsupported::Operation { found: facts.op_name() });
        };
        if !matches!(target.device, DeviceProps::Host(_)) {
            let found = target.device.to_string();
            return Err(Unsupported::Device { found, need: "the host" });
        }
        for role in [Role::Q, Role::K, Role::V, Role::O] {
            if let Some(found) = facts.dtype(role).filter(|&found| found != DType::F32) {
                let tensor = role.name();
                return Err(Unsupported::DType { tensor, found, served: "f32" });
            }
        }
        let candidate = Candidate {
            config: Config::default(),
            workspace: Layout::new(),
            launches: Launches::Own(vec!["example_sdpa_fwd_plain".into()]),
            error_word: None,
            overrides: None,
        };
        Ok(Support::one(candidate))
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let Facts::SdpaFwd(facts) = plan.facts() else { unreachable!("what check_support took") };
        if device.id() != DeviceId::Host {
            let found = device.id().to_string();
            return Err(Error::WrongDevice { found, need: "the host".into() }.into());
        }
        Ok(Box::new(Ready(facts.clone())))
    }
}

struct Ready(SdpaFwdFacts);

impl Launch for Ready {
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        let tensor = |role| call.view(role).map(Tensor);
        let (Some(q), Some(k), Some(v), Some(o)) =
            (tensor(Role::Q), tensor(Role::K), tensor(Role::V), tensor(Role::O))
        else {
            unreachable!("core has checked the bindings");
        };
        let [batch, heads, rows] = [0, 1, 2].map(|axis| q.0.geometry.extent(axis));
        for index in 0..batch * heads * rows {
            let (b, h, i) = (index / rows / heads, index / rows % heads, index % rows);
            let lse = self.row([b, h, i], [&q, &k, &v], &o);
            if let Some(output) = tensor(Role::Lse) {
                output.write([b, h, i, 0], lse);
            }
        }
        Ok(())
    }
}

impl Ready {
    /// One row of O; gives its LSE. Two passes, no workspace.
    fn row(&self, [b, h, i]: [u64; 3], [q, k, v]: [&Tensor; 3], o: &Tensor) -> f32 {
        let shape = self.0.shape();
        let kv_head = h / (shape.num_q_heads / shape.num_kv_heads);
        let (len_q, len_kv) = (q.0.geometry.extent(2), k.0.geometry.extent(2));
        let seen = |j: &u64| sees(self.0.band(), i, *j, (len_q, len_kv));
        let score = |j: u64| {
            let products = (0..shape.head_dim_qk)
                .map(|d| f64::from(q.read([b, h, i, d])) * f64::from(k.read([b, kv_head, j, d])));
            f64::from(self.0.softmax_scale()) * products.sum::<f64>()
        };
        let keys = || (0..len_kv).filter(seen);
        let columns = || (0..shape.head_dim_v).map(|d| [b, h, i, d]);
        let max = keys().map(score).fold(f64::NEG_INFINITY, f64::max);
        columns().for_each(|index| o.write(index, 0.0));
        let mut sum = 0.0;
        for j in keys() {
            let weight = (score(j) - max).exp();
            sum += weight;
            for index in columns() {
                let value = v.read([b, kv_head, j, index[3]]);
                o.write(index, o.read(index) + to_f32(weight) * value);
            }
        }
        if sum > 0.0 {
            columns().for_each(|index| o.write(index, o.read(index) / to_f32(sum)));
        }
        to_f32(max + sum.ln())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the type of the tensors")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

fn sees(band: Option<Band>, i: u64, j: u64, (len_q, len_kv): (u64, u64)) -> bool {
    let Some(band) = band else { return true };
    let [i, j, len_q, len_kv] = [i, j, len_q, len_kv].map(|n| i64::try_from(n).unwrap());
    let diagonal = i + match band.align {
        Align::TopLeft => 0,
        Align::BottomRight => len_kv - len_q,
    };
    band.left.is_none_or(|left| j >= diagonal - i64::from(left))
        && band.right.is_none_or(|right| j <= diagonal + i64::from(right))
}

/// An f32 tensor of the host.
struct Tensor(View);

impl Tensor {
    fn address(&self, index: [u64; 4]) -> *mut f32 {
        let geometry = &self.0.geometry;
        let offset: u64 =
            (0..geometry.rank()).map(|axis| index[axis] * geometry.stride(axis)).sum();
        let address = usize::try_from(self.0.addr + offset * 4).unwrap();
        std::ptr::with_exposed_provenance_mut(address)
    }

    fn read(&self, index: [u64; 4]) -> f32 {
        // SAFETY: core has checked that the buffer covers every index of the geometry, and its
        // maker promised the memory and exposed its provenance.
        #[expect(unsafe_code, reason = "host memory by address")]
        unsafe {
            self.address(index).read()
        }
    }

    fn write(&self, index: [u64; 4], value: f32) {
        // SAFETY: as in `read`; core has checked that outputs may be written and overlap nothing.
        #[expect(unsafe_code, reason = "host memory by address")]
        unsafe {
            self.address(index).write(value);
        }
    }
}

#[test]
fn it_registers_and_ranks_after_ours() {
    let router = Router::from_registrations().unwrap();
    let ids: Vec<_> = router.engines().map(|engine| engine.id().as_str().to_owned()).collect();
    assert_eq!(ids, ["sdpa_fwd_cpu", "sdpa_fwd_sm80", ID.as_str()]);

    let mut builder = frazil::GraphBuilder::new();
    let spec = |name| frazil::TensorSpec::contiguous(name, DType::F32, [1, 1, 4, 8]);
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| builder.tensor(spec(name)).unwrap());
    builder.sdpa_fwd(frazil::SdpaFwd::new(q, k, v, o)).unwrap();
    let facts = Arc::new(Facts::read(&builder.finish().unwrap()).unwrap());
    let plans = router.plans(&facts, &Arc::new(Target::host())).unwrap();
    assert_eq!(plans[0].engine().as_str(), "sdpa_fwd_cpu");
    assert_eq!(plans.last().unwrap().engine(), &ID);
}

/// What an author elsewhere writes: their engine, our cases, one call. Cases of the files name the
/// answers of engines in this workspace alone, so any typed answer will do here, and whatever is
/// served must be right.
#[test]
fn it_passes_the_suite() {
    let ours = |registration: &&EngineRegistration| registration.id == ID;
    let registered = inventory::iter::<EngineRegistration>.into_iter().filter(ours);
    let router = Router::collect(registered).unwrap();
    let cases = common::own_cases().into_iter().flat_map(|(_, cases)| cases);
    let small = cases.filter(|case| case.live_flops() <= 20_000_000);
    let entries = small.map(|mut case| {
        // Most cases are in the types of GPUs; all of them make sense in the one that it serves.
        (case.dtype, case.o_dtype) = (DType::F32, None);
        case.bias = case.bias.map(|bias| BiasCase { dtype: DType::F32, ..bias });
        Entry { expect: None, ..case.into() }
    });
    let report = run_suite(&router, &common::host(), entries);
    report.assert_right();
    assert!(report.totals.right >= 10 && report.totals.declined >= 50, "{report}");
}
