//! The work list on a GPU, real or simulated, against the reference of the conformance library: one
//! body of tests for both.
// Each test binary uses its part of this.
#![allow(dead_code)]

use std::sync::Arc;

use frazil::{Align, Band, Facts, LengthBounds, Plan};
use frazil_conformance::cuda::SetupEngine;
use frazil_conformance::memory::DeviceMemory;
use frazil_conformance::seqlens::{Content, Form, Harm, Problem, SideProblem};
use frazil_conformance::work_list::{Cut, Listed, Order};
use frazil_cuda::Artifacts;
use frazil_cuda::sim::Simulation;
use frazil_cuda::work_list::SHARED_SEQUENCES;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A device, and where the kernel for it comes from.
pub(crate) struct Lists {
    artifacts: Arc<Artifacts>,
    memory: Box<dyn DeviceMemory>,
}

/// Every pair of forms of which one has lengths.
fn forms() -> impl Iterator<Item = (Form, Form)> {
    let sides = Form::OF_Q.into_iter().flat_map(|q| Form::OF_KV.map(|kv| (q, kv)));
    sides.filter(|&sides| sides != (Form::Dense, Form::Dense))
}

/// No band, and one of every kind, from both corners.
fn bands() -> Vec<Option<Band>> {
    let of = |align| {
        let causal = Band::causal(align);
        let left = Some(3);
        let wide = Band { left: Some(u32::MAX), right: Some(2), align };
        [causal, Band { left, ..causal }, Band { left, right: None, align }, wide].map(Some)
    };
    [Align::TopLeft, Align::BottomRight].into_iter().flat_map(of).chain([None]).collect()
}

const ORDERS: [Order; 2] = [Order::DearestFirst, Order::Natural];

/// Cuts of every kind: tokens to a band, keys to a tile, runs, and sections of one head, a few, all;
/// each in both orders.
fn cuts() -> Vec<Cut> {
    let cut = |(band_tokens, block_n, num_runs, section_bytes)| {
        ORDERS.map(|order| Cut { band_tokens, block_n, num_runs, section_bytes, order })
    };
    let cuts =
        [(1, 1, 1, 0), (16, 64, 3, 32 << 20), (128, 3, 1, 700), (1, 2, 2, 1500), (3, 1, 5, 32)];
    cuts.map(cut).concat()
}

/// What a few values take in turn, whatever is taken of the others.
fn turn<T: Copy>(values: &[T], at: usize) -> T {
    values[at % values.len()]
}

impl Lists {
    pub(crate) fn new(artifacts: Arc<Artifacts>, memory: impl DeviceMemory + 'static) -> Self {
        Self { artifacts, memory: Box::new(memory) }
    }

    pub(crate) fn plan(&self, problem: &Problem, cut: Cut) -> Plan {
        let facts = Arc::new(Facts::read(&problem.graph().unwrap()).unwrap());
        let target = Arc::new(self.memory.device().target().clone());
        let engine = Arc::new(SetupEngine::listing(Arc::clone(&self.artifacts), cut));
        engine.ask(&facts, &target).unwrap().remove(0)
    }

    /// Executes a problem twice, with one executable, and looks at every byte of the workspace.
    pub(crate) fn check(&self, problem: &Problem, cut: Cut) -> Listed {
        let plan = self.plan(problem, cut);
        let executable = plan.build(self.memory.device()).unwrap();
        let check = || {
            let found = problem.execute(&executable, self.memory.as_ref()).unwrap();
            let listed = problem.check_work_list(&plan, &cut, SHARED_SEQUENCES.into(), &found);
            listed.unwrap_or_else(|fault| panic!("{fault}\n{cut:?}\n{problem:#?}"))
        };
        // On a simulated GPU no two launches run in one order.
        let (listed, again) = (check(), check());
        assert_eq!(listed, again);
        self.check_simulation();
        listed
    }

    /// Nothing that a GPU would not tell: races, reads of what nobody wrote, misuse of the driver.
    fn check_simulation(&self) {
        let Some(simulation) = Simulation::of(self.memory.device()) else { return };
        let findings: Vec<String> = simulation.findings().iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        assert_eq!(simulation.misuses(), []);
    }

    /// Every pair of forms, every harm on each side and another one on the other; bands and cuts in
    /// turn.
    pub(crate) fn whatever_the_tensors_hold(&self, batches: &[u64]) {
        let (bands, cuts) = (bands(), cuts());
        let mut at = 0;
        for (q, kv) in forms() {
            for (index, harm) in Harm::ALL.into_iter().enumerate() {
                let other = turn(&Harm::ALL, index + at);
                for &batch in batches {
                    at += 1;
                    let problem = Problem::hostile(batch, (q, harm), (kv, other), at as u64);
                    let num_heads = turn(&[1, 3, 4], at / 7);
                    let problem = Problem { band: turn(&bands, at), num_heads, ..problem };
                    self.check(&problem, turn(&cuts, at));
                }
            }
        }
    }

    /// Every band with every cut.
    pub(crate) fn every_band_and_cut(&self, batch: u64) {
        for (at, band) in bands().into_iter().enumerate() {
            for cut in cuts() {
                let q = (turn(&[Form::PackedPrefix, Form::Dense], at), Harm::None);
                let problem =
                    Problem::hostile(batch, q, (Form::PackedLengths, Harm::None), at as u64);
                let listed = self.check(&Problem { band, num_heads: 5, ..problem }, cut);
                assert!(listed.num_bands > 0 && !listed.is_clipped);
            }
        }
    }

    /// Sums carried over many rounds of the block; rows in shared memory, and in the workspace.
    pub(crate) fn any_number_of_sequences(&self, batches: &[u64]) {
        let (bands, cuts) = (bands(), cuts());
        let packed = [Form::PackedLengths, Form::PackedPrefix, Form::PackedStarts, Form::Padded];
        for &batch in batches {
            for (at, form) in packed.into_iter().enumerate() {
                for (q, kv) in
                    [(form, Form::Paged), (Form::PackedPrefix, form), (Form::Dense, form)]
                {
                    let harm = turn(&[Harm::None, Harm::Near, Harm::Zeros, Harm::Random], at);
                    let problem = Problem::hostile(batch, (q, harm), (kv, Harm::Near), batch);
                    self.check(&Problem { band: turn(&bands, at), ..problem }, turn(&cuts, at));
                }
            }
        }
    }

    /// Lengths from none to thousands: bands of many costs, and many bands of each.
    pub(crate) fn costs_of_every_size(&self) {
        let lengths = |times: i32| (0..40).map(|at| at * at * times % 3001).collect();
        let problem = |q: Vec<i32>, kv: Vec<i32>, band| Problem {
            batch: q.len() as u64,
            spare_batch: 0,
            num_heads: 2,
            band,
            q: packed(Content::PackedLengths(q), 1 << 17),
            kv: packed(Content::PackedLengths(kv), 1 << 17),
        };
        let listed = (3..).zip(bands()).map(|(times, band)| {
            let order = Order::DearestFirst;
            let cut =
                Cut { band_tokens: 16, block_n: 5, num_runs: 1, section_bytes: 200_000, order };
            let listed = self.check(&problem(lengths(1), lengths(times), band), cut);
            assert!(listed.num_bands > 1000, "{listed:?}");
            listed.num_classes
        });
        let most = listed.max().unwrap();
        assert!(most > 60, "{most} classes of cost");
        // One class: every band takes its place behind every other.
        let one = self.check(&problem(vec![500; 9], vec![64; 9], None), turn(&cuts(), 0));
        assert_eq!((one.num_bands, one.num_classes), (4500, 1));
    }

    /// Sections are cut for it, whichever round of the block meets it.
    pub(crate) fn the_longest_sequence(&self) {
        let order = Order::DearestFirst;
        let cut = Cut { band_tokens: 2, block_n: 3, num_runs: 2, section_bytes: 2600, order };
        for at in [0, 600, 1099] {
            let mut lengths = vec![1; 1100];
            lengths[at] = 20;
            let problem = Problem {
                batch: 1100,
                spare_batch: 0,
                num_heads: 8,
                band: None,
                q: packed(Content::PackedLengths(vec![1; 1100]), 3000),
                kv: packed(Content::PackedLengths(lengths), 3000),
            };
            // 640 bytes a head.
            assert_eq!(problem.work_list(&cut, 2000).heads_per_section, 2 * 4);
            self.check(&problem, cut);
        }
    }

    /// Units are cut where no length lies on the device too.
    pub(crate) fn dense_sides_in_natural_order(&self) {
        let cuts = cuts().into_iter().filter(|cut| cut.order == Order::Natural);
        for (at, (cut, batch)) in cuts.zip([0, 1, 33, 700, 1500]).enumerate() {
            for band in bands() {
                let dense = (Form::Dense, Harm::None);
                let problem = Problem::hostile(batch, dense, dense, at as u64);
                let plan = self.plan(&problem, cut);
                assert_eq!(plan.error_word(), None);
                let listed = self.check(&Problem { band, num_heads: 3, ..problem }, cut);
                assert_eq!((listed.num_bands > 0, listed.is_clipped), (batch > 0, false));
            }
        }
    }

    /// As many keys as an int32 counts, in tiles of one key and up.
    pub(crate) fn costs_up_to_the_end_of_an_int32(&self) {
        for form in [Form::PackedLengths, Form::PackedPrefix, Form::PackedStarts] {
            for (at, harm) in Harm::ALL.into_iter().enumerate() {
                for batch in [2, 33] {
                    let mut problem = Problem::gigarows(batch, (form, harm), 1);
                    problem.q.rows = [3; 3];
                    problem.band = turn(&bands(), at);
                    self.check(&problem, turn(&cuts(), at));
                }
            }
        }
    }

    /// Problems, bands and cuts drawn at random; what fails is made smaller.
    pub(crate) fn drawn_problems(&self, cases: u32) {
        let harm = || select(&Harm::ALL[..]);
        let sides = (select(forms().collect::<Vec<_>>()), harm(), harm());
        let cut = (1..40_u32, 1..9_u32, 1..4_u32, 0..4000_u64, select(&ORDERS[..])).prop_map(
            |(band_tokens, block_n, num_runs, section_bytes, order)| Cut {
                band_tokens,
                block_n,
                num_runs,
                section_bytes,
                order,
            },
        );
        let bound = || proptest::option::of(0..12_u32);
        let align = select(&[Align::TopLeft, Align::BottomRight][..]);
        let band = (align, bound(), bound())
            .prop_map(|(align, left, right)| Band { align, left, right })
            .prop_filter("unbounded bands are none", Band::is_bounded);
        let problem = (0..1300_u64, sides, any::<u64>(), proptest::option::of(band), 1..6_u64);
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let drawn = runner.run(&(problem, cut), |((batch, sides, seed, band, num_heads), cut)| {
            let ((q, kv), on_q, on_kv) = sides;
            let problem = Problem::hostile(batch, (q, on_q), (kv, on_kv), seed);
            self.check(&Problem { band, num_heads, ..problem }, cut);
            Ok(())
        });
        drawn.unwrap_or_else(|error| panic!("{error}"));
    }

    /// More bands than disjoint sequences have: rows of Q of one sequence after another are the same.
    pub(crate) fn more_bands_than_there_is_room_for(&self) {
        for batch in [30, 600, 1500] {
            let prefix = (0..=batch).map(|at| if at % 2 == 0 { 0 } else { 64 }).collect();
            let starts = (0..batch).map(|at| at % 3).collect();
            let lengths = vec![61; batch as usize];
            let contents =
                [Content::PackedPrefix(prefix), Content::PackedStarts { starts, lengths }];
            for (content, order) in contents.into_iter().zip(ORDERS) {
                let problem = Problem {
                    batch: batch as u64,
                    spare_batch: 0,
                    num_heads: 1,
                    band: Some(Band::causal(Align::BottomRight)),
                    q: packed(content, 64),
                    kv: packed(Content::PackedPrefix((0..=batch).collect()), 2000),
                };
                let cut = Cut { band_tokens: 4, block_n: 16, num_runs: 1, section_bytes: 0, order };
                assert!(self.check(&problem, cut).is_clipped);
                let wide = Cut { band_tokens: 64, ..cut };
                // One band each, and disjoint sequences would be no more than rows.
                assert_eq!(self.check(&problem, wide).is_clipped, batch > 64);
            }
        }
    }
}

fn packed(content: Content, rows: u32) -> SideProblem {
    SideProblem {
        content,
        bounds: LengthBounds::up_to(3000),
        max_total: rows,
        rows: [rows.into(); 3],
        spare_rows: 0,
        int_stride: 1,
        repeated: false,
    }
}
