//! What a list that is wrong in one place is told: the check is seen red.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::Arc;

use frazil_conformance::cuda::{SetupEngine, WORK_LIST_ENGINE};
use frazil_conformance::seqlens::{Content, Problem, SideProblem};
use frazil_conformance::work_list::{Cut, Fault, ListedBand, Order};
use frazil_core::target::fixtures;
use frazil_core::{Align, Band, Facts, Launches, LengthBounds, Plan, Version};
use frazil_cuda::compile::Forbidden;
use frazil_cuda::nvrtc::Build;
use frazil_cuda::{Artifacts, work_list};

const CUT: Cut = Cut {
    band_tokens: 3,
    block_n: 2,
    num_runs: 2,
    section_bytes: 1 << 20,
    order: Order::DearestFirst,
};

const NATURAL: Cut = Cut { order: Order::Natural, ..CUT };

fn side(content: Content) -> SideProblem {
    SideProblem {
        content,
        bounds: LengthBounds::up_to(40),
        max_total: 50,
        rows: [50; 3],
        spare_rows: 0,
        int_stride: 1,
        repeated: false,
    }
}

fn problem() -> Problem {
    Problem {
        batch: 3,
        spare_batch: 1,
        num_heads: 3,
        band: Some(Band::causal(Align::BottomRight)),
        q: side(Content::PackedLengths(vec![20, 0, 7])),
        kv: side(Content::PackedPrefix(vec![5, 25, 30, 47])),
    }
}

fn plan(problem: &Problem, cut: Cut) -> Plan {
    let build = Build { version: Version::new(13, 0, 0), library_bytes: 1 };
    let artifacts = Arc::new(Artifacts::new(Arc::new(Forbidden(build)), None));
    let facts = Arc::new(Facts::read(&problem.graph().unwrap()).unwrap());
    let engine = Arc::new(SetupEngine::listing(artifacts, cut));
    engine.ask(&facts, &Arc::new(fixtures::sm90())).unwrap().remove(0)
}

fn words(band: &ListedBand) -> [i32; 8] {
    let ListedBand { batch_idx, q_begin, q_start, q_len, kv_start, kv_len, tile_begin, tile_end } =
        *band;
    [batch_idx, q_begin, q_start, q_len, kv_start, kv_len, tile_begin, tile_end]
}

/// A workspace with these bands, as a right kernel would leave it.
fn workspace(problem: &Problem, plan: &Plan, cut: &Cut, bands: &[ListedBand]) -> Vec<u8> {
    let mut image = problem.expected_workspace(plan).unwrap();
    let costs_alike = problem.work_list(cut, 1024).costs_alike;
    let header = [u32::try_from(bands.len()).unwrap(), 6, 0, costs_alike.into()];
    let header = header.map(u32::to_le_bytes).concat();
    let records: Vec<u8> = bands.iter().flat_map(words).flat_map(i32::to_le_bytes).collect();
    let mut parts = vec![("work_list_header", header), ("work_list_records", records)];
    if plan.workspace().regions().any(|(name, _)| name == "work_list_places") {
        // Of all bands before the first, the second, ...
        let mut places = vec![0_i64];
        for band in bands {
            places.push(places[places.len() - 1] + i64::from(band.tile_end - band.tile_begin + 1));
        }
        parts.push(("work_list_places", places.into_iter().flat_map(i64::to_le_bytes).collect()));
    }
    for (name, bytes) in parts {
        let at = usize::try_from(offset(plan, name)).unwrap();
        image[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    image
}

fn offset(plan: &Plan, name: &str) -> u64 {
    plan.workspace().regions().find(|(of, _)| *of == name).unwrap().1.offset()
}

/// Dearest first.
fn bands(problem: &Problem) -> Vec<ListedBand> {
    let mut bands = problem.work_list(&CUT, 100).bands;
    bands.sort_by_key(|band| std::cmp::Reverse(band.cost_class()));
    bands
}

fn judge(bands: &[ListedBand], harm: impl Fn(&Plan, &mut [u8])) -> Result<(), Fault> {
    judge_in(CUT, bands, harm)
}

fn judge_in(cut: Cut, bands: &[ListedBand], harm: impl Fn(&Plan, &mut [u8])) -> Result<(), Fault> {
    let problem = problem();
    let plan = plan(&problem, cut);
    let mut image = workspace(&problem, &plan, &cut, bands);
    harm(&plan, &mut image);
    problem.check_work_list(&plan, &cut, 1024, &image).map(|_| ())
}

fn nothing(_: &Plan, _: &mut [u8]) {}

#[test]
fn a_right_list_is_right_in_any_order_of_bands_that_cost_alike() {
    let mut bands = bands(&problem());
    judge(&bands, nothing).unwrap();
    let alike = (1..bands.len()).find(|&at| bands[at - 1].cost_class() == bands[at].cost_class());
    let at = alike.expect("two bands that cost alike");
    bands.swap(at - 1, at);
    judge(&bands, nothing).unwrap();
}

#[test]
fn a_band_in_the_wrong_place_is_found() {
    let mut bands = bands(&problem());
    let last = bands.len() - 1;
    assert_ne!(bands[0].cost_class(), bands[last].cost_class());
    bands.swap(0, last);
    assert!(matches!(judge(&bands, nothing), Err(Fault::Order { at: 1, .. })));
}

#[test]
fn where_no_sequence_has_more_than_two_tiles_of_keys_any_order_is_right() {
    let cut = Cut { block_n: 10, ..CUT };
    let problem = problem();
    let mut bands = problem.work_list(&cut, 1024).bands;
    let last = bands.len() - 1;
    assert!(bands.iter().any(|band| band.tile_end == 2));
    bands.swap(0, last);
    judge_in(cut, &bands, nothing).unwrap();
    bands[0].q_begin += 1;
    assert!(judge_in(cut, &bands, nothing).is_err());
}

/// Also of bands that cost alike.
#[test]
fn in_natural_order_two_bands_that_are_swapped_are_found() {
    let bands = problem().work_list(&NATURAL, 100).bands;
    judge_in(NATURAL, &bands, nothing).unwrap();
    for at in 1..bands.len() {
        let mut bands = bands.clone();
        bands.swap(at - 1, at);
        let fault = judge_in(NATURAL, &bands, nothing).unwrap_err();
        assert!(matches!(fault, Fault::Order { at: found, .. } if found == at - 1), "{fault}");
    }
}

/// The first, one amid them, the sum of all, and one past it, which nothing may write.
#[test]
fn in_natural_order_a_place_that_is_wrong_is_found() {
    let bands = problem().work_list(&NATURAL, 100).bands;
    for place in [0, 3, bands.len(), bands.len() + 1] {
        let at = 8 * place as u64;
        let harm = |plan: &Plan, image: &mut [u8]| {
            image[usize::try_from(offset(plan, "work_list_places") + at).unwrap()] ^= 1;
        };
        let found = judge_in(NATURAL, &bands, harm).unwrap_err();
        let Fault::Byte { region, at: found_at, .. } = found else { panic!("{found}") };
        assert_eq!((region.as_str(), found_at), ("work_list_places", at));
    }
}

#[test]
fn a_band_that_is_listed_twice_hides_no_other() {
    let mut bands = bands(&problem());
    bands[1] = bands[0];
    let fault = judge(&bands, nothing).unwrap_err();
    assert!(matches!(fault, Fault::Bands { missing: 1, foreign: 0, first: Some(_) }), "{fault}");
}

#[test]
fn a_band_that_sees_other_tiles_is_found() {
    let mut bands = bands(&problem());
    bands[2].tile_begin += 1;
    let fault = judge(&bands, nothing).unwrap_err();
    assert!(matches!(fault, Fault::Bands { missing: 1, foreign: 1, .. }), "{fault}");
}

#[test]
fn a_band_that_is_left_out_is_found_by_the_header() {
    let mut bands = bands(&problem());
    bands.pop();
    assert!(matches!(judge(&bands, nothing), Err(Fault::Header { .. })));
}

/// One record too many, a claimed unit, a length that is wrong, a byte between regions.
#[test]
fn a_byte_that_is_wrong_is_found_wherever_it_is() {
    let bands = bands(&problem());
    let past = 32 * bands.len() as u64;
    let places = [
        ("work_list_records", past, "work_list_records", past),
        ("q_lengths", 4, "q_lengths", 4),
        ("q_lengths", 16, "padding", offset(&plan(&problem(), CUT), "q_lengths") + 16),
        ("error_word", 0, "error_word", 0),
    ];
    for (name, at, region, expected_at) in places {
        let harm = |plan: &Plan, image: &mut [u8]| {
            image[usize::try_from(offset(plan, name) + at).unwrap()] ^= 1;
        };
        let found = judge(&bands, harm).unwrap_err();
        let Fault::Byte { region: of, at: found_at, .. } = found else { panic!("{found}") };
        assert_eq!((of.as_str(), found_at), (region, expected_at));
    }
    let claimed = |plan: &Plan, image: &mut [u8]| {
        image[usize::try_from(offset(plan, "work_list_header") + 8).unwrap()] = 1;
    };
    assert!(matches!(judge(&bands, claimed), Err(Fault::Header { .. })));
}

#[test]
fn the_plan_promises_the_lists_kernel_alone() {
    let plan = plan(&problem(), CUT);
    assert_eq!(*plan.engine(), WORK_LIST_ENGINE);
    assert_eq!(*plan.launches(), Launches::Own(vec![work_list::KERNEL.into()]));
    assert_eq!((plan.error_word(), plan.config()), (Some(0), &work_list::config()));
}
