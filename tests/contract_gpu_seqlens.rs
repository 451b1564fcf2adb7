//! Packed-length setup on the GPU of this computer.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/seqlens.rs"]
mod seqlens;

use std::sync::Arc;

use frazil_conformance::cuda::{CudaMemory, SetupEngine};
use frazil_cuda::Artifacts;
use here::or_skip;
use seqlens::Setup;

/// The first GPU, or why there is none to test on.
fn gpu() -> Result<Setup, String> {
    let device = here::gpu()?;
    let artifacts = Arc::new(Artifacts::new(here::nvrtc()?, None));
    Ok(Setup::new(SetupEngine::registered(artifacts), CudaMemory::new(device).unwrap()))
}

#[test]
fn setup_is_right_whatever_the_tensors_hold() {
    or_skip!(gpu()).whatever_the_tensors_hold(&[0, 1, 31, 32, 33, 1024]);
}

#[test]
fn setup_is_right_for_problems_drawn_at_random() {
    or_skip!(gpu()).drawn_problems(300);
}

#[test]
fn setup_is_right_for_any_number_of_sequences() {
    or_skip!(gpu()).thousands_of_sequences(&[255, 256, 257, 5000, 100_003]);
}

#[test]
fn setup_is_right_up_to_the_end_of_an_int32() {
    or_skip!(gpu()).rows_up_to_the_end_of_an_int32();
}
