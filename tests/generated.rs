//! Cases at random: whatever an engine accepts runs and is right, and what it declines it declines
//! for the reason that the contract gives.

mod common;

use frazil::EngineId;
use frazil_conformance::case::Case;
use frazil_conformance::generator::case_from_seed;
use frazil_conformance::repro::Repro;
use frazil_conformance::run::{Entry, Status, check_entry};
use rayon::prelude::*;

use common::{host, router};

/// The engine whose answers these are: others are not for this device.
const HOST: EngineId = EngineId::new("sdpa_fwd_cpu");

/// What the CPU engine must make of a case.
fn expected(case: &Case) -> Status {
    let is_8_bit = case.dtype.bytes() == 1 || case.o_dtype().bytes() == 1;
    if case.note.is_some() {
        Status::Invalid
    } else if case.dropout.is_some() || case.block_mask || is_8_bit {
        Status::Declined
    } else {
        Status::Right
    }
}

/// The same as a case states it, so that the line printed fails as the test does.
fn answer(case: &Case) -> Option<&'static str> {
    match expected(case) {
        Status::Invalid => None,
        Status::Declined if case.dropout.is_some() => Some("Feature(dropout)"),
        Status::Declined if case.block_mask => Some("Feature(block_mask)"),
        Status::Declined => Some("DType"),
        _ => Some("served"),
    }
}

/// Runs a range of cases and lists every one that went otherwise, with the line that repeats it.
fn run(seeds: std::ops::Range<u64>) {
    let wrong: Vec<String> = seeds
        .into_par_iter()
        .filter_map(|seed| {
            let case = case_from_seed(seed);
            let verdicts = check_entry(&Entry::from(case.clone()), &router(), &host());
            let expected = expected(&case);
            let of_host = verdicts.into_iter().filter(|verdict| verdict.engine == HOST);
            let verdict = of_host.into_iter().find(|verdict| verdict.status != expected)?;
            let reason = verdict.reason.unwrap_or_default();
            let repro = Repro::new(&case, &verdict.engine, answer(&case));
            let (engine, status) = (verdict.engine, verdict.status);
            Some(format!(
                "seed {seed}: {engine} is {status:?}, expected {expected:?}: {reason}\n    {repro}"
            ))
        })
        .collect();
    let first = wrong.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of the cases went wrong; the first:\n{first}", wrong.len());
}

/// Cases of the short run; the long one starts where it ends.
const SHORT: u64 = 400;

#[test]
fn generated_cases_are_right_or_declined_for_a_reason() {
    run(0..SHORT);
}

#[test]
#[ignore = "long run: cargo xtask test --long"]
fn twenty_thousand_more_are() {
    for block in 0..20 {
        let begin = SHORT + 1000 * block;
        eprintln!("seeds {begin} to {}", begin + 1000);
        run(begin..begin + 1000);
    }
}
