//! The engines of this program, each tried on one small case.

use frazil::{OWN_ENGINES, Router};
use frazil_conformance::case::Case;
use frazil_conformance::memory::HostMemory;
use frazil_conformance::run::{Entry, Status, check_entry};
use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// An engine that is linked, and how the small case went on this computer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Engine {
    pub(super) engine: String,
    pub(super) package: &'static str,
    pub(super) maturity: String,
    /// Of the small case, on the host.
    pub(super) status: Status,
    /// For a decline its reason; else what is wrong.
    pub(super) reason: Option<String>,
    /// The line that runs a case again which went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repro: Option<String>,
}

/// Grouped queries, a causal band from the bottom right and LSE: what a decoder asks for.
const SMALL: &str = r#"{"name": "doctor", "dtype": "bf16", "batch": 2, "num_q_heads": 4,
    "num_kv_heads": 2, "head_dim_qk": 64, "seqlen_q": 33, "seqlen_kv": 65, "lse": "natural",
    "band": {"align": "bottom_right", "left": null, "right": 0}}"#;

/// Tries every engine.
pub(super) fn engines(router: &Router) -> Result<Vec<Engine>, Failure> {
    let case: Case = serde_json::from_str(SMALL)
        .map_err(|error| Failure::Fault(format!("the small case: {error}")))?;
    let memory = HostMemory::new(frazil::cpu::host());
    let verdicts = check_entry(&Entry::from(case), router, &memory);
    let engines = router.engines().zip(verdicts).map(|(engine, verdict)| Engine {
        engine: engine.id().to_string(),
        package: engine.package(),
        maturity: engine.maturity().to_string(),
        status: verdict.status,
        reason: verdict.reason,
        repro: verdict.repro.map(|repro| repro.to_string()),
    });
    Ok(engines.collect())
}

/// Engines of frazil's own that this program was built without.
pub(super) fn not_linked(engines: &[Engine]) -> Vec<&'static str> {
    let is_linked = |name: &&str| engines.iter().any(|engine| engine.engine == **name);
    OWN_ENGINES.iter().copied().filter(|name| !is_linked(name)).collect()
}

/// Whether attention can be computed here: one right engine is enough, and a wrong one too much.
pub(super) fn outcome(engines: &[Engine]) -> Outcome {
    let any = |status| engines.iter().any(|engine| engine.status == status);
    if any(Status::Wrong) || any(Status::Error) || any(Status::Invalid) {
        Outcome::Wrong
    } else if any(Status::Right) {
        Outcome::Right
    } else {
        Outcome::Declined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_engine_that_runs_is_enough_and_a_wrong_one_is_not() {
        let engine = |status| Engine {
            engine: "sdpa_fwd_x".into(),
            package: "x",
            maturity: String::new(),
            status,
            reason: None,
            repro: None,
        };
        use Status::{Declined, Error, Right, Wrong};
        for (statuses, outcome) in [
            (&[][..], Outcome::Declined),
            (&[Right], Outcome::Right),
            (&[Declined, Right], Outcome::Right),
            (&[Declined, Declined], Outcome::Declined),
            (&[Right, Wrong], Outcome::Wrong),
            (&[Error, Right], Outcome::Wrong),
        ] {
            let engines: Vec<Engine> = statuses.iter().copied().map(engine).collect();
            assert_eq!(super::outcome(&engines), outcome, "{statuses:?}");
        }
    }

    #[test]
    fn the_engines_of_this_program_are_right_or_made_for_other_devices() {
        let engines = engines(&Router::from_registrations().unwrap()).unwrap();
        let of_host = |engine: &&Engine| engine.engine == "sdpa_fwd_cpu";
        let (host, others): (Vec<_>, Vec<_>) = engines.iter().partition(of_host);
        assert!(host.iter().all(|engine| engine.status == Status::Right), "{engines:?}");
        for engine in others {
            let reason = engine.reason.as_deref().unwrap();
            assert!(engine.status == Status::Declined && reason.starts_with("Device"), "{reason}");
        }
        assert!(not_linked(&engines).is_empty());
        assert_eq!(not_linked(&[]), OWN_ENGINES);
    }
}
