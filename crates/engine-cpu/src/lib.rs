//! The engine that is always there: attention on the host processor.
//!
//! Serves every feature of attention forward but dropout and the block mask, in f16, bf16 and f32
//! of any mixture, with any strides. Nothing is converted or copied as a whole: tiles of Q, K and V
//! are gathered into f32 scratch in the caller's workspace, so memory does not grow with
//! `rows of Q x rows of K`.
//!
//! Work runs on the rayon pool that the calling thread belongs to (the global one otherwise), on at
//! most as many threads as the device was made with, and on the calling thread alone when that is
//! one. Results do not depend on the number of threads.
//!
//! Code map: [`host`] and [`HostDevice`] make the device · `support` says yes or no and lays out
//! the workspace · `sdpa_fwd` runs · `memory` is the one module that dereferences addresses ·
//! `vector` holds the arithmetic.

mod device;
#[cfg(test)]
mod levels;
mod memory;
mod sdpa_fwd;
mod support;
mod vector;

use std::sync::Arc;

use frazil_core::{
    BuildError, Compiled, Device, DeviceId, Engine, EngineId, EngineRegistration, Error, Facts,
    Feature, FeatureSet, Launch, Maturity, Plan, Support, Target, Unsupported, inventory,
};

pub use device::{HostDevice, host, host_with_threads};

/// The instructions that the engine computes with on this processor, for people: `AVX2, FMA and F16C`.
pub fn instructions() -> &'static str {
    vector::Isa::detect().name()
}

/// Attention forward on host memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuEngine;

/// All of attention forward but dropout and the block mask.
const FEATURES: FeatureSet = FeatureSet::of(&[
    Feature::MixedTypes,
    Feature::Band,
    Feature::SoftCap,
    Feature::Bias,
    Feature::Alibi,
    Feature::Sink,
    Feature::LseNatural,
    Feature::LseBase2,
    Feature::Max,
    Feature::SumExp,
    Feature::AlibiPerSequence,
    Feature::QPadded,
    Feature::QPackedLengths,
    Feature::QPackedPrefix,
    Feature::QPackedStarts,
    Feature::KvPadded,
    Feature::KvPackedLengths,
    Feature::KvPackedPrefix,
    Feature::KvPackedStarts,
    Feature::KvPaged,
    Feature::PaddedRowOutputs,
]);

inventory::submit! {
    EngineRegistration {
        id: EngineId::new("sdpa_fwd_cpu"),
        features: FEATURES,
        maturity: Maturity::Silicon { device: "x86-64 host", date: "2026-11-29" },
        package: env!("CARGO_PKG_NAME"),
        construct: || Arc::new(CpuEngine),
    }
}

impl Engine for CpuEngine {
    fn check_support(&self, facts: &Facts, target: &Target) -> Result<Support, Unsupported> {
        support::check(facts, target)
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, device: &Device) -> Result<Box<dyn Launch>, BuildError> {
        build(plan, device, vector::Isa::detect())
    }
}

/// The launch of a plan, computing with these instructions.
fn build(plan: &Plan, device: &Device, isa: vector::Isa) -> Result<Box<dyn Launch>, BuildError> {
    let is_host = device.as_any().downcast_ref::<HostDevice>().is_some();
    if !is_host || device.id() != DeviceId::Host {
        let (found, need) = (device.id().to_string(), "the host".to_owned());
        return Err(Error::WrongDevice { found, need }.into());
    }
    let kernel = sdpa_fwd::Kernel::new(plan, isa);
    match kernel.is_of(plan) {
        true => Ok(Box::new(kernel)),
        false => Err(Error::ForeignPlan { name: plan.name() }.into()),
    }
}
