//! Which plans cut units into pieces, and what these promise: kernels, workspace, error word.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::collections::BTreeMap;
use std::sync::Arc;

use frazil_conformance::case::{Case, CaseFile, SideCase};
use frazil_conformance::declare::declare;
use frazil_core::target::fixtures;
use frazil_core::{Align, Band, DeviceProps, Launches, Plan};
use frazil_engine_sm80::Sm80Engine;

const LIST: &str = "frazil_sdpa_work_list";
const FORWARD: &str = "frazil_sdpa_fwd_sm80";
const MERGE: &str = "frazil_sdpa_combine";

/// One query for each of eight heads, which share two of K and V: two units for every sequence.
fn decode(batch: u64, seqlen_kv: u64) -> Case {
    let text = format!(
        r#"
        [[case]]
        name = "decode"
        dtype = "bf16"
        batch = {batch}
        num_q_heads = 8
        num_kv_heads = 2
        head_dim_qk = 64
        head_dim_v = 40
        seqlen_q = 1
        seqlen_kv = {seqlen_kv}
        "#
    );
    CaseFile::parse(&text).unwrap().cases.remove(0)
}

fn padded(batch: usize) -> SideCase {
    SideCase::Padded { lengths: vec![0; batch], min_len: 0 }
}

/// On a GPU that holds four of its blocks on each of so many multiprocessors.
fn plan(case: &Case, num_sms: u32) -> Plan {
    let mut target = fixtures::sm80();
    let DeviceProps::Cuda(gpu) = &mut target.device else { unreachable!("a fixture of a GPU") };
    gpu.num_sms = num_sms;
    let facts = declare(case).unwrap().facts;
    let engine = Arc::new(Sm80Engine::of_process().registered());
    engine.ask(&facts, &Arc::new(target)).unwrap().remove(0)
}

fn kernels(plan: &Plan) -> Vec<&str> {
    let Launches::Own(kernels) = plan.launches() else { unreachable!("kernels of our own") };
    kernels.iter().map(AsRef::as_ref).collect()
}

fn regions(plan: &Plan) -> Vec<&str> {
    plan.workspace().regions().map(|(name, _)| name).collect()
}

fn windowed(side: u32, case: Case) -> Case {
    let band = Band { align: Align::BottomRight, left: Some(side), right: Some(side) };
    Case { band: Some(band), ..case }
}

#[test]
fn units_are_cut_where_whole_ones_leave_multiprocessors_idle() {
    let wide = Case { seqlen_q: 16, ..decode(1, 4096) };
    let padded_q = Case { q: padded(1), ..decode(1, 4096) };
    let many_padded = Case { kv: padded(5000), ..decode(5000, 4096) };
    for (is_cut, what, case) in [
        (true, "two units of many keys", decode(1, 4096)),
        (true, "as few keys as pay", decode(1, 1024)),
        (false, "fewer keys", decode(1, 1023)),
        (true, "64 rows for each head of K and V", wide.clone()),
        (false, "more rows", Case { seqlen_q: 17, ..wide }),
        (true, "nine tenths of a wave, less a unit", decode(194, 4096)),
        (false, "nine tenths of a wave", decode(195, 4096)),
        (false, "a unit for each block", decode(216, 4096)),
        (true, "a wave and a unit", decode(217, 4096)),
        (true, "a fifth of the memory's rate", decode(54, 4096)),
        (false, "a hundred waves", decode(10_800, 4096)),
        (true, "lengths of keys on the device, however many units", many_padded.clone()),
        (false, "the same of few keys", Case { seqlen_kv: 1000, ..many_padded }),
        (true, "lengths of queries on the device", padded_q),
        (true, "a window of many keys", windowed(512, decode(1, 100_000))),
        (false, "a window of few keys", windowed(511, decode(1, 100_000))),
        (false, "no sequence", decode(0, 4096)),
    ] {
        let plan = plan(&case, 108);
        assert_eq!(kernels(&plan).contains(&MERGE), is_cut, "{what}: {plan:?}");
    }
}

/// One kernel serves all that are cut, and one all that are not.
#[test]
fn no_extent_is_in_a_key() {
    let plans = |cases: [Case; 3]| cases.map(|case| plan(&case, 108));
    let cut = plans([decode(1, 4096), decode(7, 9000), decode(190, 1024)]);
    let whole = plans([decode(200, 4096), decode(216, 2048), decode(1, 64)]);
    for (plans, launches) in [(cut, &[FORWARD, MERGE][..]), (whole, &[FORWARD])] {
        assert_eq!(kernels(&plans[0]), launches);
        assert!(plans.iter().all(|plan| plan.config() == plans[0].config()), "{plans:?}");
    }
}

/// Rows of few keys are taken in smaller tiles, of which more fit a multiprocessor; long ones too, where
/// those hold all units at once.
#[test]
fn tiles_are_as_large_as_the_keys_are_many() {
    let wide = |case: Case| Case { head_dim_qk: 128, head_dim_v: Some(128), ..case };
    for (block_n, case) in
        [(64, decode(1, 64)), (32, wide(decode(1, 1023))), (64, wide(decode(1, 1024)))]
    {
        assert_eq!(plan(&case, 108).config().get("block_n"), Some(block_n), "{case:?}");
    }
    let all_at_once = plan(&wide(decode(210, 8192)), 108);
    assert_eq!(all_at_once.config().get("block_n"), Some(32));
    assert_eq!(kernels(&all_at_once), [FORWARD]);
}

/// Two slots for each block, of four rows of 40 columns, for four heads share K and V: for no more blocks
/// than a GPU holds at once, nor than the units have places, one for each tile of 64 keys and one more.
/// No list: all units have as many tiles.
#[test]
fn the_workspace_has_two_slots_for_each_block() {
    for (batch, seqlen_kv, num_sms, num_blocks) in [
        (1, 4096, 3, 12_u64),
        (1, 4096, 108, 130),
        (2, 1100, 108, 76),
        (1, 1 << 20, 108, 432),
        // As many for every unit, if that leaves less than a tenth idle.
        (40, 1 << 20, 108, 400),
        (55, 1 << 20, 108, 432),
        (1, 1 << 24, 40_000, 32_768),
    ] {
        let plan = plan(&decode(batch, seqlen_kv), num_sms);
        let regions: BTreeMap<&str, u64> =
            plan.workspace().regions().map(|(name, region)| (name, region.bytes())).collect();
        let expected = [
            ("partial_out", 2 * num_blocks * 4 * 40 * 4),
            ("partial_stats", 2 * num_blocks * 4 * 8),
        ];
        assert_eq!(regions, expected.into(), "{batch} x {seqlen_kv} on {num_sms}");
        assert_eq!(plan.error_word(), None);
    }
}

/// What queries see is another number of tiles for each of the bands.
#[test]
fn a_window_makes_a_list_of_its_tiles() {
    let plan = plan(&windowed(700, Case { seqlen_q: 2, ..decode(3, 100_000) }), 108);
    assert_eq!(kernels(&plan), [LIST, FORWARD, MERGE]);
    let expected = [
        "work_list_header",
        "work_list_records",
        "work_list_places",
        "partial_out",
        "partial_stats",
    ];
    assert_eq!(regions(&plan), expected);
}

#[test]
fn lengths_on_the_device_add_an_error_word() {
    let plan = plan(&Case { kv: padded(3), ..decode(3, 4096) }, 108);
    assert_eq!(kernels(&plan), [LIST, FORWARD, MERGE]);
    assert_eq!(plan.error_word(), Some(0));
    let expected = [
        "error_word",
        "kv_lengths",
        "work_list_header",
        "work_list_records",
        "work_list_places",
        "partial_out",
        "partial_stats",
    ];
    assert_eq!(regions(&plan), expected);
}
