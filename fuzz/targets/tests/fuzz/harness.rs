//! Running a body so that a broken promise is a result.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Once;

use frazil_conformance::cargo_path;
use frazil_fuzz_targets::Reached;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// A body of a target.
pub(crate) type Body = fn(&[u8]) -> Reached;

/// The folder `fuzz`.
pub(crate) fn folder() -> PathBuf {
    cargo_path!("CARGO_MANIFEST_DIR").join("..")
}

/// Names and contents of the seeds of a target, in order.
pub(crate) fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder().join("corpus-seeds").join(target)).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read(path).unwrap())
    };
    let mut seeds: Vec<_> = entries.map(|entry| read(entry.unwrap().path())).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

thread_local! {
    /// Whether panics of this thread are caught, so that nobody need print them.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// How far an input came, or the promise that broke.
pub(crate) fn check(body: Body, input: &[u8]) -> Result<Reached, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CATCHES.get() {
                print(panic);
            }
        }));
    });
    CATCHES.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| body(input)));
    CATCHES.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// How far each of `count` inputs came, or the smallest one for which a promise broke, as Rust writes
/// it: save the bytes as a seed. Always the same inputs.
pub(crate) fn hunt(
    body: Body,
    inputs: impl Strategy<Value = Vec<u8>>,
    count: u32,
) -> Result<Vec<Reached>, String> {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let reached = RefCell::new(Vec::new());
    let result = TestRunner::new_with_rng(config, rng).run(&inputs, |input| {
        match check(body, &input) {
            Ok(far) => reached.borrow_mut().push(far),
            Err(why) => return Err(TestCaseError::fail(why)),
        }
        Ok(())
    });
    match result {
        Ok(()) => Ok(reached.into_inner()),
        Err(TestError::Fail(why, input)) => Err(format!("{why}\n    b{}", input.escape_ascii())),
        Err(TestError::Abort(why)) => Err(format!("nothing was drawn: {why}")),
    }
}
