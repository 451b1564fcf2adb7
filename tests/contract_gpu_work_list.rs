//! The work list on the GPU of this computer.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/work_list.rs"]
mod work_list;

use std::sync::Arc;

use frazil_conformance::cuda::CudaMemory;
use frazil_cuda::Artifacts;
use here::or_skip;
use work_list::Lists;

/// The first GPU, or why there is none to test on.
fn gpu() -> Result<Lists, String> {
    let device = here::gpu()?;
    let artifacts = Arc::new(Artifacts::new(here::nvrtc()?, None));
    Ok(Lists::new(artifacts, CudaMemory::new(device).unwrap()))
}

#[test]
fn the_list_is_right_whatever_the_tensors_hold() {
    or_skip!(gpu()).whatever_the_tensors_hold(&[0, 1, 33, 1000]);
}

#[test]
fn the_list_is_right_for_every_band_and_cut() {
    or_skip!(gpu()).every_band_and_cut(33);
    or_skip!(gpu()).every_band_and_cut(1500);
}

#[test]
fn the_list_is_right_for_any_number_of_sequences() {
    or_skip!(gpu()).any_number_of_sequences(&[1000, 1023, 1024, 1025, 5000, 100_003]);
}

#[test]
fn the_list_is_right_for_problems_drawn_at_random() {
    or_skip!(gpu()).drawn_problems(400);
}

#[test]
fn dense_sides_have_a_list_in_natural_order() {
    or_skip!(gpu()).dense_sides_in_natural_order();
}

#[test]
fn the_dearest_bands_come_first() {
    or_skip!(gpu()).costs_of_every_size();
}

#[test]
fn sections_are_cut_for_the_longest_sequence() {
    or_skip!(gpu()).the_longest_sequence();
}

#[test]
fn the_list_is_right_up_to_the_end_of_an_int32() {
    or_skip!(gpu()).costs_up_to_the_end_of_an_int32();
}

#[test]
fn a_list_that_is_full_takes_no_more() {
    or_skip!(gpu()).more_bands_than_there_is_room_for();
}
