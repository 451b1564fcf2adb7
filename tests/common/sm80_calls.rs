//! Calls of attention forward for the detectors: in every storage form, through every kind of plan that
//! the engine for GPUs from 8.0 up has. The two calls of a row differ in what is on the device alone:
//! lengths, pages and what the tensors hold.
// Each test binary uses its part of this.
#![allow(dead_code)]

use frazil::{Launches, Plan};
use frazil_conformance::case::CaseFile;
use frazil_conformance::detectors::CaseCalls;
use frazil_cuda::{combine, work_list};

/// Two calls of one graph, and what each of its plans launches, best plan first.
pub(crate) struct Calls {
    pub(crate) name: &'static str,
    /// What both cases say, as TOML.
    graph: &'static str,
    /// What one says alone.
    calls: [&'static str; 2],
    pub(crate) plans: &'static [&'static [&'static str]],
}

const FORWARD: &str = "frazil_sdpa_fwd_sm80";
const ALONE: &[&str] = &[FORWARD];
const LISTED: &[&str] = &[work_list::KERNEL, FORWARD];
const CUT_WITHOUT_LIST: &[&str] = &[FORWARD, combine::KERNEL];
const CUT: &[&str] = &[work_list::KERNEL, FORWARD, combine::KERNEL];

/// In all graphs: two heads of Q to one of K and V.
const COMMON: &str = r#"
    dtype = "f16"
    num_q_heads = 4
    num_kv_heads = 2
    head_dim_qk = 16
"#;

/// The row, and the plan of it, that violations are tried on: lengths of Q, and scratch in the workspace.
pub(crate) const WITH_VIOLATIONS: (&str, usize) = ("packed_lengths", 1);

/// A page of the pool serves one sequence in the first call and another in the second, since tables are
/// drawn by the seed. What is hostile is told in the error word.
pub(crate) static CALLS: [Calls; 16] = [
    Calls {
        name: "dense",
        graph: r#"
            batch = 2
            seqlen_q = 30
            seqlen_kv = 70
            band = { align = "bottom_right", right = 0 }
            lse = "natural"
        "#,
        calls: ["seed = 1", "seed = 2"],
        plans: &[ALONE],
    },
    Calls {
        name: "dense_overridden",
        graph: r#"
            batch = 2
            seqlen_q = 20
            seqlen_kv = 50
            declared = { batch = 3, seqlen_q = 32, seqlen_kv = 90 }
        "#,
        calls: ["seed = 1", "seed = 2"],
        plans: &[ALONE],
    },
    Calls {
        name: WITH_VIOLATIONS.0,
        graph: r#"
            batch = 4
            seqlen_q = 20
            seqlen_kv = 80
            band = { align = "bottom_right", right = 0 }
            lse = "base2"
        "#,
        calls: [
            r#"
            q = { form = "packed_lengths", lengths = [3, 0, 7, 20], capacity = 50 }
            kv = { form = "packed_lengths", lengths = [9, 0, 20, 80], capacity = 200 }
            "#,
            r#"
            seed = 2
            q = { form = "packed_lengths", lengths = [5, 1, 20, 24], capacity = 50 }
            kv = { form = "packed_lengths", lengths = [75, 70, 11, -3], capacity = 200 }
            error_word = ["q_length", "kv_length"]
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
    Calls {
        name: "packed_prefix",
        graph: r#"
            batch = 3
            seqlen_q = 20
            seqlen_kv = 80
        "#,
        calls: [
            r#"
            q = { form = "packed_prefix", lengths = [3, 0, 20], base = 1000, capacity = 50 }
            kv = { form = "packed_prefix", lengths = [70, 2, 20], base = 7, capacity = 100 }
            "#,
            r#"
            seed = 2
            q = { form = "packed_prefix", lengths = [20, 19, 1], base = -7, capacity = 50 }
            kv = { form = "packed_prefix", lengths = [0, 20, 80], capacity = 100 }
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
    Calls {
        name: "packed_with_gaps",
        graph: r#"
            batch = 3
            seqlen_q = 20
            seqlen_kv = 80
            lse = "natural"
            row_outputs = { head_major = { pitch = 64 } }
        "#,
        calls: [
            r#"
            q = { form = "packed_starts", starts = [30, 1, 8], lengths = [20, 5, 9], capacity = 60 }
            kv = { form = "packed_starts", starts = [9, 100, 0], lengths = [70, 30, 7], capacity = 140 }
            "#,
            r#"
            seed = 2
            q = { form = "packed_starts", starts = [0, 20, 50], lengths = [17, 20, 20], capacity = 60 }
            kv = { form = "packed_starts", starts = [0, 81, 139], lengths = [80, 3, 0], capacity = 140 }
            error_word = ["q_rows"]
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
    Calls {
        name: "padded",
        graph: r#"
            batch = 3
            seqlen_q = 20
            seqlen_kv = 80
            lse = "natural"
            max = true
            sum_exp = true
        "#,
        calls: [
            r#"
            q = { form = "padded", lengths = [20, 0, 3] }
            kv = { form = "padded", lengths = [80, 9, 0] }
            "#,
            r#"
            seed = 2
            q = { form = "padded", lengths = [1, 20, 21] }
            kv = { form = "padded", lengths = [0, 65, 33] }
            error_word = ["q_length"]
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
    Calls {
        name: "padded_overridden",
        graph: r#"
            batch = 2
            seqlen_q = 16
            seqlen_kv = 70
            declared = { batch = 3, seqlen_q = 20, seqlen_kv = 90 }
        "#,
        calls: [
            r#"
            q = { form = "padded", lengths = [16, 3] }
            kv = { form = "padded", lengths = [33, 70] }
            "#,
            r#"
            seed = 2
            q = { form = "padded", lengths = [2, 16] }
            kv = { form = "padded", lengths = [70, 0] }
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
    Calls {
        name: "paged",
        graph: r#"
            batch = 3
            seqlen_q = 20
            seqlen_kv = 80
            band = { align = "bottom_right", right = 0 }
        "#,
        calls: [
            r#"
            q = { form = "packed_lengths", lengths = [4, 20, 1], capacity = 45 }
            kv = { form = "paged", lengths = [4, 80, 33], page_size = 16, num_pages = 17 }
            "#,
            r#"
            seed = 2
            q = { form = "packed_lengths", lengths = [20, 2, 19], capacity = 45 }
            kv = { form = "paged", lengths = [70, 2, 47], page_size = 16, num_pages = 17 }
            "#,
        ],
        plans: &[LISTED],
    },
    Calls {
        name: "paged_outside_of_the_pool",
        graph: r#"
            batch = 2
            seqlen_q = 20
            seqlen_kv = 80
        "#,
        calls: [
            r#"
            kv = { form = "paged", lengths = [4, 80], page_size = 16, num_pages = 17, pages = "outside_first" }
            error_word = ["page_k", "page_v"]
            "#,
            r#"
            seed = 2
            kv = { form = "paged", lengths = [70, 2], page_size = 16, num_pages = 17 }
            "#,
        ],
        plans: &[LISTED],
    },
    Calls {
        name: "cut_dense",
        graph: r#"
            batch = 2
            seqlen_q = 1
            seqlen_kv = 1100
            lse = "natural"
        "#,
        calls: ["seed = 1", "seed = 2"],
        plans: &[CUT_WITHOUT_LIST],
    },
    Calls {
        name: "cut_dense_overridden",
        graph: r#"
            batch = 2
            seqlen_q = 1
            seqlen_kv = 1100
            declared = { batch = 3, seqlen_q = 1, seqlen_kv = 1300 }
        "#,
        calls: ["seed = 1", "seed = 2"],
        plans: &[CUT_WITHOUT_LIST],
    },
    Calls {
        name: "cut",
        graph: r#"
            batch = 3
            seqlen_q = 1
            seqlen_kv = 1100
            lse = "natural"
        "#,
        calls: [
            r#"kv = { form = "padded", lengths = [1100, 0, 37] }"#,
            r#"
            seed = 2
            kv = { form = "padded", lengths = [5, 2000, 1024] }
            error_word = ["kv_length"]
            "#,
        ],
        plans: &[CUT],
    },
    Calls {
        name: "cut_pages",
        graph: r#"
            batch = 2
            seqlen_q = 3
            seqlen_kv = 1100
            band = { align = "bottom_right", right = 0 }
        "#,
        calls: [
            r#"
            q = { form = "packed_lengths", lengths = [2, 3], capacity = 6 }
            kv = { form = "paged", lengths = [1100, 130], page_size = 64, num_pages = 40 }
            "#,
            r#"
            seed = 2
            q = { form = "packed_lengths", lengths = [3, 1], capacity = 6 }
            kv = { form = "paged", lengths = [3, 1000], page_size = 64, num_pages = 40 }
            "#,
        ],
        plans: &[CUT],
    },
    Calls {
        name: "modified",
        graph: r#"
            batch = 2
            seqlen_q = 20
            seqlen_kv = 70
            o_dtype = "f32"
            soft_cap = 3.0
            bias = { dtype = "f32", per_batch = true, per_head = true }
            alibi = "per_head"
            sink = "as_inputs"
            lse = "natural"
            band = { align = "top_left", left = 30, right = 5 }
        "#,
        calls: [
            r#"
            q = { form = "packed_lengths", lengths = [4, 20], capacity = 45 }
            kv = { form = "padded", lengths = [4, 70] }
            "#,
            r#"
            seed = 2
            q = { form = "packed_lengths", lengths = [20, 2], capacity = 45 }
            kv = { form = "padded", lengths = [65, 0] }
            "#,
        ],
        plans: &[LISTED],
    },
    Calls {
        name: "nothing_is_live",
        graph: r#"
            batch = 2
            seqlen_q = 20
            seqlen_kv = 80
            lse = "natural"
        "#,
        calls: [
            r#"
            q = { form = "packed_lengths", lengths = [0, 0], capacity = 30 }
            kv = { form = "packed_lengths", lengths = [0, 0], capacity = 0 }
            "#,
            r#"
            q = { form = "packed_lengths", lengths = [20, 2], capacity = 30 }
            kv = { form = "packed_lengths", lengths = [0, 0], capacity = 0 }
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
    Calls {
        name: "no_sequence",
        graph: r#"
            batch = 0
            seqlen_q = 20
            seqlen_kv = 80
            lse = "natural"
        "#,
        calls: [
            r#"
            q = { form = "packed_prefix", lengths = [], base = 5, capacity = 30 }
            kv = { form = "padded", lengths = [] }
            "#,
            r#"
            seed = 2
            q = { form = "packed_prefix", lengths = [], base = -5, capacity = 30 }
            kv = { form = "padded", lengths = [] }
            "#,
        ],
        plans: &[ALONE, LISTED],
    },
];

/// A row by its name.
pub(crate) fn calls(name: &str) -> &'static Calls {
    CALLS.iter().find(|calls| calls.name == name).unwrap()
}

impl Calls {
    pub(crate) fn cases(&self) -> CaseCalls {
        let text = self.calls.iter().zip(1..).map(|(call, at)| {
            format!("[[case]]\nname = \"{}_{at}\"\n{COMMON}\n{}\n{call}\n", self.name, self.graph)
        });
        let file = CaseFile::parse(&text.collect::<String>()).unwrap();
        CaseCalls::new(file.cases.try_into().unwrap()).unwrap_or_else(|why| panic!("{why}"))
    }
}

/// What a plan launches.
pub(crate) fn launches(plan: &Plan) -> Vec<&str> {
    let Launches::Own(kernels) = plan.launches() else { unreachable!("kernels of our own") };
    kernels.iter().map(AsRef::as_ref).collect()
}
