//! Packed-length setup on the GPU of this computer.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/seqlens.rs"]
mod seqlens;

use std::sync::Arc;

use frazil_conformance::cuda::{CudaMemory, SetupEngine};
use frazil_conformance::skip;
use frazil_cuda::Artifacts;
use seqlens::Setup;

/// The first GPU, or why there is none to test on.
fn gpu() -> Result<Setup, String> {
    let device = frazil_cuda::device(0).map_err(|error| format!("no GPU: {error}"))?;
    let nvrtc = frazil_cuda::nvrtc::nvrtc().map_err(|error| format!("no NVRTC: {error}"))?;
    let artifacts = Arc::new(Artifacts::new(nvrtc, None));
    Ok(Setup::new(SetupEngine::registered(artifacts), CudaMemory::new(device).unwrap()))
}

macro_rules! gpu_or_skip {
    () => {
        match gpu() {
            Ok(setup) => setup,
            Err(why) => return skip::because(why),
        }
    };
}

#[test]
fn setup_is_right_whatever_the_tensors_hold() {
    gpu_or_skip!().whatever_the_tensors_hold(&[0, 1, 31, 32, 33, 1024]);
}

#[test]
fn setup_is_right_for_problems_drawn_at_random() {
    gpu_or_skip!().drawn_problems(300);
}

#[test]
fn setup_is_right_for_any_number_of_sequences() {
    gpu_or_skip!().thousands_of_sequences(&[255, 256, 257, 5000, 100_003]);
}

#[test]
fn setup_is_right_up_to_the_end_of_an_int32() {
    gpu_or_skip!().rows_up_to_the_end_of_an_int32();
}
