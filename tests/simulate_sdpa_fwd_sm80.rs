//! The engine for compute capability 8.0 and later with no GPU: small cases of ours on simulated ones,
//! against the f64 reference, with nothing found by the simulator.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;
#[path = "common/here.rs"]
mod here;
#[path = "common/sdpa_fwd.rs"]
mod sdpa_fwd;

use std::sync::Arc;

use common::own_cases;
use frazil::target::fixtures;
use frazil::{DeviceProps, Target};
use frazil_conformance::case::Case;
use frazil_conformance::generator::Aim;
use frazil_conformance::run::Entry;
use frazil_cuda::compile::Arch;
use frazil_cuda::sim::Simulation;
use frazil_cuda::{Artifacts, simulated};
use here::or_skip;
use sdpa_fwd::{Count, any_answer, run, sm80_router};

/// Work on live rows of the largest case that is run every time.
const MAX_FLOPS: u64 = 600_000;

/// Runs cases on a simulated GPU, with the compiler of this computer; nothing is found by the simulator.
/// Launches count their seeds up from the first.
fn look(
    mut target: Target,
    first_seed: u64,
    cases: impl Iterator<Item = Case>,
) -> Result<Count, String> {
    let nvrtc = here::nvrtc()?;
    let arch = Arch::of(&target).unwrap();
    let version = nvrtc.build().version;
    if version < arch.since() {
        return Err(format!("NVRTC {version} does not know {arch}"));
    }
    target.toolchain.nvrtc = Some(nvrtc.props());
    let device = simulated(&target).unwrap();
    let simulation = Simulation::of(&device).unwrap();
    simulation.set_seed(first_seed);
    let artifacts = Arc::new(Artifacts::new(nvrtc, None));
    let entries: Vec<Entry> = cases.map(Entry::from).map(any_answer).collect();
    let count = run(&device, &sm80_router(&artifacts), &entries, 1);
    eprintln!("{arch}: {count:?} of {} cases", entries.len());
    assert_eq!(simulation.misuses(), []);
    assert_eq!(simulation.findings(), []);
    assert_eq!(count.right + count.declined, entries.len(), "a case contradicts itself");
    assert!(count.right > 0, "{count:?}");
    Ok(count)
}

/// Every `stride`-th of the small cases, from the `first` on.
fn small_cases(first: usize, stride: usize) -> impl Iterator<Item = Case> {
    let cases = own_cases().into_iter().flat_map(|(_, cases)| cases);
    cases.filter(|case| case.live_flops() <= MAX_FLOPS).skip(first).step_by(stride)
}

#[test]
fn small_cases_are_right_on_sm80() {
    or_skip!(look(fixtures::sm80(), 0, small_cases(0, 4)));
}

#[test]
fn small_cases_are_right_on_sm90() {
    or_skip!(look(fixtures::sm90(), 0, small_cases(1, 8)));
}

/// The least of those that are drawn for matrix units.
#[test]
fn small_generated_cases_are_right() {
    let drawn = (0..400).map(|seed| Aim::MatrixUnits.case_from_seed(seed));
    let small = drawn.filter(|case| case.note.is_none() && case.live_flops() <= MAX_FLOPS);
    let count = or_skip!(look(fixtures::sm80(), 2, small.take(12)));
    assert_eq!(count.declined, 0, "{count:?}");
}

/// A GPU that holds two blocks on each of so many multiprocessors.
fn gpu_of(num_sms: u32) -> Target {
    let mut target = fixtures::sm80();
    let DeviceProps::Cuda(gpu) = &mut target.device else { unreachable!("a fixture of a GPU") };
    gpu.num_sms = num_sms;
    target
}

fn cases_of(file: &str) -> impl Iterator<Item = Case> {
    let (_, cases) = own_cases().into_iter().find(|(name, _)| *name == file).unwrap();
    cases.into_iter()
}

/// Two blocks take one unit after another, with a list and without.
#[test]
fn small_batches_are_right_where_blocks_have_many_units() {
    let cases = cases_of("sdpa_fwd_storage").chain(cases_of("sdpa_fwd_edges"));
    let small = cases.filter(|case| case.live_flops() <= MAX_FLOPS).skip(2).step_by(4);
    let count = or_skip!(look(gpu_of(1), 1, small));
    assert!(count.without_list > 20, "{count:?}");
}

/// Few rows against many keys. Those of many queries are long runs, and nothing is cut.
fn few_rows() -> impl Iterator<Item = Case> {
    cases_of("sdpa_fwd_decode").filter(|case| case.seqlen_q <= 8)
}

/// On so few that pieces have several tiles: each number cuts elsewhere. Small cases are run twice, and
/// must give the same bits.
#[test]
fn pieces_of_units_are_merged_on_three_multiprocessors() {
    let count = or_skip!(look(gpu_of(3), 0, few_rows().step_by(2)));
    assert!(count.cut > 20, "{count:?}");
}

#[test]
fn pieces_of_units_are_merged_on_eleven_multiprocessors() {
    let count = or_skip!(look(gpu_of(11), 1, few_rows().skip(1).step_by(2)));
    assert!(count.cut > 20, "{count:?}");
}

/// It is one block's after all: a merge would put what nobody has left in the place of its rows.
#[test]
fn a_unit_that_is_cut_behind_its_first_place_alone_is_not_merged() {
    // Three launches a call: copies of the second are late in another way for each of these.
    for seed in 0..3 {
        let it = few_rows().filter(|case| case.name == "decode_cut_behind_first_place");
        let count = or_skip!(look(gpu_of(3), seed, it));
        assert_eq!(count, Count { right: 1, declined: 0, cut: 1, without_list: 0 });
    }
}
