//! Whatever goes wrong prints one line, and the line, given to a shell, goes wrong in the same way.

#![expect(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "every test program uses a part")]
mod common;

use common::{Fault, host, router};
use frazil_conformance::case::{Case, CaseFile};
use frazil_conformance::repro::Repro;
use frazil_conformance::run::{Entry, Status, Verdict, check_entry};
use frazil_conformance::suite::run_suite;

fn case(name: &str) -> Case {
    let file = CaseFile::parse(include_str!("cases.toml")).unwrap();
    file.cases.into_iter().find(|case| case.name == name).unwrap()
}

fn verdict(entry: impl Into<Entry>, fault: Fault) -> Verdict {
    check_entry(&entry.into(), &router(fault), &host()).remove(0)
}

/// Arguments of `frazil` and its standard input, as a shell hands them over: `frazil` is a function
/// here that writes them down.
#[cfg(unix)]
fn through_a_shell(line: &str) -> (Vec<String>, String) {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    // The script is the shell's input: as an argument it would be as long as the case.
    let script = format!(
        "frazil() {{ for a in \"$@\"; do printf '%s\\0' \"$a\"; done; \
         case \"$*\" in *' -') cat;; esac; }}\n{line}\n"
    );
    let mut shell = Command::new("sh");
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()).unwrap());
    let output = shell.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut parts: Vec<String> = text.split('\0').map(str::to_owned).collect();
    let input = parts.pop().unwrap();
    (parts, input)
}

/// The case that a line carries.
#[cfg(unix)]
fn case_of(repro: &Repro) -> Case {
    let line = repro.to_string();
    assert!(!line.contains('\n'));
    let (args, input) = through_a_shell(&line);
    assert_eq!(args[..3], ["repro", "--engine", repro.engine().as_str()]);
    let text = if args[3] == "-" { &input } else { &args[3] };
    assert_eq!((args.len(), text.as_str()), (4, repro.case()));
    serde_json::from_str(text).unwrap()
}

#[cfg(unix)]
#[track_caller]
fn assert_repeated(entry: impl Into<Entry>, fault: Fault, status: Status) {
    let found = verdict(entry, fault);
    assert_eq!(found.status, status, "{found:?}");
    let again = verdict(case_of(found.repro.as_ref().unwrap()), fault);
    assert_eq!(again.status, status, "{again:?}");
    // The last words of a decline at build differ; values and places must not.
    assert_eq!(
        (again.max_err.map(f64::to_bits), again.tol.map(f64::to_bits)),
        (found.max_err.map(f64::to_bits), found.tol.map(f64::to_bits))
    );
    assert_eq!(again.reason, found.reason);
    assert_eq!(again.repro, found.repro);
}

#[cfg(unix)]
#[rstest::rstest]
#[case::wrong_value(Fault::DropsLastKey, "everything", Status::Wrong)]
#[case::wrong_value_of_pages(Fault::IgnoresPageTable, "paged", Status::Wrong)]
#[case::contract_guard_zone(Fault::WritesBeforeOutput, "dense", Status::Wrong)]
#[case::contract_input(Fault::WritesInput, "dense", Status::Wrong)]
#[case::contract_workspace(Fault::WritesPastWorkspace, "dense", Status::Wrong)]
#[case::contract_dead_rows(Fault::FillsDeadRowsWithMinusZero, "padded", Status::Wrong)]
#[case::contract_other_bits(Fault::CountsExecutes, "dense", Status::Wrong)]
#[case::contract_error_word(Fault::WrongErrorWord, "padded", Status::Wrong)]
#[case::fault(Fault::Fails, "dense", Status::Error)]
#[case::panic_at_launch(Fault::Panics, "dense", Status::Error)]
#[case::panic_when_asked(Fault::PanicsWhenAsked, "dense", Status::Error)]
fn a_failure_is_repeated(#[case] fault: Fault, #[case] name: &str, #[case] status: Status) {
    assert_repeated(case(name), fault, status);
}

/// Names, notes and answers go through a shell unharmed, however long the case is.
#[cfg(unix)]
#[test]
fn hostile_text_is_repeated() {
    let long = "'\\ ".repeat(50_000);
    for text in ["it's", "a\nb\r", "'; exit 7; '", "$(exit 7) `exit 7` \\", "é漢𝄞 \"q\"", &long]
    {
        let mut dense = case("dense");
        dense.name = text.into();
        dense.note = Some(text.into());
        assert_repeated(dense, Fault::DropsLastKey, Status::Wrong);
    }
}

/// What was expected may stand in a file's rules and not in the case: the line carries it.
#[cfg(unix)]
#[test]
fn a_wrong_expectation_is_repeated() {
    let named = |expect: &[(&str, &str)]| {
        let pair = |&(engine, answer): &(&str, &str)| (engine.to_owned(), answer.to_owned());
        Entry { expect: Some(expect.iter().map(pair).collect()), ..Entry::from(case("dense")) }
    };
    for expect in [&[("naive", "DType")][..], &[("test/sdpa_fwd_naive", "Feature(bias)")]] {
        assert_repeated(named(expect), Fault::None, Status::Wrong);
    }
    // Nothing expected of this engine: any answer will do, and what is served must be right.
    for expect in [&[][..], &[("cpu", "DType")]] {
        assert_eq!(verdict(named(expect), Fault::None).status, Status::Right);
        assert_repeated(named(expect), Fault::DropsLastKey, Status::Wrong);
    }
    // And the case's own answers do not count where the file has rules, or wants none.
    let free = Entry { expect: None, ..Entry::from(case("dense")) };
    assert_repeated(free, Fault::DropsLastKey, Status::Wrong);
}

#[cfg(unix)]
#[test]
fn a_case_that_means_nothing_is_repeated() {
    let mut invalid = case("dense");
    invalid.num_q_heads = 3;
    assert_repeated(invalid, Fault::None, Status::Invalid);
}

/// A decline is a failure where `served` was expected, and nothing to repeat where not.
#[cfg(unix)]
#[test]
fn an_unexpected_decline_is_repeated() {
    for fault in [Fault::DeclinesEveryDevice, Fault::DeclinesBuilds] {
        let mut dense = case("dense");
        assert_eq!(verdict(dense.clone(), fault).repro, None);
        dense.answers = [("naive".into(), "served".into())].into();
        assert_repeated(dense, fault, Status::Wrong);
    }
}

/// Of several runs the line is about the one that failed.
#[cfg(unix)]
#[test]
fn the_run_that_failed_is_repeated() {
    let mut entry = Entry::from(case("packed_lengths"));
    entry.runs.push(case("band"));
    entry.runs.push(case("packed_prefix"));
    let found = verdict(entry, Fault::IgnoresBand);
    assert_eq!(case_of(&found.repro.unwrap()).name, "band");
}

#[test]
fn a_suite_prints_a_line_for_each_failure_and_for_nothing_else() {
    let mut invalid = case("dense");
    (invalid.name, invalid.num_q_heads) = ("invalid".into(), 3);
    let report =
        run_suite(&router(Fault::IgnoresBand), &host(), [case("dense"), case("band"), invalid]);
    let text = report.to_string();
    let lines: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("    frazil repro ")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, name) in lines.iter().zip(["band", "invalid"]) {
        assert!(line.contains(&format!("{{\"name\":\"{name}\"")), "{line}");
    }
    assert!(run_suite(&router(Fault::None), &host(), [case("dense")]).failures().next().is_none());
}
