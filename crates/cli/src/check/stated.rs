//! Verdicts beside what their file states.

use std::borrow::Cow;

use frazil_conformance::run::{Entry, Status, Verdict, short_name};

/// What the file states of an engine, where it states anything.
fn stated<'a>(entry: &'a Entry, verdict: &Verdict) -> Option<&'a str> {
    let expect = entry.expect.as_ref()?;
    let engine = &verdict.engine;
    expect.get(engine.as_str()).or_else(|| expect.get(short_name(engine))).map(String::as_str)
}

/// Kind of the `Unsupported` of a decline, with which its reason begins.
fn kind(verdict: &Verdict) -> &str {
    let reason = verdict.reason.as_deref().unwrap_or_default();
    reason.split_once(':').map_or(reason, |(kind, _)| kind)
}

/// Whether this is a decline that the file states.
pub(super) fn is_stated_decline(entry: &Entry, verdict: &Verdict) -> bool {
    // `Feature(dropout)` is of the kind `Feature`.
    let is_kind = |stated: &str| stated.split('(').next() == Some(kind(verdict));
    verdict.status == Status::Declined && stated(entry, verdict).is_some_and(is_kind)
}

/// The verdict; a wrong one for a decline of which the file states otherwise. The runner finds those
/// of the router's answers, and leaves those of engines that decline when they build.
pub(super) fn held_to_file<'a>(entry: &Entry, verdict: &'a Verdict) -> Cow<'a, Verdict> {
    // Files state answers of an engine on its own kind of device.
    let elsewhere = matches!(kind(verdict), "Device" | "ComputeCapability");
    let stated = stated(entry, verdict);
    let (Some(stated), Status::Declined, false) = (stated, verdict.status, elsewhere) else {
        return Cow::Borrowed(verdict);
    };
    if is_stated_decline(entry, verdict) {
        return Cow::Borrowed(verdict);
    }
    let reason = verdict.reason.as_deref().unwrap_or("declines");
    let reason = Some(format!("declines when it is built ({reason}), expected {stated}"));
    let repro = entry.runs.first().and_then(|case| serde_json::to_string(case).ok());
    Cow::Owned(Verdict { status: Status::Wrong, reason, repro, ..verdict.clone() })
}

/// Whether an error is of the case, before any engine ran; those of an engine begin with its plan.
pub(super) fn is_error_of_case(verdict: &Verdict) -> bool {
    let of_plan = |reason: &str| {
        let rest = reason.strip_prefix(verdict.engine.as_str());
        rest.is_some_and(|rest| rest.starts_with('['))
    };
    let of_engine = |reason: &str| of_plan(reason) || reason == super::PANICKED;
    verdict.status == Status::Error && !verdict.reason.as_deref().is_some_and(of_engine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frazil::EngineId;

    fn verdict(status: Status, reason: &str) -> Verdict {
        Verdict {
            id: "case".into(),
            engine: engine(),
            status,
            max_err: None,
            tol: None,
            reason: Some(reason.into()),
            repro: None,
        }
    }

    fn engine() -> EngineId {
        let router = frazil::Router::from_registrations().expect("a router");
        router.engines().next().expect("an engine").id().clone()
    }

    fn entry(answer: Option<&str>) -> Entry {
        let expect = answer.map(|answer| [("cpu".to_owned(), answer.to_owned())].into());
        Entry { id: "case".into(), runs: Vec::new(), expect }
    }

    #[test]
    fn a_decline_counts_only_where_it_is_stated() {
        let declined = |reason| verdict(Status::Declined, reason);
        for (stated, reason, expected, status) in [
            (Some("served"), "Feature: feature dropout", false, Status::Wrong),
            (Some("DType"), "Feature: feature dropout", false, Status::Wrong),
            (Some("Feature(dropout)"), "Feature: feature dropout", true, Status::Declined),
            (Some("DType"), "DType: f32", true, Status::Declined),
            (Some("served"), "Device: a host", false, Status::Declined),
            (None, "DType: f32", false, Status::Declined),
        ] {
            let (entry, verdict) = (entry(stated), declined(reason));
            assert_eq!(is_stated_decline(&entry, &verdict), expected, "{stated:?} {reason}");
            assert_eq!(held_to_file(&entry, &verdict).status, status, "{stated:?} {reason}");
        }
    }

    #[test]
    fn errors_are_of_the_case_or_of_an_engine() {
        let error = |reason: &str| is_error_of_case(&verdict(Status::Error, reason));
        assert!(error("case: batch 4294967296"));
        assert!(!error("sdpa_fwd_cpu[threads=1]: failed"));
        assert!(!error(super::super::PANICKED));
        assert!(!is_error_of_case(&verdict(Status::Wrong, "case: ")));
    }
}
