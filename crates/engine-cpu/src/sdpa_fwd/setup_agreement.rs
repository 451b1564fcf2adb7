//! Setup of this engine against the reference of the conformance library, which is written from the
//! contract alone and which the setup kernel of the GPU engines is held to as well.

use std::sync::Arc;

use frazil_conformance::memory::HostMemory;
use frazil_conformance::seqlens::{Form, Harm, Placed, Problem};
use frazil_core::{EngineRegistration, Facts, Plan, RegisteredEngine, inventory};

use super::Sequence;

fn plan_of(problem: &Problem, device: &frazil_core::Device) -> Plan {
    let facts = Arc::new(Facts::read(&problem.graph().unwrap()).unwrap());
    let registration = inventory::iter::<EngineRegistration>().next().unwrap();
    let engine = Arc::new(RegisteredEngine::from(registration));
    engine.ask(&facts, &Arc::new(device.target().clone())).unwrap().remove(0)
}

/// The sequences that an execute left in its workspace, in the order of the batch.
fn sequences(plan: &Plan, workspace: &[u8], batch: u64) -> Vec<Sequence> {
    let (_, region) =
        plan.workspace().regions().find(|(name, _)| *name == "sequences").expect("its region");
    let words: Vec<u64> = workspace[usize::try_from(region.offset()).unwrap()..]
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    let fields = words.as_chunks::<6>().0.iter().take(usize::try_from(batch).unwrap());
    let mut sequences: Vec<Sequence> = fields
        .map(|&[batch_idx, q_start, q_len, kv_start, kv_len, units_end]| Sequence {
            batch_idx,
            q_start,
            q_len,
            kv_start,
            kv_len,
            units_end,
        })
        .collect();
    sequences.sort_by_key(|sequence| sequence.batch_idx);
    sequences
}

fn check(problem: &Problem) {
    let device = crate::host_with_threads(1);
    let memory = HostMemory::new(device.clone());
    let plan = plan_of(problem, &device);
    let executable = plan.build(&device).unwrap();
    let workspace = problem.execute(&executable, &memory).unwrap();
    let word = usize::try_from(plan.error_word().unwrap()).unwrap();
    let word = u32::from_le_bytes(workspace[word..][..4].try_into().unwrap());
    // Page ids are for the engine itself to judge, and those of a problem are in their pool.
    assert_eq!(word, problem.error_word().0, "{problem:?}");
    let sequences = sequences(&plan, &workspace, problem.batch);
    let int32 = |rows: u64| i32::try_from(rows).unwrap();
    let placed = |rows: fn(&Sequence) -> [u64; 2]| -> (Vec<i32>, Vec<i32>) {
        sequences.iter().map(|sequence| rows(sequence).map(int32).into()).unzip()
    };
    let sides = [
        (problem.placed_q(), placed(|sequence| [sequence.q_start, sequence.q_len])),
        (problem.placed_kv(), placed(|sequence| [sequence.kv_start, sequence.kv_len])),
    ];
    let dense = [problem.q.is_dense(), problem.kv.is_dense()];
    for ((Placed { starts, lengths, .. }, found), dense) in sides.into_iter().zip(dense) {
        assert!(dense || found == (starts, lengths), "{found:?}\n{problem:?}");
    }
}

#[test]
fn setup_agrees_with_the_reference_whatever_the_tensors_hold() {
    let mut seed = 0;
    let sides = Form::OF_Q.into_iter().flat_map(|q| Form::OF_KV.map(|kv| (q, kv)));
    for (q, kv) in sides.filter(|&sides| sides != (Form::Dense, Form::Dense)) {
        for (at, harm) in Harm::ALL.into_iter().enumerate() {
            let other = Harm::ALL[(at + seed) % Harm::ALL.len()];
            for batch in [0, 1, 31, 33] {
                seed += 1;
                check(&Problem::hostile(batch, (q, harm), (kv, other), seed as u64));
            }
        }
    }
}

#[test]
fn setup_agrees_with_the_reference_for_thousands_of_sequences() {
    for (at, &form) in Form::OF_Q[1..].iter().enumerate() {
        let problem = Problem::hostile(5000, (form, Harm::Near), (form, Harm::Random), at as u64);
        check(&problem);
    }
}

#[test]
fn setup_agrees_with_the_reference_for_rows_up_to_the_end_of_an_int32() {
    for form in [Form::PackedLengths, Form::PackedPrefix, Form::PackedStarts] {
        for harm in Harm::ALL {
            check(&Problem::gigarows(33, (form, harm), 1));
        }
    }
}
