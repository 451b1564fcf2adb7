//! What the setup kernel is launched with, for calls as core checks them; no GPU is needed for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/recorder.rs"]
mod recorder;

use frazil_conformance::seqlens::{Content, Form as Of, Harm, PAGE_SIZE, Problem};
use frazil_core::{Call, Facts, Layout, LengthBounds, Region, Role, SdpaFwdFacts};
use frazil_cuda::seqlens::{Form, Params, Seqlens, SideParams};
use recorder::{Kernel, of_facts};

const OFFSETS: [Role; 4] = [Role::Q, Role::Lse, Role::K, Role::V];

struct Setup(Seqlens);

impl Kernel for Setup {
    type Params = Params;

    fn of(facts: &SdpaFwdFacts, layout: &mut Layout) -> Option<Self> {
        Seqlens::of(facts, &OFFSETS, layout).map(Self)
    }

    fn error_word(&self) -> Option<Region> {
        Some(self.0.error_word())
    }

    fn params(&self, call: &Call<'_>) -> Params {
        self.0.params(call)
    }
}

fn params_of(problem: &Problem) -> (Params, Vec<(&'static str, u64)>) {
    recorder::params_of::<Setup>(problem)
}

/// Five sequences; Q packed, K and V as given, with rows declared that are not there.
fn problem(kv: Of) -> Problem {
    let mut problem = Problem::hostile(5, (Of::PackedPrefix, Harm::None), (kv, Harm::None), 3);
    problem.spare_batch = 2;
    problem.q.max_total = 40;
    (problem.q.rows, problem.q.spare_rows) = ([39, 37, 38], 3);
    problem.q.bounds = LengthBounds { min: 3, max: 9 };
    problem.q.int_stride = 2;
    problem
}

#[test]
fn the_regions_are_those_of_what_is_written() {
    let (_, regions) = params_of(&problem(Of::Paged));
    // Seven sequences are declared.
    let expected = [
        ("error_word", 4),
        ("q_lengths", 28),
        ("q_starts", 28),
        ("q_element_offsets", 64),
        ("lse_element_offsets", 64),
        ("kv_lengths", 28),
    ];
    assert_eq!(regions, expected);
}

#[test]
fn a_packed_side_reaches_the_rows_that_all_its_tensors_have() {
    let (params, _) = params_of(&problem(Of::Dense));
    assert_eq!(params.batch, 5);
    assert_eq!(params.kv, SideParams::default(), "the host knows all");
    let q = params.q;
    assert_eq!(
        (q.lengths.form, q.num_offsets, q.lengths.entries.stride),
        (Form::PackedPrefix, 2, 2)
    );
    assert_eq!((q.lengths.min_len, q.lengths.max_len), (3, 9));
    assert_eq!(q.lengths.capacity, 37, "O has the fewest rows, and they are fewer than the total");
    assert_eq!(q.lengths.starts.address, 0, "dead");
    assert_eq!(q.offsets.map(|offsets| offsets.row_stride), [8, 3, 0, 0, 0]);
    assert!(q.offsets[2..].iter().all(|offsets| offsets.out == 0), "dead");

    let mut padded = problem(Of::PackedStarts);
    (padded.kv.rows, padded.kv.spare_rows, padded.kv.max_total) = ([50, 60, 0], 0, 45);
    let (params, _) = params_of(&padded);
    let kv = params.kv;
    assert_eq!(
        (kv.lengths.form, kv.lengths.capacity, kv.num_offsets),
        (Form::PackedStarts, 45, 2),
        "the total"
    );
    assert_eq!([kv.offsets[0].row_stride, kv.offsets[1].row_stride], [24, 40]);
    assert!(kv.lengths.starts.address != 0 && kv.out_starts != 0);
}

#[test]
fn a_length_that_is_not_packed_is_held_to_the_rows_that_are_there() {
    let mut padded = problem(Of::Padded);
    (padded.kv.rows, padded.kv.spare_rows) = ([6; 3], 4);
    let mut paged = problem(Of::Paged);
    (paged.kv.rows, paged.kv.spare_rows) = ([2; 3], 1);
    for (problem, rows) in [(padded, 6), (paged, 2 * PAGE_SIZE.cast_signed())] {
        let kv = params_of(&problem).0.kv;
        assert_eq!(
            (kv.lengths.form, kv.lengths.min_len, kv.lengths.max_len, kv.lengths.capacity),
            (Form::Lengths, 2, rows, rows)
        );
        assert_eq!((kv.out_starts, kv.num_offsets), (0, 0), "dead");
    }
}

#[test]
fn a_bound_below_the_rows_counts() {
    let mut problem = problem(Of::Padded);
    (problem.kv.rows, problem.kv.spare_rows) = ([11; 3], 0);
    let kv = params_of(&problem).0.kv;
    assert_eq!((kv.lengths.max_len, kv.lengths.capacity), (10, 11));
}

#[test]
fn where_no_side_has_lengths_nothing_is_added() {
    let dense = Problem::hostile(3, (Of::Dense, Harm::None), (Of::Dense, Harm::None), 1);
    assert_eq!(dense.kv.content, Content::Dense);
    let facts: Facts = Facts::read(&dense.graph().unwrap()).unwrap();
    let mut layout = Layout::new();
    assert!(of_facts::<Setup>(&facts, &mut layout).is_none());
    assert_eq!(layout, Layout::new());
}
