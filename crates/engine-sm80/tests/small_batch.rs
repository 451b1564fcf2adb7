//! Which plans do without a list of the work, and what these promise.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::Arc;

use frazil_conformance::case::{Case, CaseFile};
use frazil_conformance::declare::declare;
use frazil_core::target::fixtures;
use frazil_core::{Launches, Plan};
use frazil_engine_sm80::Sm80Engine;

const LIST: &str = "frazil_sdpa_work_list";
const FORWARD: &str = "frazil_sdpa_fwd_sm80";

/// 256 queries and keys in each of so many sequences; `sides` says how they are stored.
fn plans(batch: usize, seqlen: u64, sides: &str) -> Vec<Plan> {
    let lengths = vec!["1"; batch].join(", ");
    let text = format!(
        r#"
        [[case]]
        name = "small"
        dtype = "bf16"
        batch = {batch}
        num_q_heads = 4
        num_kv_heads = 2
        head_dim_qk = 64
        seqlen_q = {seqlen}
        seqlen_kv = {seqlen}
        {sides}
        "#
    )
    .replace("LENGTHS", &lengths);
    let case: Case = CaseFile::parse(&text).unwrap().cases.remove(0);
    let engine = Arc::new(Sm80Engine::of_process().registered());
    engine.ask(&declare(&case).unwrap().facts, &Arc::new(fixtures::sm80())).unwrap()
}

fn kernels(plan: &Plan) -> Vec<&str> {
    let Launches::Own(kernels) = plan.launches() else { unreachable!("kernels of our own") };
    kernels.iter().map(AsRef::as_ref).collect()
}

const PADDED: &str = "kv = { form = 'padded', lengths = [LENGTHS] }";
const PACKED: &str = "q = { form = 'packed_lengths', lengths = [LENGTHS] }\n\
                      kv = { form = 'packed_lengths', lengths = [LENGTHS] }";
const PAGED: &str = "kv = { form = 'paged', lengths = [LENGTHS], page_size = 16 }";

/// A lane has a sequence, and an id outside the pool is told in an error word that all blocks write to.
#[test]
fn few_sequences_whose_lengths_lie_on_the_device_need_no_list() {
    let (alone, listed) = (&[FORWARD][..], &[LIST, FORWARD][..]);
    for (what, plans, expected) in [
        ("padded", plans(32, 256, PADDED), &[alone, listed][..]),
        ("one more", plans(33, 256, PADDED), &[listed]),
        ("packed", plans(2, 256, PACKED), &[alone, listed]),
        ("pages", plans(2, 256, PAGED), &[listed]),
        ("dense", plans(2, 256, ""), &[alone]),
    ] {
        let found: Vec<_> = plans.iter().map(kernels).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn the_workspace_is_the_error_word_whatever_is_declared() {
    for seqlen in [256, 65_536] {
        let plan = &plans(8, seqlen, PACKED)[0];
        let regions: Vec<_> =
            plan.workspace().regions().map(|(name, region)| (name, region.bytes())).collect();
        assert_eq!(regions, [("error_word", 4)]);
        assert_eq!(plan.error_word(), Some(0));
    }
}

/// Another kernel than that of a list, since neither has a trace of the other.
#[test]
fn plans_with_and_without_a_list_have_names_of_their_own() {
    let plans = plans(8, 256, PACKED);
    assert_ne!(plans[0].name(), plans[1].name());
    assert_eq!(plans[0].config().get("small_batch"), Some(1));
    assert_eq!(plans[1].config().get("small_batch"), Some(0));
}
