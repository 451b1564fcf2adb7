//! A plan whose kernel is on disk, on the GPU of this computer.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/warm_plan.rs"]
mod warm_plan;

use warm_plan::here::gpu;

#[test]
fn a_warm_plan_takes_less_than_five_milliseconds() {
    warm_plan::takes_less_than_five_milliseconds(gpu);
}

mod reexecuted {
    /// A process that finds the cache filled.
    #[test]
    #[ignore = "run by a_warm_plan_takes_less_than_five_milliseconds"]
    fn child() {
        super::warm_plan::in_this_process(super::gpu);
    }
}
