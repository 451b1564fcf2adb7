//! Packed-length setup on simulated GPUs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/seqlens.rs"]
mod seqlens;

use std::sync::{Arc, OnceLock};

use frazil::target::fixtures;
use frazil_conformance::cuda::{CudaMemory, SetupEngine};
use frazil_conformance::skip;
use frazil_cuda::nvrtc::{Nvrtc, nvrtc};
use frazil_cuda::{Artifacts, sim};
use seqlens::Setup;

/// A GPU of that fixture, with the NVRTC of this computer.
fn gpu(fixture: &str, nvrtc: Arc<Nvrtc>) -> Setup {
    static ARTIFACTS: OnceLock<Arc<Artifacts>> = OnceLock::new();
    let mut target = fixtures::by_name(fixture).unwrap();
    target.toolchain.nvrtc = Some(nvrtc.props());
    // A driver that loads what this NVRTC compiles.
    target.toolchain.driver = Some(nvrtc.build().version);
    let artifacts = ARTIFACTS.get_or_init(|| Arc::new(Artifacts::new(nvrtc, None)));
    let device = sim::simulated(&target).unwrap();
    Setup::new(SetupEngine::registered(Arc::clone(artifacts)), CudaMemory::new(device).unwrap())
}

macro_rules! gpu_or_skip {
    ($fixture:expr) => {
        match nvrtc() {
            Ok(nvrtc) => gpu($fixture, nvrtc),
            Err(error) => return skip::because(format_args!("no NVRTC: {error}")),
        }
    };
}

#[test]
fn setup_is_right_whatever_the_tensors_hold() {
    gpu_or_skip!("sm80").whatever_the_tensors_hold(&[0, 1, 31, 33]);
    gpu_or_skip!("sm90").whatever_the_tensors_hold(&[0, 32, 1024]);
}

#[test]
fn setup_is_right_for_problems_drawn_at_random() {
    gpu_or_skip!("sm120").drawn_problems(100);
}

#[test]
fn setup_is_right_for_any_number_of_sequences() {
    gpu_or_skip!("sm90").thousands_of_sequences(&[255, 256, 257, 5000]);
}

#[test]
#[ignore = "long run: cargo xtask test --long"]
fn setup_is_right_for_a_hundred_thousand_sequences() {
    gpu_or_skip!("sm90").thousands_of_sequences(&[100_003]);
}

#[test]
fn setup_is_right_up_to_the_end_of_an_int32() {
    gpu_or_skip!("sm100").rows_up_to_the_end_of_an_int32();
}
