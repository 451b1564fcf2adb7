//! The rules of execute for a plan that cuts units, with no GPU: list, kernel and merge on a simulated
//! device, looked at by every detector that can look there. That detectors find what they should is held
//! by `simulate_contract.rs`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;

use std::sync::Arc;

use frazil::target::fixtures;
use frazil::{DeviceProps, Launches, Plan, Role, TensorId};
use frazil_conformance::case::CaseFile;
use frazil_conformance::declare::{Declared, declare};
use frazil_conformance::detectors::{Blind, Detector, Effort, Results, Sample, Subject};
use frazil_cuda::sim::Simulation;
use frazil_cuda::{Artifacts, combine, simulated, work_list};
use frazil_engine_sm80::Sm80Engine;
use here::or_skip;

const BATCH: usize = 3;
const MAX_LEN: usize = 1100;
const HEAD_DIM: usize = 16;
const NUM_Q_HEADS: usize = 2;

const CASE: &str = r#"
    [[case]]
    name = "decode"
    dtype = "f16"
    o_dtype = "f32"
    batch = 3
    num_q_heads = 2
    num_kv_heads = 1
    head_dim_qk = 16
    seqlen_q = 1
    seqlen_kv = 1100
    kv = { form = "padded", lengths = [0, 0, 0] }
    lse = "natural"
"#;

/// Two calls of one graph, of which one is longer than it may be.
const LENGTHS: [[i32; BATCH]; 2] = [[1100, 0, 37], [5, 2000, 1024]];

/// Q is zeros, so that all keys weigh alike; of V, row `j` is 1 in column `j % 16` and 0 elsewhere.
fn inputs(declared: &Declared, lengths: [i32; BATCH]) -> Vec<(TensorId, Vec<u8>)> {
    let one = 0x3c00_u16.to_le_bytes();
    let bytes = |role| match role {
        Role::Q => Some(vec![0; BATCH * NUM_Q_HEADS * HEAD_DIM * 2]),
        Role::K => Some(one.repeat(BATCH * MAX_LEN * HEAD_DIM)),
        Role::V => {
            let mut values = vec![0; BATCH * MAX_LEN * HEAD_DIM * 2];
            for row in 0..BATCH * MAX_LEN {
                let column = row % MAX_LEN % HEAD_DIM;
                values[(row * HEAD_DIM + column) * 2..][..2].copy_from_slice(&one);
            }
            Some(values)
        }
        Role::KvLengths => Some(lengths.map(i32::to_le_bytes).concat()),
        _ => None,
    };
    declared.tensors.iter().filter_map(|tensor| Some((tensor.id, bytes(tensor.role)?))).collect()
}

/// O is the share of the keys that are 1 in its column, LSE the logarithm of their number.
fn judge(
    declared: &Declared,
    lengths: [i32; BATCH],
) -> impl Fn(&Results) -> Result<(), String> + Sync {
    let id = |role| declared.tensors.iter().find(|tensor| tensor.role == role).unwrap().id;
    let (o, lse) = (id(Role::O), id(Role::Lse));
    move |results| {
        let found = |id| {
            let (_, bytes) = results.outputs.iter().find(|(known, _)| *known == id).unwrap();
            let values =
                bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap()));
            values.collect::<Vec<f32>>()
        };
        let (o, lse) = (found(o), found(lse));
        for (row, &length) in lengths.iter().flat_map(|it| [it; NUM_Q_HEADS]).enumerate() {
            let length = usize::try_from(length).unwrap().min(MAX_LEN);
            #[expect(clippy::cast_precision_loss, reason = "numbers of keys are small")]
            let share = |count: usize| if length == 0 { 0.0 } else { count as f32 / length as f32 };
            for column in 0..HEAD_DIM {
                let count = (0..length).filter(|key| key % HEAD_DIM == column).count();
                let (found, wanted) = (o[row * HEAD_DIM + column], share(count));
                if (found - wanted).abs() > 1e-4 {
                    return Err(format!("O of row {row} is {found}, not {wanted}"));
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "numbers of keys are small")]
            let (found, wanted) = (lse[row], (length as f32).ln());
            if found != wanted && (found - wanted).abs() > 1e-5 {
                return Err(format!("LSE of row {row} is {found}, not {wanted}"));
            }
        }
        Ok(())
    }
}

#[test]
fn a_plan_that_cuts_units_keeps_every_rule() {
    let nvrtc = or_skip!(here::nvrtc());
    let mut target = fixtures::sm80();
    let DeviceProps::Cuda(gpu) = &mut target.device else { unreachable!("a fixture of a GPU") };
    gpu.num_sms = 3;
    target.toolchain.nvrtc = Some(nvrtc.props());
    let device = simulated(&target).unwrap();
    let artifacts = Arc::new(Artifacts::new(nvrtc, None));
    let engine = Arc::new(Sm80Engine::with_artifacts(artifacts).registered());
    let declared = declare(&CaseFile::parse(CASE).unwrap().cases[0]).unwrap();
    let target = Arc::new(device.target().clone());
    let plan = || -> Plan { engine.ask(&declared.facts, &target).unwrap().remove(0) };
    let kernels = [work_list::KERNEL, "frazil_sdpa_fwd_sm80", combine::KERNEL];
    assert_eq!(*plan().launches(), Launches::Own(kernels.map(Into::into).into()));
    let judges = LENGTHS.map(|lengths| judge(&declared, lengths));
    let sample = |at: usize| Sample { inputs: inputs(&declared, LENGTHS[at]), judge: &judges[at] };
    let subject = Subject {
        device: &device,
        plan: &plan,
        samples: [sample(0), sample(1)],
        observes_workspace: false,
        effort: Effort::of(device.id()),
    };
    let mut blind = Vec::new();
    for detector in Detector::ALL {
        match detector.findings(&subject) {
            Ok(findings) => assert!(findings.is_empty(), "{detector:?}: {findings:?}"),
            Err(why) => blind.push((detector, why)),
        }
    }
    let counters = [Detector::HostAllocations, Detector::DriverCalls];
    assert_eq!(blind, counters.map(|counter| (counter, Blind::Simulated)));
    let simulation = Simulation::of(&device).unwrap();
    assert_eq!(simulation.misuses(), []);
    assert_eq!(simulation.findings(), []);
}
