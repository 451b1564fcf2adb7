//! Counts of transcripts, and of real test programs with seeded skips.

use std::process::Command;

use super::*;

/// Tests that another test runs in a process of its own; no tier runs them.
mod reexecuted {
    use frazil_conformance::skip;

    #[test]
    #[ignore = "run by skips_of_a_real_program_are_taken_out"]
    fn skips_one() {
        skip::because("no luck: seeded");
    }

    #[test]
    #[ignore = "run by skips_of_a_real_program_are_taken_out"]
    fn skips_two_twice() {
        skip::because("no luck: seeded");
        skip::because("no luck: seeded");
    }

    #[test]
    #[ignore = "run by skips_of_a_real_program_are_taken_out"]
    fn skips_with_lines() {
        skip::because("nothing\nin two lines");
    }

    #[test]
    #[ignore = "run by skips_of_a_real_program_are_taken_out"]
    fn skips_and_fails() {
        skip::because("no luck: seeded");
        panic!("seeded");
    }

    #[test]
    #[ignore = "run by skips_of_a_real_program_are_taken_out"]
    fn passes() {}

    #[test]
    #[ignore = "run by a_skip_off_the_thread_of_its_test_is_a_fault"]
    fn strays() {
        std::thread::spawn(|| skip::because("seeded")).join().unwrap();
    }
}

/// What this test program prints of those tests of `reexecuted` whose names begin so, and whether
/// they end well.
fn output_of(tests: &str, threads: &str) -> (String, bool) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("reexecuted::{tests}"), "--ignored", "--test-threads", threads])
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

fn counts_of(tests: &str, threads: &str) -> Counts {
    let (output, success) = output_of(tests, threads);
    let mut counts = Counts { success, ..Counts::default() };
    output.lines().for_each(|line| counts.read(line));
    counts
}

#[test]
fn skips_of_a_real_program_are_taken_out() {
    // With one thread libtest prints the name of a test before it runs, else after.
    for threads in ["1", "4"] {
        let counts = counts_of("skips", threads);
        assert_eq!((counts.passed, counts.failed, counts.success), (0, 1, false), "{threads}");
        let reasons = [("no luck: seeded".into(), 2), ("nothing | in two lines".into(), 1)];
        assert_eq!(counts.skipped, BTreeMap::from(reasons), "{threads}");
        assert_eq!(counts.strays, [""; 0]);
        let counts = counts_of("skips_one", threads);
        assert_eq!((counts.passed, counts.failed, counts.success), (0, 0, true), "{threads}");
        assert_eq!(counts.verdict(false), "SKIPPED: no luck: seeded");
        let counts = counts_of("passes", threads);
        assert_eq!((counts.passed, counts.num_skipped()), (1, 0), "{threads}");
        assert_eq!(counts.verdict(false), "passed");
    }
}

/// A test that keeps what its child prints would otherwise pass.
#[test]
fn a_skip_in_a_child_is_found_by_its_parent() {
    for threads in ["1", "4"] {
        let (output, _) = output_of("skips_one", threads);
        assert_eq!(frazil_conformance::skip::reason_in(&output), Some("no luck: seeded"));
        let (output, _) = output_of("passes", threads);
        assert_eq!(frazil_conformance::skip::reason_in(&output), None, "{output}");
    }
}

#[test]
fn a_skip_off_the_thread_of_its_test_is_a_fault() {
    let counts = counts_of("strays", "4");
    assert!(counts.success && !counts.is_clean());
    assert!(counts.verdict(false).starts_with("FAILED: a skip outside a test's own thread"));
}

#[test]
fn a_skip_begins_with_what_is_looked_for() {
    assert_eq!(SKIP_MARK, frazil_conformance::skip::MARK);
}

#[test]
fn closing_lines_are_added_up() {
    let mut counts = Counts::default();
    counts.read("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
    counts.read("test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s");
    counts.read("test engine ... ok");
    assert_eq!((counts.passed, counts.failed, counts.ignored), (15, 2, 1));
}

#[test]
fn tests_that_others_run_are_not_counted() {
    let mut counts = Counts::default();
    counts.read("running 2 tests");
    counts.read("test a::reexecuted::b ... ignored, run by c");
    counts.read("test a::b ... ignored");
    counts.read("test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out");
    assert_eq!(counts.ignored, 1);
}

#[test]
fn nothing_run_is_never_passed() {
    let counts = Counts { success: true, ignored: 2, ..Counts::default() };
    assert!(counts.is_skipped());
    assert!(counts.verdict(false).starts_with("SKIPPED"));
}

#[test]
fn skips_beside_passed_tests_are_named() {
    let mut counts = Counts { success: true, ..Counts::default() };
    for line in [
        "running 3 tests",
        "test a::one ... ok",
        "SKIPPED test a::two: no GPU: cuInit answers 100",
        "test a::two ... ok",
        "test a::three ... ok",
        "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        // A second program may have tests of the same names.
        "running 1 test",
        "test a::two ... ok",
        "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
    ] {
        counts.read(line);
    }
    assert_eq!((counts.passed, counts.num_skipped()), (3, 1));
    assert_eq!(counts.verdict(false), "passed; 1 SKIPPED");
}

#[test]
fn a_program_that_ends_early_leaves_nothing_to_the_next() {
    let mut counts = Counts::default();
    counts.read("running 1 test");
    counts.read("test a ... SKIPPED test a: no GPU");
    counts.read("running 1 test");
    counts.read("test a ... ok");
    counts.read("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
    assert_eq!((counts.passed, counts.num_skipped()), (1, 0));
}
