//! Case files as TOML and as JSON lines.

use std::collections::BTreeSet;

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
                let line = line_of_second(text, &case.name);
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

/// Line, from 1, of the second `name = "..."` of that name; 0 where it is written in another way.
fn line_of_second(text: &str, name: &str) -> usize {
    let holds = |line: &str| {
        let value = line.trim().strip_prefix("name").map(str::trim_start);
        value
            .and_then(|value| value.strip_prefix('='))
            .and_then(|value| value.trim_start().get(1..))
            .and_then(|value| value.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with(['"', '\'']))
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| holds(line));
    lines.nth(1).map_or(0, |(at, _)| at + 1)
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
