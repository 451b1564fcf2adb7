//! Case files as TOML.

use super::CaseFile;

/// Why a text is no case file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseFileError {
    /// Not TOML, or a field that no case has; the message names line and column.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
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
}
