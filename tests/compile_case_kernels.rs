//! The kernels that engines for GPUs make for all the cases there are: how many, and that each compiles
//! and keeps to its registers.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;
#[path = "common/here.rs"]
mod here;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{own_cases, peer_file};
use frazil::target::fixtures;
use frazil::{Compiled, Launches, Plan, Resources, Router, Target};
use frazil_conformance::case::Case;
use frazil_conformance::declare::declare;
use frazil_cuda::Artifacts;
use frazil_cuda::compile::Compiler;
use frazil_engine_sm80::Sm80Engine;
use here::or_skip;
use rayon::prelude::*;

/// Kernels are compiled while users wait, kept on their disks and read by us: few serve all.
const MOST_KERNELS: usize = 120;

/// Every one of so many is compiled for the targets that are not looked at whole.
const SAMPLE: usize = 8;

/// Engines for GPUs, whose kernels come from a store of their own.
fn engines(store: &Arc<Artifacts>) -> Router {
    Router::over([Sm80Engine::with_artifacts(Arc::clone(store)).registered()]).unwrap()
}

fn cases() -> impl Iterator<Item = Case> {
    let own = own_cases().into_iter().flat_map(|(_, cases)| cases);
    own.chain(peer_file().entries.into_iter().flat_map(|entry| entry.runs))
}

/// One plan for each kernel of attention on a target, by the kernel's config.
fn plans(router: &Router, target: Target) -> BTreeMap<String, Plan> {
    let target = Arc::new(target);
    let mut by_kernel = BTreeMap::new();
    for case in cases() {
        let facts = declare(&case).unwrap().facts;
        // What no engine serves is counted in tests/support.rs.
        for plan in router.plans(&facts, &target).unwrap_or_default() {
            by_kernel.entry(plan.name().to_string()).or_insert(plan);
        }
    }
    by_kernel
}

#[test]
fn few_kernels_serve_all_cases() {
    let gpus = fixtures::ALL.into_iter().filter(|(name, _)| *name != "host");
    let router = Router::from_registrations().unwrap();
    let counts: Vec<(&str, usize)> =
        gpus.map(|(name, make)| (name, plans(&router, make()).len())).collect();
    let expected = [
        ("sm80", 119),
        ("sm86", 119),
        ("sm89", 119),
        ("sm90", 119),
        ("sm100", 119),
        ("sm103", 119),
        ("sm120", 119),
        ("sm121", 119),
    ];
    assert_eq!(counts, expected);
    assert!(counts.iter().all(|&(_, count)| count <= MOST_KERNELS));
}

/// What a thread may keep in local memory for want of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Local {
    stack_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
}

impl Local {
    fn of(resources: Resources) -> Self {
        let Resources { stack_bytes, spill_store_bytes, spill_load_bytes, .. } = resources;
        Self { stack_bytes, spill_store_bytes, spill_load_bytes }
    }

    fn fits(self, budget: Self) -> bool {
        self.stack_bytes <= budget.stack_bytes
            && self.spill_store_bytes <= budget.spill_store_bytes
            && self.spill_load_bytes <= budget.spill_load_bytes
    }
}

/// Kernels that may touch local memory, by a part of their config: with 32 rows a warp O and the scores
/// take nearly all 255 registers. What is in their loops is gated by `crates/sass/allowances.toml`.
const BUDGET: [(&str, Local); 2] = [
    (
        "head_dim_qk=128,head_dim_v=128,block_m=128",
        // The most is that of a small batch for sm_90a and later.
        Local { stack_bytes: 40, spill_store_bytes: 48, spill_load_bytes: 72 },
    ),
    (
        "head_dim_qk=96,head_dim_v=96,block_m=128,block_n=64,num_warps=4,num_stages=1,blocks_per_sm=2,page_rows=1",
        Local { stack_bytes: 8, spill_store_bytes: 4, spill_load_bytes: 8 },
    ),
];

/// Whether a kernel keeps to what is stated; nothing, where nothing is.
fn is_within_budget(plan: &str, resources: Resources) -> bool {
    let stated = BUDGET.iter().find(|(part, _)| plan.contains(part));
    Local::of(resources).fits(stated.map_or(Local::default(), |&(_, budget)| budget))
}

#[test]
fn a_kernel_that_keeps_more_in_local_memory_than_is_stated_is_found() {
    let none = Resources { registers: 255, ..Resources::default() };
    let stated = Resources { stack_bytes: 40, spill_store_bytes: 48, spill_load_bytes: 72, ..none };
    let (large, other) = (BUDGET[0].0, "head_dim_qk=64,head_dim_v=64,block_m=128");
    for (plan, resources, is_within) in [
        (other, none, true),
        (large, stated, true),
        (other, Resources { stack_bytes: 8, ..none }, false),
        (other, Resources { spill_load_bytes: 4, ..none }, false),
        (large, Resources { spill_store_bytes: 52, ..stated }, false),
        (large, Resources { spill_load_bytes: 76, ..stated }, false),
    ] {
        assert_eq!(is_within_budget(plan, resources), is_within, "{plan}: {resources:?}");
    }
}

/// Compiles a plan, and lists the kernels of it that are over the budget.
fn over_budget(plan: &Plan) -> Vec<String> {
    let name = plan.name().to_string();
    let kernels = plan.compile().unwrap();
    let Launches::Own(launches) = plan.launches() else { panic!("{name}: a library's") };
    assert_eq!(kernels.len(), launches.len(), "{name}");
    let is_over = |kernel: &Compiled| !is_within_budget(&name, kernel.resources.unwrap());
    let line = |kernel: Compiled| format!("{name} {}: {:?}", kernel.target, kernel.resources);
    kernels.into_iter().filter(is_over).map(line).collect()
}

fn compile_for(target: Target, every: usize) {
    let nvrtc = or_skip!(here::nvrtc());
    let store = Arc::new(Artifacts::new(nvrtc as Arc<dyn Compiler>, None));
    let plans = plans(&engines(&store), target);
    let chosen: Vec<&Plan> = plans.values().step_by(every).collect();
    assert!(chosen.len() > 4, "{}", chosen.len());
    let found: Vec<String> = chosen.par_iter().flat_map_iter(|plan| over_budget(plan)).collect();
    eprintln!("{} plans, {:?}", chosen.len(), store.counts());
    assert_eq!(found, [""; 0], "\n{}", found.join("\n"));
}

#[test]
fn every_kernel_of_the_cases_compiles_for_sm_80_within_its_budget() {
    compile_for(fixtures::sm80(), 1);
}

#[test]
fn a_sample_of_the_kernels_compiles_for_every_other_target() {
    for (name, make) in fixtures::ALL {
        if !["host", "sm80"].contains(&name) {
            compile_for(make(), SAMPLE);
        }
    }
}

#[test]
#[ignore = "minutes: every kernel for every target"]
fn every_kernel_compiles_for_every_other_target() {
    for (name, make) in fixtures::ALL {
        if !["host", "sm80"].contains(&name) {
            compile_for(make(), 1);
        }
    }
}
