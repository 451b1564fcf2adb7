//! Bodies of the fuzz targets: what must hold for any input whatever.
//!
//! Each is a plain function from bytes that panics where a promise is broken. The programs of
//! `fuzz/fuzz_targets` hand them what libFuzzer makes; the tests of this package hand them the seeds
//! and inputs drawn by proptest, on stable Rust, so that they are held to in every run of the suite.
//! See `fuzz/README.md`.

#![forbid(unsafe_code)]

mod ask;
mod builder;
mod cache_entry;
mod cases;
mod draft;
mod draw;
mod execute;
mod order;
mod peer;
mod read_back;
mod reader;
mod recipe;
mod source;
mod spoil;

// The reader of files is part of a program, so its source is taken in as it stands, with what it uses
// of the program.
#[path = "../../../crates/cli/src/failure.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod failure;
#[path = "../../../crates/cli/src/files.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod files;
#[path = "../../../crates/cli/src/input/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the program uses the rest")]
mod input;

/// How far an input came. A set of inputs that never comes far shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// It was refused, in words that name what is wrong.
    Refused,
    /// It was read.
    Read,
    /// It became a graph.
    Declared,
    /// Some engine serves it.
    Served,
    /// It was executed.
    Executed,
}

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its program less `fuzz_target_`, and of the folder of its seeds.
    pub name: &'static str,
    /// The body: panics where a promise is broken.
    pub run: fn(&[u8]) -> Reached,
    /// As far as an input can come.
    pub furthest: Reached,
}

/// Every target.
pub const TARGETS: [Target; 7] = [
    Target { name: "builder", run: builder::builder, furthest: Reached::Served },
    Target { name: "case_toml", run: cases::case_toml, furthest: Reached::Executed },
    Target { name: "case_json", run: cases::case_json, furthest: Reached::Executed },
    Target { name: "peer_jsonl", run: peer::peer_jsonl, furthest: Reached::Executed },
    Target { name: "safetensors", run: reader::safetensors, furthest: Reached::Read },
    Target { name: "cache_entry", run: cache_entry::cache_entry, furthest: Reached::Read },
    Target { name: "execute", run: execute::execute, furthest: Reached::Executed },
];

/// Runs the body of that name.
///
/// # Panics
///
/// Where the input breaks a promise, where there is no such target, and in a build without overflow
/// checks, in which a run would show less than it seems to.
pub fn run(name: &str, input: &[u8]) -> Reached {
    assert!(overflow_is_checked(), "build with overflow checks: -C debug-assertions");
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target `{name}`")).run)(input)
}

/// Whether arithmetic past the end of a type panics in this build.
fn overflow_is_checked() -> bool {
    use std::sync::LazyLock;
    static CHECKED: LazyLock<bool> = LazyLock::new(|| cfg!(debug_assertions));
    *CHECKED
}
