//! The runner finds right engines right, and every way to be wrong that a test engine knows.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Fault, host, router};
use frazil_conformance::case::{Case, CaseFile, DeclaredCase, Place, SideCase};
use frazil_conformance::run::{Entry, Status, Verdict, check_entry, support_answers};
use frazil_conformance::suite::run_suite;
use frazil_core::Target;

const CASES: &str = include_str!("cases.toml");

fn cases() -> Vec<Case> {
    CaseFile::parse(CASES).unwrap().cases
}

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

fn verdict(case: Case, fault: Fault) -> Verdict {
    check_entry(&case.into(), &router(fault), &host()).remove(0)
}

fn reason(verdict: &Verdict) -> &str {
    verdict.reason.as_deref().unwrap_or("")
}

#[test]
fn a_right_engine_is_right_in_every_form() {
    let report = run_suite(&router(Fault::None), &host(), cases());
    report.assert_right();
    assert_eq!(report.totals.right, cases().len());
    for verdict in &report.verdicts {
        assert!(verdict.ratio().is_none_or(|ratio| ratio <= 1.0), "{verdict:?}");
    }
}

#[rstest::rstest]
#[case(Fault::DropsLastKey, "dense", "o[b=0,h=0,i=0")]
#[case(Fault::DropsLastKey, "paged", "o[")]
#[case(Fault::IgnoresBand, "band", "o[")]
#[case(Fault::IgnoresSink, "everything", "lse[")]
#[case(Fault::WritesPastRow, "strided", "buffer `o`")]
#[case(Fault::WritesPastRow, "packed_lengths", "past its end")]
#[case(
    Fault::WritesBeforeOutput,
    "dense",
    "buffer `o`: 2 bytes written that must not be, first at 2 bytes before its start"
)]
#[case(
    Fault::WritesInput,
    "dense",
    "buffer `k`: 2 bytes written that must not be, first at byte 0 (k)"
)]
#[case(Fault::WritesPastWorkspace, "dense", "outside of the workspace")]
#[case(Fault::LeavesRow, "packed_prefix", "left unwritten")]
#[case(Fault::FillsDeadRowsWithMinusZero, "padded", "= -0.0, want 0.0")]
#[case(Fault::ReadsPastLength, "padded", "NaN")]
#[case(Fault::ReadsPastLength, "packed_starts", "NaN")]
#[case(Fault::UsesScratch, "dense", "320 NaN")]
#[case(Fault::CountsExecutes, "dense", "a second execute gave other bits")]
#[case(Fault::WrongErrorWord, "padded", "error word says q_length, want no bit")]
#[case(Fault::IgnoresPageTable, "paged", "o[")]
fn a_wrong_engine_is_found(#[case] fault: Fault, #[case] name: &str, #[case] text: &str) {
    assert_eq!(verdict(case(name), Fault::None).status, Status::Right);
    let verdict = verdict(case(name), fault);
    assert_eq!(verdict.status, Status::Wrong, "{verdict:?}");
    assert!(reason(&verdict).contains(text), "{}", reason(&verdict));
    assert!(verdict.repro.is_some());
}

#[rstest::rstest]
#[case(Fault::Fails, "cuTest failed: TEST (7)")]
#[case(Fault::Panics, "panicked: told to")]
#[case(Fault::PanicsWhenAsked, "panicked when asked: asked too much")]
fn a_broken_engine_is_an_error(#[case] fault: Fault, #[case] text: &str) {
    let verdict = verdict(case("dense"), fault);
    assert_eq!(verdict.status, Status::Error);
    assert!(reason(&verdict).contains(text), "{}", reason(&verdict));
}

#[test]
fn another_answer_than_the_one_expected_is_wrong() {
    let mut dropout = case("dense");
    dropout.dropout = Some(0.1);
    let declined = verdict(dropout.clone(), Fault::None);
    assert_eq!(declined.status, Status::Declined);
    assert_eq!(declined.reason.as_deref(), Some("Feature: feature dropout"));
    for (name, answer, status) in [
        ("naive", "Feature(dropout)", Status::Declined),
        ("test/sdpa_fwd_naive", "Feature(dropout)", Status::Declined),
        ("naive", "served", Status::Wrong),
        // Of an engine that is not named, any answer will do.
        ("cpu", "served", Status::Declined),
    ] {
        dropout.answers = [(name.into(), answer.into())].into();
        assert_eq!(verdict(dropout.clone(), Fault::None).status, status, "{name} {answer}");
    }
    let answers = support_answers(&dropout, &router(Fault::None), &Target::host()).unwrap();
    assert_eq!(answers.into_values().collect::<Vec<_>>(), ["Feature(dropout)"]);
}

#[test]
fn a_graph_or_a_case_that_means_nothing_is_invalid() {
    let mut invalid = case("dense");
    invalid.num_q_heads = 3;
    assert_eq!(verdict(invalid, Fault::None).status, Status::Invalid);
    let mut short = case("padded");
    short.batch += 1;
    let verdict = verdict(short, Fault::None);
    assert_eq!(verdict.status, Status::Invalid);
    assert!(reason(&verdict).contains("q.lengths has 3 entries"), "{}", reason(&verdict));
}

/// What core refuses when the case is bound is no fault of an engine, which never hears of it.
#[test]
fn a_case_whose_bindings_contradict_one_another_is_invalid() {
    let place = |strides: Option<[i64; 4]>, buffer: Option<&str>| Place {
        strides: strides.map(Vec::from),
        buffer: buffer.map(String::from),
        ..Place::default()
    };
    let mut twice = case("dense");
    twice.declared = Some(DeclaredCase { batch: 2, seqlen_q: 5, seqlen_kv: 7 });
    twice.place.0.insert("o".into(), place(Some([1, 40, 8, 1]), None));
    let mut grown = case("dense");
    grown.declared = Some(DeclaredCase { batch: 2, seqlen_q: 4, seqlen_kv: 7 });
    let mut shared = case("dense");
    shared.place.0.extend(["q", "o"].map(|role| (role.into(), place(None, Some("both")))));
    for (case, text) in [
        (twice, "dense: overrides: execute: output `o`"),
        (grown, "dense: tensor `q` axis 2 is overridden to 5, declared 4"),
        (shared, "dense: output `o` shares memory with `q`"),
    ] {
        let verdict = verdict(case, Fault::None);
        assert_eq!(verdict.status, Status::Invalid, "{verdict:?}");
        assert!(reason(&verdict).starts_with(text), "{}", reason(&verdict));
    }
}

/// A device tensor that cannot hold its entries where the case puts it would say something else than
/// the case, and every engine would be found wrong.
#[test]
fn a_place_that_loses_entries_is_invalid() {
    let at = |strides: &[i64], buffer: Option<&str>| Place {
        strides: Some(strides.to_vec()),
        buffer: buffer.map(String::from),
        ..Place::default()
    };
    for (name, role, place) in [
        ("padded", "q_lengths", at(&[0], None)),
        ("padded", "q_lengths", at(&[1], Some("kv_lengths"))),
        ("packed_prefix", "q_prefix", at(&[0], None)),
        ("packed_starts", "q_starts", at(&[0], None)),
        ("paged", "table_k", at(&[0, 0], None)),
    ] {
        let mut case = case(name);
        case.place.0.insert(role.into(), place);
        let verdict = verdict(case, Fault::None);
        assert_eq!(verdict.status, Status::Invalid, "{verdict:?}");
        let text = format!("{name}: place of `{role}`: its entry ");
        assert!(reason(&verdict).starts_with(&text), "{}", reason(&verdict));
    }
    // Entries that are all the same may be one.
    let mut equal = case("padded");
    if let SideCase::Padded { lengths, .. } = &mut equal.kv {
        lengths.fill(1);
    }
    equal.place.0.insert("kv_lengths".into(), at(&[0], None));
    assert_eq!(verdict(equal, Fault::None).status, Status::Right);
}

#[test]
fn an_entry_without_runs_is_not_right() {
    let entry = Entry { runs: Vec::new(), ..Entry::from(case("dense")) };
    let verdict = check_entry(&entry, &router(Fault::None), &host()).remove(0);
    assert_eq!(verdict.status, Status::Skipped);
    assert_eq!(reason(&verdict), "nothing was run");
}

/// A plan that cannot be built leaves the next one; none left is another answer than `served`.
#[test]
fn an_engine_that_builds_none_of_its_plans_does_not_serve() {
    let mut dense = case("dense");
    dense.answers.clear();
    assert_eq!(verdict(dense.clone(), Fault::DeclinesTheFirstBuild).status, Status::Right);
    let declined = verdict(dense.clone(), Fault::DeclinesBuilds);
    assert_eq!(declined.status, Status::Declined);
    assert!(reason(&declined).starts_with("Overrides: "), "{}", reason(&declined));
    dense.answers = [("naive".into(), "served".into())].into();
    assert_eq!(verdict(dense.clone(), Fault::DeclinesTheFirstBuild).status, Status::Right);
    let wrong = verdict(dense, Fault::DeclinesBuilds);
    assert_eq!(wrong.status, Status::Wrong);
    let text = "declined at build, expected served: Overrides: ";
    assert!(reason(&wrong).starts_with(text), "{}", reason(&wrong));
}

/// Expectations are about an engine's own kind of device, and it must have one.
#[test]
fn a_device_is_declined_only_by_an_engine_of_another() {
    let mut dense = case("dense");
    for (expected, everywhere, host) in [
        (Some("served"), Status::Wrong, Status::Declined),
        (Some("DType"), Status::Wrong, Status::Wrong),
        (None, Status::Declined, Status::Declined),
    ] {
        let answer = |expected: &str| ("naive".to_owned(), expected.to_owned());
        dense.answers = expected.map(answer).into_iter().collect();
        assert_eq!(verdict(dense.clone(), Fault::DeclinesEveryDevice).status, everywhere);
        assert_eq!(verdict(dense.clone(), Fault::DeclinesTheHost).status, host);
    }
}

/// Runs of one entry whose values are the same share a reference; the worst decides.
#[test]
fn an_entry_is_as_good_as_its_worst_run() {
    let mut entry = Entry::from(case("packed_lengths"));
    entry.runs.push(case("packed_prefix"));
    entry.runs.push(case("band"));
    let right = check_entry(&entry, &router(Fault::None), &host()).remove(0);
    assert_eq!(right.status, Status::Right, "{right:?}");
    let wrong = check_entry(&entry, &router(Fault::IgnoresBand), &host()).remove(0);
    assert_eq!(wrong.status, Status::Wrong);
}

/// The same sequences, however they are stored, have the same error to the last bit.
#[test]
fn values_do_not_depend_on_storage() {
    let errors: Vec<_> = ["packed_lengths", "packed_prefix", "packed_starts"]
        .map(|name| verdict(case(name), Fault::None).max_err)
        .into();
    assert_eq!(errors[0], errors[1]);
    assert_eq!(errors[0], errors[2]);
}
