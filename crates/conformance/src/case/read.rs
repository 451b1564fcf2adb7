//! Case files as TOML and as JSON lines.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Spanned;

use super::{Case, CaseFile};
use crate::json::without_line;

/// Why a text is no case file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseFileError {
    /// Not TOML, or a field that no case has; the message names line and column.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A line that is not a case as JSON.
    #[error("line {line}: {}", without_line(.reason))]
    Json {
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Two cases of one name.
    #[error("line {line}: case `{name}` is there twice")]
    Duplicate {
        /// The name.
        name: String,
        /// Line of the second one, from 1.
        line: usize,
    },
}

impl CaseFile {
    /// Reads TOML.
    ///
    /// # Errors
    ///
    /// [`CaseFileError`] names the place in the text.
    pub fn parse(text: &str) -> Result<Self, CaseFileError> {
        let file: Self = toml::from_str(text)?;
        for (at, case) in file.cases.iter().enumerate() {
            if file.cases[..at].iter().any(|before| before.name == case.name) {
                let line = line_of_name(text, at)?;
                return Err(CaseFileError::Duplicate { name: case.name.clone(), line });
            }
        }
        Ok(file)
    }

    /// Reads JSON lines: one case a line, empty lines aside.
    ///
    /// # Errors
    ///
    /// [`CaseFileError`] names the first line at fault.
    pub fn parse_lines(text: &str) -> Result<Self, CaseFileError> {
        let mut file = Self::default();
        let mut names = BTreeSet::new();
        for (at, text) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line = at + 1;
            let case: Case = serde_json::from_str(text)
                .map_err(|error| CaseFileError::Json { line, reason: error.to_string() })?;
            if !names.insert(case.name.clone()) {
                return Err(CaseFileError::Duplicate { name: case.name, line });
            }
            file.cases.push(case);
        }
        Ok(file)
    }
}

/// Line, from 1, of the name of a case, however TOML lets it be written.
fn line_of_name(text: &str, at: usize) -> Result<usize, toml::de::Error> {
    #[derive(Deserialize)]
    struct Names {
        case: Vec<Name>,
    }

    #[derive(Deserialize)]
    struct Name {
        name: Spanned<String>,
    }

    let Names { case } = toml::from_str(text)?;
    let begin = case.get(at).map_or(0, |case| case.name.span().start);
    Ok(1 + text.as_bytes()[..begin].iter().filter(|byte| **byte == b'\n').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"
[[case]]
name = "plain"
dtype = "bf16"
batch = 1
num_q_heads = 1
num_kv_heads = 1
head_dim_qk = 8
seqlen_q = 1
seqlen_kv = 1
"#;

    #[test]
    fn a_name_is_there_once() {
        assert_eq!(CaseFile::parse(CASE).unwrap().cases.len(), 1);
        let error = CaseFile::parse(&format!("{CASE}{CASE}")).unwrap_err();
        assert_eq!(error, CaseFileError::Duplicate { name: "plain".into(), line: 13 });
        // However TOML lets a name be written, and whatever else looks like one.
        for (first, second) in [
            (r#"name = "plain""#, r#""name" = """\u0070lain""""#),
            ("name = \"plain\"\nnote = '''\nname = \"plain\"\n'''", "name='plain'"),
        ] {
            let with = |name: &str| CASE.replace(r#"name = "plain""#, name);
            let error = CaseFile::parse(&(with(first) + &with(second))).unwrap_err();
            let line = 12 + first.lines().count();
            assert_eq!(error, CaseFileError::Duplicate { name: "plain".into(), line });
        }
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_line() {
        let error = CaseFile::parse(&format!("{CASE}seqlen = 3\n")).unwrap_err();
        assert!(matches!(error, CaseFileError::Toml(_)));
        assert!(error.to_string().contains("line 11"), "{error}");
    }

    #[test]
    fn numbers_are_finite() {
        for (field, name) in [
            ("softmax_scale = 1e39", "softmax_scale"),
            ("softmax_scale = nan", "softmax_scale"),
            ("soft_cap = inf", "soft_cap"),
            ("soft_cap = -4e38", "soft_cap"),
            ("dropout = nan", "dropout"),
            ("sink = { constant = nan }", "sink.constant"),
            ("sink = { constant = 1e39 }", "sink.constant"),
        ] {
            let error = CaseFile::parse(&format!("{CASE}{field}\n")).unwrap_err().to_string();
            assert!(error.contains("line 11"), "{error}");
            assert!(error.contains(&format!("`{name}` is ")), "{error}");
        }
        assert!(CaseFile::parse(&format!("{CASE}sink = {{ constant = -3e38 }}\n")).is_ok());
    }

    #[test]
    fn lines_of_json_are_cases_of_different_names() {
        let case = serde_json::to_string(&CaseFile::parse(CASE).unwrap().cases[0]).unwrap();
        assert_eq!(CaseFile::parse_lines(&format!("\n{case}\n\n")).unwrap().cases.len(), 1);
        let error = CaseFile::parse_lines(&format!("{case}\n\n{case}")).unwrap_err();
        assert_eq!(error, CaseFileError::Duplicate { name: "plain".into(), line: 3 });
        let scale = case.replacen('{', r#"{"softmax_scale":1e39,"#, 1);
        let error = CaseFile::parse_lines(&format!("{case}\n{scale}")).unwrap_err().to_string();
        assert!(error.starts_with("line 2: `softmax_scale` is inf"), "{error}");
        assert_eq!(error.matches("line").count(), 1, "{error}");
    }
}
