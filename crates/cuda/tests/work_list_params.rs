//! What the kernel of the work list is launched with, for calls as core checks them, and how many bands
//! there is room for; no GPU is needed for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/recorder.rs"]
mod recorder;

use frazil_conformance::seqlens::{Content, Form as Of, Harm, Problem, SideProblem};
use frazil_core::{Align, Band, Call, Facts, Layout, LengthBounds, Region, SdpaFwdFacts};
use frazil_cuda::Divisor;
use frazil_cuda::seqlens::{Form, Seqlens};
use frazil_cuda::work_list::{Bands, Order, Params, SHARED_SEQUENCES, WorkList};
use recorder::Kernel;

const BANDS: Bands = Bands { band_tokens: 16, block_n: 48, num_runs: 3, section_bytes: 1 << 20 };

fn list_of(problem: &Problem, bands: &Bands) -> Option<WorkList> {
    let facts = Facts::read(&problem.graph().unwrap()).unwrap();
    let Facts::SdpaFwd(facts) = facts else { panic!("{facts:?}") };
    WorkList::of(&facts, bands, &mut Layout::new())
}

struct List(WorkList);

impl Kernel for List {
    type Params = Params;

    fn of(facts: &SdpaFwdFacts, layout: &mut Layout) -> Option<Self> {
        WorkList::of(facts, &BANDS, layout).map(Self)
    }

    fn error_word(&self) -> Option<Region> {
        self.0.seqlens().map(Seqlens::error_word)
    }

    fn params(&self, call: &Call<'_>) -> Params {
        self.0.params(call)
    }
}

/// The same in natural order.
struct Natural(WorkList);

impl Kernel for Natural {
    type Params = Params;

    fn of(facts: &SdpaFwdFacts, layout: &mut Layout) -> Option<Self> {
        Some(Self(WorkList::in_natural_order(facts, &BANDS, layout).0))
    }

    fn error_word(&self) -> Option<Region> {
        self.0.seqlens().map(Seqlens::error_word)
    }

    fn params(&self, call: &Call<'_>) -> Params {
        self.0.params(call)
    }
}

fn params(problem: &Problem) -> (Params, Vec<(&'static str, u64)>) {
    recorder::params_of::<List>(problem)
}

/// Five sequences; nothing declared that is not there.
fn problem(q: Of, kv: Of) -> Problem {
    let mut problem = Problem::hostile(5, (q, Harm::None), (kv, Harm::None), 3);
    problem.spare_batch = 0;
    for side in [&mut problem.q, &mut problem.kv] {
        side.rows = side.rows.map(|rows| rows + side.spare_rows);
        side.spare_rows = 0;
    }
    problem
}

#[test]
fn the_regions_are_those_of_setup_and_of_the_list() {
    let mut problem = problem(Of::PackedPrefix, Of::Paged);
    problem.q.max_total = 37;
    (problem.q.rows, problem.q.bounds) = ([39, 37, 38], LengthBounds { min: 3, max: 9 });
    let (_, regions) = params(&problem);
    // One band for each sequence of at most nine rows.
    let expected = [
        ("error_word", 4),
        ("q_lengths", 20),
        ("q_starts", 20),
        ("kv_lengths", 20),
        ("work_list_header", 16),
        ("work_list_records", 5 * 32),
    ];
    assert_eq!(regions, expected);
    problem.spare_batch = u64::from(SHARED_SEQUENCES) - 4;
    let (found, regions) = params(&problem);
    let prefix = (u64::from(SHARED_SEQUENCES) + 2) * 4;
    assert!(regions.contains(&("band_prefix", prefix)), "{regions:?}");
    assert!(found.first_bands != 0);
    assert_eq!(found.seqlens.batch, 5);
}

#[test]
fn the_rows_of_a_dense_side_are_those_of_the_call() {
    let mut problem = problem(Of::Dense, Of::PackedLengths);
    (problem.q.rows, problem.q.spare_rows) = ([7; 3], 2);
    let (found, _) = params(&problem);
    assert_eq!((found.q_rows, found.kv_rows), (7, 0));
    assert_eq!(found.seqlens.q.lengths.form, Form::Dense);
    assert_eq!(found.max_bands, 5, "nine rows are declared");
    assert_eq!(found.seqlens.kv.num_offsets, 0);
    let mut problem = Problem { num_heads: 4, ..self::problem(Of::Padded, Of::Dense) };
    (problem.kv.rows, problem.kv.spare_rows) = ([6; 3], 1);
    let (found, _) = params(&problem);
    assert_eq!((found.q_rows, found.kv_rows), (0, 6));
    assert_eq!((found.num_kv_heads, found.num_runs), (4, 3));
    // K and V have eight columns of two bytes each.
    assert_eq!(found.keys_per_section, (1 << 20) / 32);
    assert_eq!((found.band_tokens, found.block_n), (Divisor::new(16), Divisor::new(48)));
}

#[test]
fn the_band_is_that_of_the_graph() {
    let of = |band| {
        let (found, _) = params(&Problem { band, ..problem(Of::Padded, Of::Padded) });
        let band = found.band;
        (band.is_bounded, band.is_bottom_right, band.left, band.right)
    };
    assert_eq!(of(None).0, 0);
    assert_eq!(of(Some(Band::causal(Align::BottomRight))), (1, 1, 1 << 31, 0));
    let window = Band { left: Some(4), right: Some(u32::MAX), align: Align::TopLeft };
    assert_eq!(of(Some(window)), (1, 0, 4, 1 << 31));
}

/// Q packed in `total` rows, lengths of at most `max`.
fn packed(batch: u64, max: u32, total: u32) -> Problem {
    let mut problem = Problem::hostile(batch, (Of::PackedLengths, Harm::Zeros), KV, 1);
    problem.spare_batch = 0;
    problem.q = SideProblem {
        bounds: LengthBounds::up_to(max),
        max_total: total,
        rows: [u64::from(total) + 3; 3],
        spare_rows: 0,
        ..problem.q
    };
    problem
}

const KV: (Of, Harm) = (Of::Dense, Harm::None);

/// The most bands of any lengths up to `max` that add up to at most `total`.
fn most_bands(batch: u64, max: u64, total: u64, band_tokens: u64) -> u64 {
    if batch == 0 {
        return 0;
    }
    let of_first = (0..=max.min(total)).map(|len| {
        len.div_ceil(band_tokens) + most_bands(batch - 1, max, total - len, band_tokens)
    });
    of_first.max().unwrap()
}

#[test]
fn there_is_room_for_the_bands_of_disjoint_sequences_and_for_no_more() {
    for batch in 0..=4 {
        for max in [1, 2, 5, 8] {
            for total in [0, 1, 3, 7, 12] {
                for band_tokens in [1, 2, 3, 8] {
                    let bands = Bands { band_tokens, ..BANDS };
                    let list = list_of(&packed(batch, max, total), &bands).unwrap();
                    let most = most_bands(batch, max.into(), total.into(), band_tokens.into());
                    let case = format!("{batch} of {max} in {total} by {band_tokens}");
                    assert!(list.max_bands() >= most, "{case}");
                    assert_eq!(list.records().bytes(), 32 * list.max_bands(), "{case}");
                    // Tight but for lengths that leave a rest of the total which fills no band.
                    assert!(list.max_bands() <= most + batch, "{case}: {most}");
                }
            }
        }
    }
}

#[test]
fn a_large_batch_of_few_rows_has_few_bands() {
    let of = |batch, max, total, band_tokens| {
        list_of(&packed(batch, max, total), &Bands { band_tokens, ..BANDS }).unwrap().max_bands()
    };
    assert_eq!(of(8, 16384, 16384, 128), 128 + 7);
    assert_eq!(of(1000, 16384, 10, 128), 1 + 9);
    let mut padded = problem(Of::Padded, Of::Padded);
    (padded.q.rows, padded.q.bounds) = ([65; 3], LengthBounds::up_to(40));
    let list = list_of(&padded, &Bands { band_tokens: 32, ..BANDS }).unwrap();
    assert_eq!(list.max_bands(), 5 * 2, "the bound of a length is below the rows");
}

#[test]
fn where_no_side_has_lengths_nothing_is_added() {
    let dense = problem(Of::Dense, Of::Dense);
    assert_eq!(dense.kv.content, Content::Dense);
    assert!(list_of(&dense, &BANDS).is_none());
}

#[test]
fn a_list_in_natural_order_has_places_too() {
    let problem = problem(Of::PackedPrefix, Of::Paged);
    let (dearest, mut regions) = params(&problem);
    assert_eq!((dearest.order, dearest.places), (Order::DearestFirst, 0));
    let (found, natural) = recorder::params_of::<Natural>(&problem);
    let max_bands = found.max_bands.unsigned_abs();
    regions.push(("work_list_places", 8 * (u64::from(max_bands) + 1)));
    assert_eq!(natural, regions);
    assert_eq!((found.order, found.max_bands), (Order::Natural, dearest.max_bands));
    assert!(found.places != 0 && found.seqlens.error_word != 0);
}

#[test]
fn two_dense_sides_have_a_list_in_natural_order_and_no_error_word() {
    let mut problem = problem(Of::Dense, Of::Dense);
    (problem.q.rows, problem.q.spare_rows, problem.spare_batch) = ([33; 3], 5, 2);
    let (found, regions) = recorder::params_of::<Natural>(&problem);
    // Seven sequences of 38 queries are declared.
    let num_bands = 7 * 3;
    let expected = [
        ("work_list_header", 16),
        ("work_list_records", num_bands * 32),
        ("work_list_places", (num_bands + 1) * 8),
    ];
    assert_eq!(regions, expected);
    let kv_rows = i32::try_from(problem.kv.rows[0]).unwrap();
    assert_eq!((found.q_rows, found.kv_rows, found.seqlens.batch), (33, kv_rows, 5));
    assert_eq!(
        (found.seqlens.q.lengths.form, found.seqlens.kv.lengths.form),
        (Form::Dense, Form::Dense)
    );
    assert_eq!(found.seqlens.error_word, 0);
}
