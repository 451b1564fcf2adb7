//! The line that runs a failing case again, on any machine.

use std::fmt::{self, Write as _};

use frazil_core::EngineId;
use serde::{Serialize, Serializer};

use crate::case::Case;

/// A case that went wrong on an engine, whole: nothing in it lies on the machine that found it.
///
/// Displayed as one line of ASCII for a shell: `frazil repro --engine sdpa_fwd_cpu '{"name":…}'`.
/// Its verdict is the one that was found, a wrong expectation included, since the case carries what
/// was expected of this engine. An engine that the program `frazil` does not link is reproduced by
/// [`Repro::case`], read as a [`Case`] and given to [`run_suite`](crate::suite::run_suite).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repro {
    engine: EngineId,
    case: String,
}

/// Longest argument that is handed over as one, in bytes. Linux takes 131,071, Windows 32,767 for a
/// whole command line; a longer case goes through a pipe, which a shell writes without an argument.
const MAX_ARGUMENT_BYTES: usize = 30_000;

impl Repro {
    /// The case as it was run on that engine; `expected` is what was to be answered, where any
    /// answer would not do.
    pub fn new(case: &Case, engine: &EngineId, expected: Option<&str>) -> Self {
        let answers = expected.map(|answer| (engine.to_string(), answer.to_owned()));
        let case = Case { answers: answers.into_iter().collect(), ..case.clone() };
        // Fields, texts and finite numbers: there is nothing that JSON cannot hold.
        let case = serde_json::to_string(&case).expect("a case is plain data");
        Self { engine: engine.clone(), case: to_ascii(&case) }
    }

    /// The engine that it is about.
    pub fn engine(&self) -> &EngineId {
        &self.engine
    }

    /// The case as one line of JSON, in ASCII.
    pub fn case(&self) -> &str {
        &self.case
    }
}

/// The line for a shell.
impl fmt::Display for Repro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (engine, case) = (&self.engine, self.case.replace('\'', r"'\''"));
        if case.len() > MAX_ARGUMENT_BYTES {
            // Not `echo`, to which a backslash may mean something.
            return write!(f, "printf %s '{case}' | frazil repro --engine {engine} -");
        }
        write!(f, "frazil repro --engine {engine} '{case}'")
    }
}

impl Serialize for Repro {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// JSON with every character outside of ASCII escaped, DEL too: it survives any terminal and mail.
fn to_ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if (' '..='~').contains(&character) {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseFile;

    const ENGINE: EngineId = EngineId::new("sdpa_fwd_cpu");

    fn case(name: &str) -> Case {
        let text = r#"{"name":"x","dtype":"f16","batch":1,"num_q_heads":1,"num_kv_heads":1,
            "head_dim_qk":8,"seqlen_q":1,"seqlen_kv":1,"answers":{"cpu":"served"}}"#;
        let case: Case = serde_json::from_str(text).unwrap();
        Case { name: name.into(), ..case }
    }

    #[test]
    fn a_line_is_ascii_whatever_the_case_is_called() {
        for name in
            ["plain", "it's", "''", "a\nb\r\tc", "\\n \"q\" $(x) `y` !", "é漢𝄞\u{7f}\u{202e}"]
        {
            let repro = Repro::new(&case(name), &ENGINE, None);
            let line = repro.to_string();
            assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
            let again = CaseFile::parse_lines(repro.case()).unwrap().cases.remove(0);
            assert_eq!(again.name, name);
            assert!(again.answers.is_empty(), "nothing was expected");
        }
    }

    #[test]
    fn a_line_carries_what_was_expected_of_its_engine() {
        let line = Repro::new(&case("x"), &ENGINE, Some("DType")).to_string();
        assert!(line.starts_with("frazil repro --engine sdpa_fwd_cpu '{\"name\":\"x\","), "{line}");
        assert!(line.ends_with("\"answers\":{\"sdpa_fwd_cpu\":\"DType\"}}'"), "{line}");
    }

    #[test]
    fn a_case_too_long_for_an_argument_goes_through_a_pipe() {
        let repro = Repro::new(&case(&"'".repeat(MAX_ARGUMENT_BYTES / 4)), &ENGINE, None);
        let line = repro.to_string();
        assert!(line.starts_with("printf %s '{"), "{}", &line[..40]);
        assert!(line.ends_with("' | frazil repro --engine sdpa_fwd_cpu -"));
        let repro = Repro::new(&case(&"x".repeat(MAX_ARGUMENT_BYTES / 2)), &ENGINE, None);
        assert!(repro.to_string().starts_with("frazil repro"));
    }
}
