//! What attention forward is launched with, for calls as core checks them; no GPU is needed for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::{Arc, Mutex};

use frazil_conformance::case::CaseFile;
use frazil_conformance::memory::HostMemory;
use frazil_conformance::run::{Entry, check_entry};
use frazil_core::{
    BuildError, Call, Candidate, Compiled, Config, Device, DeviceHandle, DeviceId, Engine,
    EngineId, Error, ErrorWord, Facts, Feature, FeatureSet, Launch, Launches, Layout, Maturity,
    MemoryAt, OverrideRules, Plan, RegisteredEngine, Role, SdpaFwdFacts, Support, Target,
    Unsupported,
};
use frazil_cuda::sdpa_fwd::Packing;
use frazil_cuda::sdpa_fwd::{
    Band, HeadValues, Operands, OutputType, PageTable, RowOutput, RowTensor, SdpaFwdParams,
    SetupRegions, SideRegions, SideRows,
};
use frazil_cuda::seqlens::{Seqlens, SeqlensSide};
use frazil_router::Router;

#[derive(Debug)]
struct Host(Target);

impl DeviceHandle for Host {
    fn target(&self) -> &Target {
        &self.0
    }

    fn id(&self) -> DeviceId {
        DeviceId::Host
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn memory_at(&self, _: u64) -> Result<MemoryAt, Error> {
        Ok(MemoryAt::Unknown)
    }
}

/// A call as a launch sees it: parameters, and addresses of the tensors and of regions by name.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    params: SdpaFwdParams,
    addresses: Vec<(Role, u64)>,
    regions: Vec<(&'static str, u64)>,
}

impl Seen {
    fn of(&self, role: Role) -> u64 {
        self.addresses.iter().find(|(known, _)| *known == role).unwrap().1
    }

    fn region(&self, name: &str) -> u64 {
        self.regions.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

/// Keeps what it is launched with.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Option<Seen>>>);

/// Rows of a tile.
const BLOCK_M: u32 = 64;

fn attention(facts: &Facts) -> &SdpaFwdFacts {
    let Facts::SdpaFwd(facts) = facts else { panic!("{facts:?}") };
    facts
}

fn regions(setup: &Seqlens) -> SetupRegions {
    let side = |side: &SeqlensSide| SideRegions { lengths: side.lengths(), starts: side.starts() };
    SetupRegions {
        error_word: setup.error_word(),
        q: setup.q().map(side),
        kv: setup.kv().map(side),
    }
}

impl Engine for Recorder {
    fn check_support(&self, facts: &Facts, _: &Target) -> Result<Support, Unsupported> {
        let mut workspace = Layout::new();
        let setup = Seqlens::of(attention(facts), &[], &mut workspace);
        Ok(Support::one(Candidate {
            config: Config::default(),
            workspace,
            launches: Launches::Own(Vec::new()),
            error_word: setup.map(|setup| setup.error_word().offset()),
            overrides: Some(OverrideRules::default()),
        }))
    }

    fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
        Ok(Vec::new())
    }

    fn build(&self, plan: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
        let facts = attention(plan.facts());
        let setup = Seqlens::of(facts, &[], &mut Layout::new());
        let packing = Packing::of(facts, BLOCK_M);
        let operands = Operands::of(facts, packing, setup.as_ref().map(regions));
        Ok(Box::new(Record { recorder: self.clone(), operands, plan: plan.clone() }))
    }
}

struct Record {
    recorder: Recorder,
    operands: Operands,
    plan: Plan,
}

const ROLES: [Role; 12] = [
    Role::Q,
    Role::K,
    Role::V,
    Role::O,
    Role::Lse,
    Role::Max,
    Role::SumExp,
    Role::Sink,
    Role::Bias,
    Role::AlibiSlopes,
    Role::TableK,
    Role::TableV,
];

impl Launch for Record {
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        let addresses = ROLES.into_iter().filter_map(|role| Some((role, call.view(role)?.addr)));
        let regions = self.plan.workspace().regions();
        *self.recorder.0.lock().unwrap() = Some(Seen {
            params: self.operands.params(call),
            addresses: addresses.collect(),
            regions: regions.map(|(name, region)| (name, call.region(region))).collect(),
        });
        Ok(())
    }
}

/// What a case is launched with: a case of two sequences of 5 queries and 7 keys, of 4 heads on 2,
/// of 16 columns, with more lines, or others.
fn seen(lines: &str) -> Seen {
    const CASE: [(&str, &str); 8] = [
        ("name", "\"a\""),
        ("dtype", "\"bf16\""),
        ("batch", "2"),
        ("num_q_heads", "4"),
        ("num_kv_heads", "2"),
        ("head_dim_qk", "16"),
        ("seqlen_q", "5"),
        ("seqlen_kv", "7"),
    ];
    let is_given = |key: &str| lines.lines().any(|line| line.split(" =").next() == Some(key));
    let rest = CASE.iter().filter(|(key, _)| !is_given(key));
    let rest: String = rest.map(|(key, value)| format!("{key} = {value}\n")).collect();
    let text = format!("[[case]]\n{rest}{lines}\n");
    let case = CaseFile::parse(&text).unwrap().cases.remove(0);
    let recorder = Recorder::default();
    let (id, engine) = (EngineId::new("test/recorder"), Arc::new(recorder.clone()));
    let features = FeatureSet::of(Feature::ALL);
    let engine = RegisteredEngine::new(id, features, Maturity::Simulated, "tests", engine);
    let router = Router::over([engine]).unwrap();
    let memory = HostMemory::new(Device::new(Host(Target::host())));
    let verdicts = check_entry(&Entry { expect: None, ..Entry::from(case) }, &router, &memory);
    // Nothing was computed, and that is wrong.
    let seen = recorder.0.lock().unwrap().take();
    seen.unwrap_or_else(|| panic!("{lines}: not launched: {:?}", verdicts[0].reason))
}

fn tensor(data: u64, batch_stride: i64, row_stride: i64, head_stride: i64) -> RowTensor {
    RowTensor { data, batch_stride, row_stride, head_stride }
}

#[test]
fn dense_tensors_have_the_strides_that_they_were_declared_with() {
    let seen = seen(
        "head_dim_v = 8\no_dtype = \"f32\"\nlse = \"base2\"\nsoftmax_scale = 0.5\n\
         place.q = { strides = [16, 32, 160, 1] }\nplace.v = { strides = [112, 8, 16, 1] }",
    );
    let Seen { params, .. } = &seen;
    assert_eq!(params.q, tensor(seen.of(Role::Q), 16, 160, 32));
    assert_eq!(params.k, tensor(seen.of(Role::K), 2 * 7 * 16, 16, 7 * 16));
    assert_eq!(params.v, tensor(seen.of(Role::V), 112, 16, 8));
    assert_eq!(params.o, tensor(seen.of(Role::O), 4 * 5 * 8, 8, 5 * 8));
    let lse = RowOutput {
        data: seen.of(Role::Lse),
        batch_stride: 20,
        start_stride: 0,
        row_stride: 1,
        head_stride: 5,
        num_rows: 5,
    };
    assert_eq!(
        (params.lse, params.max, params.sum_exp),
        (lse, RowOutput::default(), RowOutput::default())
    );
    assert_eq!((params.lse_is_base2, params.o_type), (1, OutputType::F32));
    assert_eq!((params.batch, params.head_dim_qk, params.head_dim_v), (2, 16, 8));
    assert_eq!(params.q_rows, SideRows { lengths: 0, starts: 0, num_rows: 5 });
    assert_eq!(params.kv_rows, SideRows { lengths: 0, starts: 0, num_rows: 7 });
    assert_eq!((params.error_word, params.fills_o), (0, 0), "no device tensor steers the work");
    assert_eq!(
        (params.score.scale, params.score.scale_log2),
        (0.5, 0.5 * std::f32::consts::LOG2_E)
    );
    assert_eq!((params.score.soft_cap, params.score.inv_soft_cap), (0.0, 0.0));
    let open = Band { left: 1 << 31, right: 1 << 31, is_bottom_right: 0, is_bounded: 0 };
    assert_eq!(params.score.band, open);
    assert_eq!((params.table_k, params.table_v), (PageTable::default(), PageTable::default()));
    assert_eq!((params.sink, params.score.alibi), (HeadValues::default(), HeadValues::default()));
    assert_eq!((params.score.bias.data, params.page_size.get()), (0, 0));
}

/// Producers put anything there.
#[test]
fn strides_of_extents_of_one_are_zero() {
    let params = seen(
        "seqlen_q = 1\nlse = \"natural\"\nplace.q = { strides = [64, 16, 99_990_001, 1] }\n\
         place.lse = { strides = [4, 1, 77] }",
    );
    let params = params.params;
    assert_eq!((params.q.batch_stride, params.q.row_stride, params.q.head_stride), (64, 0, 16));
    assert_eq!((params.lse.batch_stride, params.lse.row_stride), (4, 0));
}

#[test]
fn heads_of_few_queries_are_rows_of_one_tile() {
    let heads = seen("").params.heads;
    assert_eq!((heads.num_q_heads, heads.num_kv_heads, heads.group), (4, 2, 2));
    assert_eq!((heads.pack.get(), heads.num_runs, heads.runs.get()), (2, 1, 1));
    let long = seen("seqlen_q = 33").params.heads;
    assert_eq!((long.pack.get(), long.num_runs, long.runs.get()), (1, 2, 2));
    let fits = seen("seqlen_q = 32").params.heads;
    assert_eq!((fits.pack.get(), fits.num_runs), (2, 1));
    // Nobody knows how long they are.
    let lengths = "seqlen_q = 300\nq = { form = \"padded\", lengths = [5, 300] }";
    assert_eq!(seen(lengths).params.heads.pack.get(), 2);
    // More heads than a tile has rows.
    let many = seen("seqlen_q = 1\nnum_q_heads = 150\nnum_kv_heads = 1").params.heads;
    assert_eq!((many.group, many.pack.get(), many.num_runs, many.runs.get()), (150, 64, 3, 3));
}

#[test]
fn packed_tensors_are_found_by_starts_and_lengths_of_the_setup() {
    let seen = seen(
        "q = { form = \"packed_prefix\", lengths = [5, 3] }\nlse = \"natural\"\n\
         kv = { form = \"packed_lengths\", lengths = [2, 7], capacity = 12 }",
    );
    let Seen { params, .. } = &seen;
    assert_eq!(params.q, tensor(seen.of(Role::Q), 0, 64, 16));
    assert_eq!(params.v, tensor(seen.of(Role::V), 0, 32, 16));
    let rows = |side: &str| SideRows {
        lengths: seen.region(&format!("{side}_lengths")),
        starts: seen.region(&format!("{side}_starts")),
        num_rows: 0,
    };
    assert_eq!((params.q_rows, params.kv_rows), (rows("q"), rows("kv")));
    assert_eq!((params.error_word, params.fills_o), (seen.region("error_word"), 0));
    assert_eq!(params.batch, 2);
    // [T, H], token-major.
    let lse = RowOutput {
        data: seen.of(Role::Lse),
        batch_stride: 0,
        start_stride: 4,
        row_stride: 4,
        head_stride: 1,
        num_rows: 0,
    };
    assert_eq!(params.lse, lse);
}

#[test]
fn row_outputs_of_packed_queries_may_be_stored_by_sequence() {
    let lines = "q = { form = \"packed_lengths\", lengths = [5, 3] }\nmax = true\nsum_exp = true\n";
    let by_sequence = seen(&format!("{lines}row_outputs = \"padded\""));
    let max = RowOutput {
        data: by_sequence.of(Role::Max),
        batch_stride: 20,
        start_stride: 0,
        row_stride: 1,
        head_stride: 5,
        num_rows: 5,
    };
    assert_eq!(by_sequence.params.max, max);
    assert_eq!(by_sequence.params.sum_exp, RowOutput { data: by_sequence.of(Role::SumExp), ..max });
    let head_major = seen(&format!("{lines}row_outputs = {{ head_major = {{ pitch = 11 }} }}"));
    let max = RowOutput {
        data: head_major.of(Role::Max),
        batch_stride: 0,
        start_stride: 1,
        row_stride: 1,
        head_stride: 11,
        num_rows: 0,
    };
    assert_eq!(head_major.params.max, max);
}

#[test]
fn padded_rows_are_filled_and_counted_by_extents() {
    let seen = seen("q = { form = \"padded\", lengths = [5, 3] }");
    let lengths = seen.region("q_lengths");
    assert_eq!(seen.params.q_rows, SideRows { lengths, starts: 0, num_rows: 5 });
    assert_eq!(seen.params.kv_rows, SideRows { lengths: 0, starts: 0, num_rows: 7 });
    assert_eq!((seen.params.fills_o, seen.params.q.batch_stride), (1, 4 * 5 * 16));
}

#[test]
fn pages_are_found_by_tables() {
    let paged = "kv = { form = \"paged\", lengths = [7, 2], page_size = 3, num_pages = 8, \
                 table = \"column_major\", pool = \"nhd\" }";
    let seen = seen(paged);
    let Seen { params, .. } = &seen;
    // [N, H, page_size, D], rows of a page outside the heads.
    assert_eq!(params.k, tensor(seen.of(Role::K), 3 * 2 * 16, 2 * 16, 16));
    let table = |role, bit: ErrorWord| PageTable {
        pages: seen.of(role),
        batch_stride: 1,
        column_stride: 2,
        num_pages: 8,
        error_bit: bit.0,
        unused: 0,
    };
    assert_eq!(params.table_k, table(Role::TableK, ErrorWord::PAGE_K));
    assert_eq!(params.table_v, table(Role::TableV, ErrorWord::PAGE_V));
    assert_ne!(params.table_k.pages, params.table_v.pages);
    assert_eq!(params.page_size.get(), 3);
    let lengths = seen.region("kv_lengths");
    assert_eq!(params.kv_rows, SideRows { lengths, starts: 0, num_rows: 0 });
    assert_eq!((params.batch, params.q_rows.num_rows), (2, 5));
}

#[test]
fn every_modifier_reaches_the_kernel() {
    let seen = seen(
        "band = { align = \"bottom_right\", left = 3, right = 4_294_967_295 }\nsoft_cap = 4.0\n\
         bias = { dtype = \"f32\", per_head = true }\nalibi = \"per_batch_and_head\"\n\
         sink = \"as_inputs\"",
    );
    let score = &seen.params.score;
    let band = Band { left: 3, right: 1 << 31, is_bottom_right: 1, is_bounded: 1 };
    assert_eq!((score.band, score.alibi_is_bottom_right), (band, 1));
    assert_eq!((score.soft_cap, score.inv_soft_cap), (4.0, 0.25));
    let bias = (score.bias.data, score.bias.is_f32);
    assert_eq!(bias, (seen.of(Role::Bias), 1));
    let bias = &score.bias;
    let strides = [bias.batch_stride, bias.head_stride, bias.row_stride, bias.column_stride];
    assert_eq!(strides, [0, 35, 7, 1], "an extent of 1 is a stride of 0");
    let slopes = HeadValues { data: seen.of(Role::AlibiSlopes), batch_stride: 4, head_stride: 1 };
    assert_eq!(score.alibi, slopes);
    let sink = HeadValues { data: seen.of(Role::Sink), batch_stride: 0, head_stride: 1 };
    assert_eq!(seen.params.sink, sink);
}

/// Who asks for the greatest score, or for sums relative to it, or has a sink gets that of all scores.
#[test]
fn a_maximum_that_is_an_output_stays_behind_no_score() {
    for (outputs, lag_log2) in [
        ("", 8.0),
        ("lse = \"natural\"", 8.0),
        ("max = true", 0.0),
        ("sum_exp = true", 0.0),
        ("sink = \"as_inputs\"", 0.0),
    ] {
        assert_eq!(seen(outputs).params.score.lag_log2, lag_log2, "{outputs}");
    }
}

/// A band without bounds lends its corner to ALiBi and hides nothing; the least soft cap has an
/// inverse.
#[test]
fn numbers_at_the_edge() {
    let params =
        seen("band = { align = \"bottom_right\" }\nalibi = \"per_head\"\nsoft_cap = 1e-40");
    let score = params.params.score;
    assert_eq!((score.band.is_bounded, score.alibi_is_bottom_right), (0, 1));
    assert_eq!(score.alibi.batch_stride, 0);
    assert_eq!(score.inv_soft_cap, f32::MAX);
    let top_left = seen("alibi = \"per_head\"").params.score;
    assert_eq!((top_left.alibi_is_bottom_right, top_left.bias.is_f32), (0, 0));
}

#[test]
fn overrides_are_what_counts() {
    let params = seen(
        "declared = { batch = 3, seqlen_q = 9, seqlen_kv = 11 }\n\
         place.k = { strides = [448, 224, 32, 1] }",
    );
    let params = params.params;
    assert_eq!((params.batch, params.q_rows.num_rows, params.kv_rows.num_rows), (2, 5, 7));
    assert_eq!((params.k.batch_stride, params.k.row_stride, params.k.head_stride), (448, 32, 224));
    // As declared, contiguous, or as given at execute: in both the rows of a head lie together.
    assert_eq!((params.q.row_stride, params.q.head_stride), (16, 5 * 16));
}
