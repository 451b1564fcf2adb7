//! What every engine answers to every case, without running one.

mod common;

use std::collections::BTreeMap;

use frazil::target::fixtures;
use frazil::{EngineId, Router, Target};
use frazil_conformance::case::Case;
use frazil_conformance::declare::CaseError;
use frazil_conformance::generator::{Aim, case_from_seed};
use frazil_conformance::peer::PeerFile;
use frazil_conformance::repro::Repro;
use frazil_conformance::run::{short_name, support_answers};

use common::{OWN_FILES, own_cases, peer_entries, peer_file, router};

type Answers = BTreeMap<EngineId, String>;

fn answers(case: &Case, target: &Target) -> Answers {
    support_answers(case, &router(), target).unwrap_or_else(|error| panic!("{error}"))
}

/// Fixtures of the kind of device that an engine is made for.
fn homes(engine: &EngineId) -> impl Iterator<Item = (&'static str, Target)> {
    let is_home: fn(&str) -> bool = match short_name(engine) {
        "cpu" => |name| name == "host",
        "sm80" => |name| name != "host",
        other => panic!("no home is stated for {other}"),
    };
    fixtures::ALL
        .into_iter()
        .filter(move |(name, _)| is_home(name))
        .map(|(name, make)| (name, make()))
}

/// What every engine answers at home, where it must be the same on every device.
fn answers_at_home(case: &Case, router: &Router) -> BTreeMap<String, String> {
    let of_engine = |engine: &EngineId| {
        let router = router.clone().only([engine.clone()]);
        let mut found: Vec<(&str, String)> = homes(engine)
            .map(|(name, target)| {
                let answers = support_answers(case, &router, &target);
                let mut answers = answers.unwrap_or_else(|error| panic!("{error}"));
                (name, answers.remove(engine).expect("it is the one asked"))
            })
            .collect();
        let (_, first) = found[0].clone();
        found.retain(|(_, answer)| *answer != first);
        let others = found.iter().map(|(name, answer)| format!(", on {name} {answer}"));
        format!("{first}{}", others.collect::<String>())
    };
    let ids = router.engines().map(|engine| engine.id().clone());
    ids.map(|engine| (engine.to_string(), of_engine(&engine))).collect()
}

#[test]
fn every_case_names_every_engines_answer() {
    let mut wrong = Vec::new();
    let router = router();
    for (file, cases) in own_cases() {
        for case in cases {
            let found = answers_at_home(&case, &router);
            if case.answers != found {
                wrong
                    .push(format!("{file} {}: {found:?}, case says {:?}", case.name, case.answers));
            }
            if case.note.is_none() {
                wrong.push(format!("{file} {}: has no note", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_configuration_of_the_peer_is_answered_as_the_rules_say() {
    let mut wrong = Vec::new();
    let router = router();
    for entry in peer_entries(&router) {
        let expect = entry.expect.unwrap();
        for case in &entry.runs {
            for (engine, found) in answers_at_home(case, &router) {
                if expect.get(&engine) != Some(&found) {
                    let expect = expect.get(&engine);
                    let id: EngineId = engine.parse().unwrap();
                    let repro = Repro::new(case, &id, expect.map(String::as_str));
                    wrong.push(format!(
                        "{}: {engine} answers {found}, rules say {expect:?}\n    {repro}",
                        case.name
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Counts of answers by file and engine, one line each.
fn table() -> String {
    let router = router();
    let mut counts: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut count = |file: &str, case: &Case| {
        for (engine, answer) in answers_at_home(case, &router) {
            *counts.entry((file.into(), engine, answer)).or_default() += 1;
        }
    };
    for (file, cases) in own_cases() {
        cases.iter().for_each(|case| count(file, case));
    }
    for entry in peer_file().entries {
        // Forms and values of one configuration are answered alike, as tested above.
        count("peer_sdpa", &entry.runs[0]);
    }
    let line = |((file, engine, answer), count)| format!("{file} {engine} {answer} {count}\n");
    counts.into_iter().map(line).collect()
}

#[test]
fn answers_by_kind_are_those_last_seen() {
    let expected = "\
peer_sdpa sdpa_fwd_cpu DType 272
peer_sdpa sdpa_fwd_cpu Feature(block_mask) 16
peer_sdpa sdpa_fwd_cpu Feature(dropout) 30
peer_sdpa sdpa_fwd_cpu served 850
peer_sdpa sdpa_fwd_sm80 DType 272
peer_sdpa sdpa_fwd_sm80 Feature(block_mask) 16
peer_sdpa sdpa_fwd_sm80 Feature(dropout) 30
peer_sdpa sdpa_fwd_sm80 served 850
sdpa_fwd sdpa_fwd_cpu DType 3
sdpa_fwd sdpa_fwd_cpu Feature(block_mask) 1
sdpa_fwd sdpa_fwd_cpu Feature(dropout) 3
sdpa_fwd sdpa_fwd_cpu served 123
sdpa_fwd sdpa_fwd_sm80 DType 5
sdpa_fwd sdpa_fwd_sm80 Dim 9
sdpa_fwd sdpa_fwd_sm80 Feature(block_mask) 1
sdpa_fwd sdpa_fwd_sm80 Feature(dropout) 3
sdpa_fwd sdpa_fwd_sm80 served 112
sdpa_fwd_buglog sdpa_fwd_cpu served 92
sdpa_fwd_buglog sdpa_fwd_sm80 Alignment 1
sdpa_fwd_buglog sdpa_fwd_sm80 Dim 8
sdpa_fwd_buglog sdpa_fwd_sm80 Stride 2
sdpa_fwd_buglog sdpa_fwd_sm80 served 81
sdpa_fwd_decode sdpa_fwd_cpu served 77
sdpa_fwd_decode sdpa_fwd_sm80 DType 10
sdpa_fwd_decode sdpa_fwd_sm80 Stride 3
sdpa_fwd_decode sdpa_fwd_sm80 served 64
sdpa_fwd_edges sdpa_fwd_cpu served 79
sdpa_fwd_edges sdpa_fwd_sm80 DType 1
sdpa_fwd_edges sdpa_fwd_sm80 served 78
sdpa_fwd_storage sdpa_fwd_cpu served 104
sdpa_fwd_storage sdpa_fwd_sm80 Alignment 2
sdpa_fwd_storage sdpa_fwd_sm80 Dim 2
sdpa_fwd_storage sdpa_fwd_sm80 Stride 6
sdpa_fwd_storage sdpa_fwd_sm80 served 94
";
    assert_eq!(table(), expected);
}

/// A feature that the engine lacks is named before the device is looked at.
#[test]
fn an_engine_declines_devices_that_are_not_its_own() {
    let cases: Vec<Case> = own_cases().into_iter().flat_map(|(_, cases)| cases).collect();
    for (name, make) in fixtures::ALL {
        let target = make();
        for case in &cases {
            for (engine, answer) in answers(case, &target) {
                let expected = if case.answers[engine.as_str()].starts_with("Feature") {
                    &case.answers[engine.as_str()]
                } else if homes(&engine).any(|(home, _)| home == name) {
                    continue;
                } else {
                    "Device"
                };
                assert_eq!(answer, expected, "{} {engine} on {name}", case.name);
            }
        }
    }
}

/// Each row is read, and those that share an id would hide one another.
#[test]
fn the_peers_file_is_read_whole() {
    let PeerFile { entries, rules } = peer_file();
    assert!(!rules.is_empty());
    let ids: std::collections::BTreeSet<&str> =
        entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!((entries.len(), ids.len()), (1168, 1168));
    let of_type = |bytes| entries.iter().filter(|e| e.runs[0].dtype.bytes() == bytes).count();
    assert_eq!((of_type(2), of_type(1)), (896, 272));
    // 256 ragged rows of f16 and bf16, and 32 of f8, run in three forms; all with two kinds of
    // values.
    let runs: usize = entries.iter().map(|entry| entry.runs.len()).sum();
    assert_eq!(runs, 2 * (1168 + 2 * (256 + 32)));
}

/// Groups A to C of the public bug log: each entry is a case, or the head of the file says where it
/// is held instead.
#[test]
fn the_bug_log_is_covered() {
    let ids = [
        1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 15, 17, 18, 20, 21, 23, 24, 26, 27, 29, 30, 31, 33,
        34, 35, 36, 38, 39, 40, 42, 43, 44, 45, 47, 49, 50, 52, 53, 54, 56, 57, 58, 59, 60, 62, 63,
        64, 65, 67, 68, 70, 72, 73, 74, 76, 77, 79,
    ];
    let (_, text) = OWN_FILES.iter().find(|(name, _)| *name == "sdpa_fwd_buglog").unwrap();
    let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
    for id in ids {
        let is_case = text.contains(&format!("name = \"pp_{id:02}_"));
        assert!(is_case || head.contains(&format!("PP-{id:02}")), "PP-{id:02}");
    }
}

/// What is drawn for matrix units is served by engines that have them, but for what contradicts itself.
#[test]
fn cases_for_matrix_units_are_served_on_gpus() {
    let (mut served, router) = (0, router());
    for seed in 0..500 {
        let case = Aim::MatrixUnits.case_from_seed(seed);
        if let Ok(answers) = support_answers(&case, &router, &fixtures::sm90()) {
            let of_gpus = answers.iter().filter(|(engine, _)| short_name(engine) != "cpu");
            for (engine, answer) in of_gpus {
                assert_eq!(answer, "served", "seed {seed}: {engine}");
            }
            served += 1;
        }
    }
    assert!(served > 450, "{served}");
}

/// A graph that contradicts itself is refused by core, for a generated case that says so and for
/// no other.
#[test]
fn a_contradiction_is_refused_and_nothing_else() {
    for seed in 0..5000 {
        let case = case_from_seed(seed);
        let refused = match support_answers(&case, &router(), &fixtures::host()) {
            Ok(_) => false,
            Err(CaseError::Graph(_)) => true,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        assert_eq!(refused, case.note.is_some(), "seed {seed}: {:?}", case.note);
    }
}
