//! The work list on simulated GPUs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/work_list.rs"]
mod work_list;

use std::sync::{Arc, OnceLock};

use frazil::target::fixtures;
use frazil_conformance::cuda::CudaMemory;
use frazil_cuda::{Artifacts, sim};
use here::or_skip;
use work_list::Lists;

/// A GPU of that fixture, with the NVRTC of this computer.
fn gpu(fixture: &str) -> Result<Lists, String> {
    static ARTIFACTS: OnceLock<Arc<Artifacts>> = OnceLock::new();
    let nvrtc = here::nvrtc()?;
    let mut target = fixtures::by_name(fixture).unwrap();
    target.toolchain.nvrtc = Some(nvrtc.props());
    // A driver that loads what this NVRTC compiles.
    target.toolchain.driver = Some(nvrtc.build().version);
    let artifacts = ARTIFACTS.get_or_init(|| Arc::new(Artifacts::new(nvrtc, None)));
    let device = sim::simulated(&target).unwrap();
    Ok(Lists::new(Arc::clone(artifacts), CudaMemory::new(device).unwrap()))
}

#[test]
fn the_list_is_right_whatever_the_tensors_hold() {
    or_skip!(gpu("sm80")).whatever_the_tensors_hold(&[0, 1, 33]);
    or_skip!(gpu("sm90")).whatever_the_tensors_hold(&[300]);
}

#[test]
fn the_list_is_right_for_every_band_and_cut() {
    or_skip!(gpu("sm90")).every_band_and_cut(33);
}

#[test]
fn the_list_is_right_for_any_number_of_sequences() {
    or_skip!(gpu("sm100")).any_number_of_sequences(&[1000, 1023, 1024, 1025, 5000]);
}

#[test]
#[ignore = "long run: cargo xtask test --long"]
fn the_list_is_right_for_a_hundred_thousand_sequences() {
    or_skip!(gpu("sm90")).any_number_of_sequences(&[100_003]);
}

#[test]
fn the_list_is_right_for_problems_drawn_at_random() {
    or_skip!(gpu("sm90")).drawn_problems(100);
}

#[test]
fn dense_sides_have_a_list_in_natural_order() {
    or_skip!(gpu("sm80")).dense_sides_in_natural_order();
}

#[test]
fn the_dearest_bands_come_first() {
    or_skip!(gpu("sm80")).costs_of_every_size();
}

#[test]
fn sections_are_cut_for_the_longest_sequence() {
    or_skip!(gpu("sm80")).the_longest_sequence();
}

#[test]
fn the_list_is_right_up_to_the_end_of_an_int32() {
    or_skip!(gpu("sm120")).costs_up_to_the_end_of_an_int32();
}

#[test]
fn a_list_that_is_full_takes_no_more() {
    or_skip!(gpu("sm80")).more_bands_than_there_is_room_for();
}
