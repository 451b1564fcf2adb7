//! A plan whose kernel is on disk, on a simulated GPU.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/warm_plan.rs"]
mod warm_plan;

use frazil_core::{Device, target};
use frazil_cuda::simulated;
use warm_plan::here;

fn open() -> Result<Device, String> {
    let nvrtc = here::nvrtc()?;
    let mut target = target::fixtures::sm90();
    target.toolchain.nvrtc = Some(nvrtc.props());
    Ok(simulated(&target).unwrap())
}

#[test]
fn a_warm_plan_takes_less_than_five_milliseconds() {
    warm_plan::takes_less_than_five_milliseconds(open);
}

mod reexecuted {
    /// A process that finds the cache filled.
    #[test]
    #[ignore = "run by a_warm_plan_takes_less_than_five_milliseconds"]
    fn child() {
        super::warm_plan::in_this_process(super::open);
    }
}
