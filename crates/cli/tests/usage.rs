//! Engines and their names.

mod common;

use common::{frazil, minilm};

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
