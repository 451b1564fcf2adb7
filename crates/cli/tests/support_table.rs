//! The tables of README.md and docs/SUPPORT.md are what the engines answer.

mod common;

use common::frazil;
use frazil_conformance::cargo_path;

const DOCUMENTS: [(&str, &str); 2] = [("README.md", "summary"), ("docs/SUPPORT.md", "full")];

fn document(name: &str) -> String {
    let path = cargo_path!("CARGO_MANIFEST_DIR").join("../..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn asked(form: &str) -> String {
    frazil(["engines", "--table", form]).assert_code(0).stdout.clone()
}

/// What stands between the markers, without the empty lines around it.
fn shown(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once("<!-- support table: begin")?;
    let (_, rest) = rest.split_once("-->\n\n")?;
    rest.split_once("\n<!-- support table: end -->").map(|(table, _)| table)
}

#[test]
fn the_documents_say_what_the_engines_answer() {
    for (name, form) in DOCUMENTS {
        let document = document(name);
        let table = shown(&document).unwrap_or_else(|| panic!("{name} has no table"));
        assert_eq!(table, asked(form), "\n{name}: `cargo xtask support-table` writes it anew");
    }
}

/// The test above in red: an answer, an engine or a device more or less is seen.
#[test]
fn a_changed_answer_is_noticed() {
    for (name, form) in DOCUMENTS {
        let (document, asked) = (document(name), asked(form));
        for (was, becomes) in [("f32", "f64"), ("sdpa_fwd_cpu", "sdpa_fwd_gpu"), ("sm121", "sm120")]
        {
            let changed = asked.replacen(was, becomes, 1);
            assert_ne!(changed, asked, "{name} does not mention {was}");
            assert_ne!(shown(&document), Some(changed.as_str()), "{name}: {was}");
        }
        assert_eq!(shown(&document.replace("support table: end", "")), None);
    }
}

#[test]
fn a_table_is_not_json() {
    frazil(["engines", "--table", "full", "--json"]).assert_code(2);
    frazil(["engines", "--table", "html"]).assert_code(2);
}
