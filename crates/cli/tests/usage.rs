//! Engines and their names.

mod common;

use common::{Said, command, frazil, minilm};

#[test]
fn engines_say_what_they_serve() {
    let said = frazil(["engines", "--json"]);
    let engines = said.assert_code(0).json();
    let cpu = engines.iter().find(|engine| engine["engine"] == "sdpa_fwd_cpu").unwrap();
    assert!(cpu["features"].as_array().unwrap().iter().any(|feature| feature == "kv_paged"));
    assert!(cpu["maturity"].as_str().unwrap().starts_with("silicon"));
    assert!(frazil(["engines"]).assert_code(0).stdout.contains("sdpa_fwd_cpu"));
}

#[test]
fn an_engine_has_a_short_name() {
    let file = minilm(5);
    for name in ["cpu", "sdpa_fwd_cpu"] {
        frazil(["run", "--engine", name, file.to_str().unwrap()]).assert_code(0);
    }
}

/// Whatever is installed: where the variable names nothing, nothing else is tried.
#[test]
fn without_nvrtc_it_is_said_what_to_do() {
    let run = |args: &[&str]| {
        let mut command = command(args);
        command.env("FRAZIL_NVRTC", "/nowhere");
        Said::from(command.output().unwrap())
    };
    let said = run(&["warm", "--target", "sm90"]);
    let reason = "FRAZIL_NVRTC names /nowhere, which is neither a libnvrtc nor a folder";
    assert!(said.assert_code(3).stderr.contains(reason), "{said:#?}");
    run(&["warm", "--list", "--target", "sm90"]).assert_code(0);
    let doctor = &run(&["doctor", "--json"]).assert_code(0).json()[0];
    assert!(doctor["opened"]["nvrtc"]["missing"].as_str().unwrap().contains(reason), "{doctor}");
    let findings = doctor["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["code"] == "nvrtc_not_opened").unwrap();
    assert!(finding["seen"].as_str().unwrap().contains(reason), "{finding}");
}
