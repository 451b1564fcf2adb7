//! Packed-length setup on simulated GPUs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/seqlens.rs"]
mod seqlens;

use std::sync::{Arc, OnceLock};

use frazil::target::fixtures;
use frazil_conformance::cuda::{CudaMemory, SetupEngine};
use frazil_cuda::{Artifacts, sim};
use here::or_skip;
use seqlens::Setup;

/// A GPU of that fixture, with the NVRTC of this computer.
fn gpu(fixture: &str) -> Result<Setup, String> {
    static ARTIFACTS: OnceLock<Arc<Artifacts>> = OnceLock::new();
    let nvrtc = here::nvrtc()?;
    let mut target = fixtures::by_name(fixture).unwrap();
    target.toolchain.nvrtc = Some(nvrtc.props());
    // A driver that loads what this NVRTC compiles.
    target.toolchain.driver = Some(nvrtc.build().version);
    let artifacts = ARTIFACTS.get_or_init(|| Arc::new(Artifacts::new(nvrtc, None)));
    let device = sim::simulated(&target).unwrap();
    let engine = SetupEngine::registered(Arc::clone(artifacts));
    Ok(Setup::new(engine, CudaMemory::new(device).unwrap()))
}

#[test]
fn setup_is_right_whatever_the_tensors_hold() {
    or_skip!(gpu("sm80")).whatever_the_tensors_hold(&[0, 1, 31, 33]);
    or_skip!(gpu("sm90")).whatever_the_tensors_hold(&[0, 32, 1024]);
}

#[test]
fn setup_is_right_for_problems_drawn_at_random() {
    or_skip!(gpu("sm120")).drawn_problems(100);
}

#[test]
fn setup_is_right_for_any_number_of_sequences() {
    or_skip!(gpu("sm90")).thousands_of_sequences(&[255, 256, 257, 5000]);
}

#[test]
#[ignore = "long run: cargo xtask test --long"]
fn setup_is_right_for_a_hundred_thousand_sequences() {
    or_skip!(gpu("sm90")).thousands_of_sequences(&[100_003]);
}

#[test]
fn setup_is_right_up_to_the_end_of_an_int32() {
    or_skip!(gpu("sm100")).rows_up_to_the_end_of_an_int32();
}
