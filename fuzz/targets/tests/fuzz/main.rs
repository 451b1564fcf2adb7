//! The bodies of the fuzz targets on stable Rust: every seed, and inputs drawn by proptest from the
//! seeds and from nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod edits;
mod harness;

use frazil_fuzz_targets::{Reached, TARGETS, Target};
use harness::{check, folder, hunt, seeds};
use proptest::prelude::*;

/// Most bytes of all seeds: they are part of every checkout.
const MAX_SEED_BYTES: usize = 300_000;

/// Inputs of a target in a run of the suite, and the least share of them, in hundredths, that must
/// come as far as inputs of the target can: inputs that are all refused show nothing.
const DRAWN: [(&str, u32, u32); 7] = [
    ("builder", 8000, 12),
    ("case_toml", 4000, 5),
    ("case_json", 4000, 5),
    ("peer_jsonl", 1500, 3),
    ("safetensors", 6000, 5),
    ("cache_entry", 6000, 5),
    ("execute", 3000, 70),
];

fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|target| target.name == name).unwrap()
}

#[test]
fn every_seed_keeps_the_promises() {
    let mut bytes = 0;
    let mut failed = Vec::new();
    for target in TARGETS {
        let mut furthest = Reached::Refused;
        for (file, input) in seeds(target.name) {
            bytes += input.len();
            match check(target.run, &input) {
                Ok(reached) => furthest = furthest.max(reached),
                Err(why) => failed.push(format!("{}/{file}: {why}", target.name)),
            }
        }
        assert_eq!(furthest, target.furthest, "no seed of {} comes as far", target.name);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(bytes <= MAX_SEED_BYTES, "{bytes} bytes of seeds");
}

#[test]
fn every_drawn_input_keeps_the_promises() {
    for (name, count, share) in DRAWN {
        let target = target(name);
        let inputs = edits::inputs(name, seeds(name).into_iter().map(|(_, input)| input).collect());
        let reached = hunt(target.run, inputs, count).unwrap_or_else(|why| panic!("{name}: {why}"));
        let far = reached.iter().filter(|reached| **reached == target.furthest).count();
        assert!(
            100 * far >= reached.len() * share as usize,
            "{name}: {far} of {} inputs came far enough",
            reached.len()
        );
    }
}

/// The detector, seen red: a body that breaks its promise for a few inputs is found out, and the
/// input that is reported is the smallest.
#[test]
fn a_broken_promise_is_found_and_made_small() {
    fn broken(input: &[u8]) -> Reached {
        assert!(
            !input.windows(2).any(|pair| pair[0] > 0xF0 && pair[1] > 0x80),
            "broken on purpose"
        );
        Reached::Read
    }
    assert_eq!(check(broken, b"fine"), Ok(Reached::Read));
    let why = check(broken, &[0, 0xFF, 0xFF]).unwrap_err();
    assert!(why.contains("broken on purpose"), "{why}");
    let why = hunt(broken, prop::collection::vec(any::<u8>(), 0..200), 1000).unwrap_err();
    assert!(why.contains("broken on purpose") && why.contains(r"b\xf1\x81"), "{why}");
}

/// The programs of libFuzzer run the bodies that are tested here, each its own.
#[test]
fn every_target_is_a_program() {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for Target { name, .. } in TARGETS {
        let file = format!("fuzz_targets/fuzz_target_{name}.rs");
        assert!(manifest.contains(&format!("path = \"{file}\"")), "{file} is no program");
        let text = std::fs::read_to_string(folder().join(&file)).unwrap();
        assert!(text.contains(&format!("run(\"{name}\", input)")), "{file} runs another body");
    }
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(count(folder().join("fuzz_targets")), TARGETS.len());
    assert_eq!(count(folder().join("corpus-seeds")), TARGETS.len());
}
