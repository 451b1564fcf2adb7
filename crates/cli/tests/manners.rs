//! Exit codes, help, completions, colours, pipes, interruptions: what every command has in common.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::process::{Command, Stdio};

use common::{Said, command, frazil, minilm, program, write};
use frazil_conformance::cargo_path;

/// Every command, with arguments that work. A new one is added here, or a test below fails.
const WORKING: &[(&str, &[&str])] = &[
    ("run", &["FILE"]),
    ("check", &["CASE"]),
    ("repro", &["CASE"]),
    ("explain", &["CASE"]),
    ("engines", &[]),
    ("doctor", &[]),
    ("bench", &["--list"]),
    ("warm", &["--list", "--target", "sm90"]),
    ("completions", &["bash"]),
    ("help", &[]),
];

const CASE: &str = r#"{"name": "mine", "dtype": "bf16", "batch": 1, "num_q_heads": 2,
    "num_kv_heads": 1, "head_dim_qk": 16, "seqlen_q": 3, "seqlen_kv": 5}"#;

/// The case with something else in it.
fn case_with(field: &str) -> String {
    CASE.replacen('{', &format!("{{{field}, "), 1)
}

/// Stands in for files and cases in tables of arguments.
fn filled(arg: &str) -> String {
    match arg {
        "FILE" => minilm(0).to_str().unwrap().to_owned(),
        "CASE" => CASE.to_owned(),
        "DROPOUT" => case_with("\"dropout\": 0.1"),
        "LYING" => case_with("\"answers\": {\"cpu\": \"DType\"}"),
        "NOTHING" => CASE.replace("\"num_kv_heads\": 1", "\"num_kv_heads\": 3"),
        arg => arg.to_owned(),
    }
}

/// Every command with arguments that work, all in one list.
fn working() -> impl Iterator<Item = Vec<String>> {
    let words = |(name, args): &(&str, &[&str])| {
        [name].into_iter().chain(*args).map(|arg| filled(arg)).collect()
    };
    WORKING.iter().map(words)
}

/// Names in the help of the program.
fn commands() -> Vec<String> {
    let help = frazil(["--help"]);
    let list = help.stdout.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    list.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

/// What a table says of standard output.
#[derive(Clone, Copy)]
enum Out {
    Empty,
    Has(&'static str),
}
use Out::{Empty, Has};

#[test]
fn exit_codes() {
    let table: &[(&[&str], i32, Out, &str)] = &[
        (&[], 2, Empty, "Usage: frazil <COMMAND>"),
        (&["--version"], 0, Has(concat!("frazil ", env!("CARGO_PKG_VERSION"))), ""),
        (&["--help"], 0, Has("Exit codes"), ""),
        (&["help"], 0, Has("Exit codes"), ""),
        (&["help", "frob"], 2, Empty, "frob"),
        (&["frob"], 2, Empty, "unrecognized subcommand"),
        (&["chek"], 2, Empty, "similar subcommand exists: 'check'"),
        (&["doktor"], 2, Empty, "'doctor'"),
        (&["check", "--jsn"], 2, Empty, "similar argument exists: '--json'"),
        (&["run"], 2, Empty, "<FILE>"),
        (&["run", "FILE"], 0, Has("right"), ""),
        (&["run", "no_such_file"], 2, Empty, "no_such_file"),
        (&["run", "--dtype", "f8", "FILE"], 2, Empty, "bf16"),
        (&["run", "--repeat", "0", "FILE"], 2, Empty, "--repeat"),
        (&["run", "--window", "0", "FILE"], 2, Empty, "W, from 1, or LEFT,RIGHT"),
        (&["run", "--window", "-1", "FILE"], 2, Empty, "W, from 1, or LEFT,RIGHT"),
        (&["run", "--window", "a", "FILE"], 2, Empty, "W, from 1, or LEFT,RIGHT"),
        (&["run", "--window", "1,b", "FILE"], 2, Empty, "W, from 1, or LEFT,RIGHT"),
        (&["run", "--align", "top-left", "FILE"], 2, Empty, "--align"),
        (&["run", "--engine", "nobody", "FILE"], 2, Empty, "sdpa_fwd_cpu"),
        (&["run", "--output", "no/such/folder", "FILE"], 1, Has("right"), "cannot be written"),
        (&["check"], 2, Empty, "<FILE|JSON>"),
        (&["check", "CASE"], 0, Has("most of a tolerance used"), ""),
        (&["check", "LYING"], 1, Has("frazil repro"), ""),
        (&["check", "NOTHING"], 2, Has("INVALID"), ""),
        (&["check", "DROPOUT"], 3, Has("declined"), ""),
        (&["check", "--device", "moon", "CASE"], 2, Empty, "host"),
        (&["check", "--max-gflop", "nan", "CASE"], 2, Empty, "--max-gflop"),
        (&["check", "--jobs", "0", "CASE"], 2, Empty, "--jobs"),
        (&["repro"], 2, Empty, "<JSON|FILE|->"),
        (&["repro", "CASE"], 0, Has("right"), ""),
        (&["repro", "LYING"], 1, Has("frazil repro"), ""),
        (&["repro", "NOTHING"], 2, Has("INVALID"), ""),
        (&["repro", "DROPOUT"], 3, Has("declined"), ""),
        (&["repro", "{"], 2, Empty, "no JSON"),
        (&["explain"], 2, Empty, "<FILE|JSON>"),
        (&["explain", "CASE"], 0, Has("served"), ""),
        (&["explain", "DROPOUT"], 3, Has("declined"), ""),
        (&["explain", "NOTHING"], 2, Empty, "num_kv_heads"),
        (&["explain", "--target", "sm70", "CASE"], 2, Empty, "sm80"),
        (&["explain", "--target", "sm90", "CASE"], 0, Has("declined"), ""),
        (&["engines"], 0, Has("sdpa_fwd_cpu"), ""),
        (&["engines", "extra"], 2, Empty, "extra"),
        (&["doctor"], 0, Has("opened in a process of its own"), ""),
        (&["doctor", "extra"], 2, Empty, "extra"),
        (&["bench", "--list"], 0, Has("llama3.1"), ""),
        (&["bench", "nobody"], 2, Empty, "llama3.1"),
        (&["bench", "plot"], 2, Empty, "<FILE>"),
        (&["warm", "--list", "--target", "sm90"], 0, Has("frazil_sdpa_seqlens  sm_90a"), ""),
        (&["warm", "--target", "host"], 2, Empty, "sm80"),
        (&["warm", "--list", "--target", "sm90", "NOTHING"], 2, Empty, "num_kv_heads"),
        (
            &["warm", "--list", "--target", "sm90", "CASE"],
            0,
            Has("frazil_sdpa_fwd_sm80  sm_90a"),
            "",
        ),
        (&["warm", "--list", "--target", "sm90", "DROPOUT"], 3, Has("sm_90a"), ""),
        (&["completions"], 2, Empty, "<SHELL>"),
        (&["completions", "bash"], 0, Has("frazil"), ""),
        (&["completions", "tcsh"], 2, Empty, "zsh"),
    ];
    for &(args, code, out, stderr) in table {
        let said = frazil(args.iter().map(|arg| filled(arg)));
        said.assert_code(code);
        match out {
            Empty => assert_eq!(said.stdout, "", "{args:?}"),
            Has(part) => assert!(said.stdout.contains(part), "{args:?}: {said:#?}"),
        }
        assert!(said.stderr.contains(stderr), "{args:?}: {said:#?}");
        assert_eq!(said.stderr.is_empty(), stderr.is_empty(), "{args:?}: {said:#?}");
    }
    for name in commands() {
        assert!(table.iter().any(|(args, ..)| args.first() == Some(&name.as_str())), "{name}");
    }
}

#[test]
fn every_command_has_help_with_examples_and_exit_codes() {
    let names = commands();
    assert!(names.iter().all(|name| WORKING.iter().any(|(known, _)| known == name)), "{names:?}");
    for name in names.iter().filter(|name| *name != "help") {
        let help = frazil([name, "--help"]);
        let text = &help.assert_code(0).stdout;
        assert!(text.contains("Example") && text.contains("Exit code"), "{name}: {text}");
        assert_eq!(*text, frazil(["help", name]).stdout);
        assert!(frazil([name, "-h"]).assert_code(0).stdout.len() <= text.len());
        let wide = text.lines().find(|line| line.chars().count() > 110);
        assert_eq!(wide, None, "{name}: a terminal would break this line");
    }
}

/// Examples of a help that begin with the program, each as the shell would read it.
fn examples(help: &str) -> Vec<String> {
    let (_, text) = help.split_once("Example").expect("examples");
    let mut examples: Vec<String> = Vec::new();
    for line in text.lines().skip(1) {
        match examples.last_mut() {
            // An open quote goes on.
            Some(begun) if begun.matches('\'').count() % 2 == 1 => *begun += line,
            _ => examples.push(line.trim().to_owned()),
        }
    }
    examples.retain(|example| !example.is_empty());
    examples
}

/// What a newcomer tries first; a case or an option that was renamed leaves it behind.
#[cfg(unix)]
#[test]
fn examples_of_the_help_mean_something() {
    let root = cargo_path!("CARGO_MANIFEST_DIR").join("../..");
    let is_there =
        |word: &str| !word.contains('.') || word.starts_with("0.") || root.join(word).exists();
    let mut tried = 0;
    for name in commands().iter().filter(|name| !["help", "bench"].contains(&name.as_str())) {
        for example in examples(&frazil([name, "--help"]).stdout) {
            // What is written to, and files that a reader has and this repository has not.
            if example.contains(['<', '>']) || !example.split(' ').all(is_there) {
                continue;
            }
            let script = example.replacen("frazil", program().to_str().unwrap(), 1);
            let output = Command::new("sh").args(["-c", &script]).current_dir(&root).output();
            let said = Said::from(output.unwrap());
            // An engine may decline, as on a stand-in for a device that it is not for.
            assert!([Some(0), Some(3)].contains(&said.code), "{example}: {said:#?}");
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn every_report_has_a_form_for_machines() {
    for (name, args) in WORKING {
        if ["help", "completions"].contains(name) {
            continue;
        }
        let args = [*name, "--json"].into_iter().chain(args.iter().copied()).map(filled);
        let said = frazil(args);
        let lines = said.assert_code(0).json();
        assert!(!lines.is_empty() && lines.iter().all(serde_json::Value::is_object), "{name}");
    }
    let doctor = &frazil(["doctor", "--json"]).json()[0];
    for library in ["driver", "nvrtc"] {
        let answer = doctor["opened"][library].as_object().unwrap();
        assert!(answer.contains_key("opened") || answer.contains_key("missing"), "{answer:?}");
    }
    assert_eq!(doctor["engines"][0]["status"], "right");
    assert!(doctor["findings"].is_array() && doctor["kernel_driver"].is_object());
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let said = frazil(["completions", shell]);
        let script = &said.assert_code(0).stdout;
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("--max-gflop") || script.contains("max-gflop"), "{shell}");
        let path = write(&format!("completions.{shell}"), script);
        // Which of the shells there are differs; `-n` reads a script and runs nothing.
        match Command::new(shell).arg("-n").arg(&path).output() {
            Ok(output) => assert!(output.status.success(), "{shell}: {:?}", Said::from(output)),
            Err(_) => eprintln!("{shell} is not here: its script was not read by it"),
        }
    }
}

#[test]
fn colours_are_forced_on_and_off() {
    for (args, code) in [(["doctor", ""], 0), (["check", "LYING"], 1), (["run", "FILE"], 0)] {
        let coloured = |variables: &[(&str, &str)]| {
            let args = args.iter().filter(|arg| !arg.is_empty()).map(|arg| filled(arg));
            let mut command = command(args);
            command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
            let said: Said = command.envs(variables.iter().copied()).output().unwrap().into();
            said.assert_code(code).stdout.contains('\x1b')
        };
        assert!(!coloured(&[]), "{args:?}: no terminal");
        assert!(coloured(&[("CLICOLOR_FORCE", "1")]), "{args:?}");
        assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "{args:?}");
    }
}

/// The reader is gone before the program begins, as in `frazil … | head -0`.
#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let forms = working().chain([
        vec!["--help".into()],
        vec!["--version".into()],
        vec!["run".into(), "--help".into()],
        vec!["check".into(), "--json".into(), CASE.into()],
        vec!["run".into(), "--json".into(), filled("FILE")],
        vec!["doctor".into(), "--json".into()],
        vec!["check".into(), filled("LYING")],
    ]);
    for args in forms {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = Said::from(output);
        assert_eq!((said.code, said.stderr.as_str()), (Some(141), ""), "{args:?}");
    }
}

/// A reader that leaves later ends a long command early.
#[cfg(unix)]
#[test]
fn a_pipe_closed_later_ends_the_command() {
    let file = filled("FILE");
    let files = std::iter::repeat_n(file.as_str(), 20);
    let mut child = command(["run", "--no-compare", "--repeat", "1", "--json"])
        .args(files)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut first).unwrap();
    serde_json::from_str::<serde_json::Value>(&first).unwrap();
    drop(stdout);
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.stderr.as_str()), (Some(141), ""));
}

/// Runs a line of a shell with a command of this program as `"$@"`.
#[cfg(unix)]
fn in_shell(line: &str, args: &[String]) -> Said {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).arg("sh").arg(program()).args(args);
    shell.output().unwrap().into()
}

#[cfg(unix)]
#[test]
fn closed_and_full_outputs_are_no_panic() {
    for args in working() {
        // Nobody listens: that is no error, as the system gives closed outputs a place.
        let said = in_shell("exec \"$@\" >&-", &args);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}");
        let said = in_shell("exec \"$@\" 2>&-", &args);
        assert!(said.code == Some(0) && !said.stdout.is_empty(), "{args:?}");
        if cfg!(target_os = "linux") {
            let said = in_shell("exec \"$@\" >/dev/full", &args);
            assert_eq!(said.code, Some(1), "{args:?}: {said:#?}");
            assert!(said.stderr.starts_with("frazil: standard output: "), "{args:?}: {said:#?}");
        }
    }
    let bad = ["run".to_owned(), "no_such_file".to_owned()];
    assert_eq!(in_shell("exec \"$@\" 2>&-", &bad).code, Some(2));
    assert_eq!(in_shell("exec \"$@\" >&- 2>&-", &bad).code, Some(2));
}

#[cfg(unix)]
#[test]
fn arguments_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let odd = OsStr::from_bytes(b"odd\xff");
    for (args, part) in [
        (&[odd][..], "odd"),
        (&[OsStr::new("run"), odd], "odd"),
        (&[OsStr::new("check"), odd], "odd"),
        (&[OsStr::new("repro"), odd], "odd"),
        (&[OsStr::new("explain"), odd], "odd"),
        (&[OsStr::new("engines"), odd], "odd"),
        (&[OsStr::new("doctor"), odd], "odd"),
        (&[OsStr::new("completions"), odd], "odd"),
        (&[OsStr::new("check"), OsStr::new("--filter"), odd, OsStr::new("x")], "UTF-8"),
        (&[OsStr::new("explain"), OsStr::new("--target"), odd, OsStr::new("{}")], "UTF-8"),
    ] {
        let said = frazil(args);
        assert!(said.assert_code(2).stderr.contains(part), "{args:?}: {said:#?}");
        assert_eq!(said.stdout, "", "{args:?}");
    }
}

/// Ended in the midst of a check: what was printed are whole lines. By SIGTERM, for a shell starts what it
/// runs in the background with Ctrl-C's SIGINT ignored.
#[cfg(unix)]
#[test]
fn an_interrupted_check_leaves_whole_lines() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::process::ExitStatusExt as _;

    // Lines longer than what the standard library holds back, each printed piece by piece.
    let note = "n".repeat(2000);
    let case = |at: usize| {
        let case = CASE.replace("mine", &format!("case_{at}")).replace('\n', " ");
        let more = format!("\"note\": \"{note}\", \"answers\": {{\"cpu\": \"DType\"}}, ");
        format!("{}\n", case.replacen('{', &format!("{{{more}"), 1))
    };
    let path = write("many.jsonl", (0..4000).map(case).collect::<String>());
    for json in [true, false] {
        let mut command = command(["check", "--jobs", "2"]);
        command.args(json.then_some("--json")).arg(&path);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        for _ in 0..20 {
            stdout.read_line(&mut text).unwrap();
        }
        let kill = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap();
        assert!(kill.success());
        stdout.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15), "it was not over before");
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if json {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(value["status"], "wrong");
            } else {
                let is_whole = line.ends_with("expected DType") || line.ends_with("}'");
                assert!(is_whole, "{line}");
            }
        }
    }
}
