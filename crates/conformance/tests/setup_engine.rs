//! What the engine of setup alone answers, on GPUs that are not here.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::any::Any;
use std::sync::Arc;

use frazil_conformance::cuda::SetupEngine;
use frazil_conformance::seqlens::{Form, Harm, Problem};
use frazil_core::target::fixtures;
use frazil_core::{
    BuildError, ComputeCapability, Device, DeviceHandle, DeviceId, DeviceProps, Error, Facts,
    Launches, MemoryAt, Plan, RegisteredEngine, Target, Unsupported, Version,
};
use frazil_cuda::compile::Forbidden;
use frazil_cuda::nvrtc::Build;
use frazil_cuda::{Artifacts, seqlens};

fn engine() -> Arc<RegisteredEngine> {
    let build = Build { version: Version::new(13, 0, 0), library_bytes: 1 };
    let artifacts = Artifacts::new(Arc::new(Forbidden(build)), None);
    Arc::new(SetupEngine::registered(Arc::new(artifacts)))
}

fn ask(q: Form, kv: Form, target: Target) -> Result<Plan, Unsupported> {
    let problem = Problem::hostile(4, (q, Harm::None), (kv, Harm::None), 2);
    let facts = Facts::read(&problem.graph().unwrap()).unwrap();
    engine().ask(&Arc::new(facts), &Arc::new(target)).map(|mut plans| plans.remove(0))
}

#[test]
fn every_gpu_from_ampere_on_is_served_by_one_kernel() {
    for (name, target) in fixtures::ALL.into_iter().filter(|(name, _)| *name != "host") {
        let plan = ask(Form::PackedPrefix, Form::Paged, target()).unwrap();
        assert_eq!(*plan.launches(), Launches::Own(vec![seqlens::KERNEL.into()]), "{name}");
        assert_eq!(plan.error_word(), Some(0));
        assert_eq!(*plan.config(), seqlens::config());
    }
}

#[test]
fn what_is_declined_is_declined_for_its_reason() {
    let dense = ask(Form::Dense, Form::Dense, fixtures::sm90()).unwrap_err();
    assert!(matches!(dense, Unsupported::Dim { found: 0, .. }), "{dense}");
    let host = ask(Form::Padded, Form::Padded, fixtures::host()).unwrap_err();
    assert!(matches!(host, Unsupported::Device { .. }), "{host}");
    let mut turing = fixtures::sm80();
    if let DeviceProps::Cuda(props) = &mut turing.device {
        props.compute_capability = ComputeCapability::new(7, 5);
    }
    let turing = ask(Form::Padded, Form::Padded, turing).unwrap_err();
    assert!(matches!(turing, Unsupported::ComputeCapability { .. }), "{turing}");
    let mut bare = fixtures::sm90();
    bare.toolchain.nvrtc = None;
    let bare = ask(Form::Padded, Form::Padded, bare).unwrap_err();
    assert!(matches!(bare, Unsupported::Toolchain { what: "NVRTC", found: None, .. }), "{bare}");
}

/// Another kind of device that says it has a GPU's target.
#[derive(Debug)]
struct Stranger(Target);

impl DeviceHandle for Stranger {
    fn target(&self) -> &Target {
        &self.0
    }

    fn id(&self) -> DeviceId {
        DeviceId::Cuda(0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
        Ok(MemoryAt::Unknown)
    }
}

#[test]
fn a_device_that_is_not_ours_and_a_compiler_that_fails_are_faults() {
    let plan = ask(Form::PackedLengths, Form::Dense, fixtures::sm90()).unwrap();
    let error = plan.build(&Device::new(Stranger(fixtures::sm90()))).unwrap_err();
    assert!(matches!(error, BuildError::Fault(Error::WrongDevice { .. })), "{error}");
    let error = plan.compile().unwrap_err();
    let BuildError::Fault(Error::Compile { kernel, .. }) = error else { panic!("{error}") };
    assert_eq!(kernel, seqlens::KERNEL);
}
