//! What a kernel source includes, and what that includes.
//!
//! Used when this crate is built, where a wrong include fails the build, and for sources that other
//! crates bring.

use std::fmt;

/// The header that is written anew for every config; no file.
pub const CONFIG_HEADER: &str = "config.cuh";

/// An include that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludeError {
    /// File that includes.
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    /// What stands after `#include`.
    pub include: String,
    /// Whether it names no file of the table; else it has another form than `"path"`.
    pub is_missing: bool,
}

impl fmt::Display for IncludeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, include, is_missing } = self;
        write!(f, "{path}:{line}: #include {include}: ")?;
        f.write_str(if *is_missing {
            "there is no such kernel source; paths begin at the folder of all of them"
        } else {
            "kernel sources include one another alone, by #include \"path\""
        })
    }
}

impl std::error::Error for IncludeError {}

/// A source and all that it includes, transitively: itself first, each once. `text_of` gives the
/// text of a path.
pub(super) fn closure<'a>(
    path: &str,
    text_of: impl Fn(&str) -> Option<(&'a str, &'a str)>,
) -> Result<Vec<(&'a str, &'a str)>, IncludeError> {
    let missing = |path: &str, line: usize, include: &str| IncludeError {
        path: path.into(),
        line,
        include: format!("\"{include}\""),
        is_missing: true,
    };
    let mut files: Vec<(&'a str, &'a str)> =
        vec![text_of(path).ok_or_else(|| missing(path, 0, path))?];
    let mut at = 0;
    while at < files.len() {
        let (path, text) = files[at];
        for (line, include) in includes(path, text)? {
            if include == CONFIG_HEADER || files.iter().any(|(known, _)| *known == include) {
                continue;
            }
            files.push(text_of(include).ok_or_else(|| missing(path, line, include))?);
        }
        at += 1;
    }
    Ok(files)
}

/// Line and path of every include. A line in a comment counts as any other.
fn includes<'a>(path: &str, text: &'a str) -> Result<Vec<(usize, &'a str)>, IncludeError> {
    let mut includes = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let directive = text.trim_start().strip_prefix('#').map(str::trim_start);
        let Some(include) = directive.and_then(|text| text.strip_prefix("include")) else {
            continue;
        };
        let include = include.trim();
        let quoted = include.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        match quoted {
            Some((include, _)) => includes.push((line + 1, include)),
            None => {
                let (path, include) = (path.into(), include.into());
                return Err(IncludeError { path, line: line + 1, include, is_missing: false });
            }
        }
    }
    Ok(includes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        ("sm90/a.cu", "#include \"common/x.cuh\"\n  #  include \"common/y.cuh\"  // why\n"),
        ("common/x.cuh", "#include \"common/y.cuh\"\n#include \"config.cuh\"\n"),
        ("common/y.cuh", "#pragma once\n#include \"common/x.cuh\"\nint included;\n"),
        ("common/z.cuh", ""),
    ];

    fn paths(source: &str) -> Result<Vec<&'static str>, String> {
        let source: &'static str = source.to_owned().leak();
        let text_of = |path: &str| {
            let own = (path == "test.cu").then_some(("test.cu", source));
            own.or_else(|| FILES.iter().copied().find(|(known, _)| *known == path))
        };
        let files = closure("test.cu", text_of).map_err(|error| error.to_string())?;
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }

    #[test]
    fn everything_that_is_included_comes_once() {
        let expected = ["test.cu", "sm90/a.cu", "common/y.cuh", "common/x.cuh"];
        assert_eq!(paths("#include \"sm90/a.cu\"\n#include \"common/y.cuh\"").unwrap(), expected);
        assert_eq!(paths("// #included in\nint include;").unwrap(), ["test.cu"]);
    }

    #[test]
    fn an_include_that_leads_nowhere_is_told_with_its_line() {
        for (source, said) in [
            (
                "\n#include \"common/w.cuh\"",
                "test.cu:2: #include \"common/w.cuh\": there is no such",
            ),
            ("#include \"x.cuh\"", "test.cu:1: #include \"x.cuh\": there is no such"),
            ("#include \"../secret.h\"", "test.cu:1: #include \"../secret.h\": there is no such"),
            ("#include \"/etc/passwd\"", "test.cu:1: #include \"/etc/passwd\": there is no such"),
            ("#include <cuda_fp16.h>", "test.cu:1: #include <cuda_fp16.h>: kernel sources include"),
            ("#include HEADER", "test.cu:1: #include HEADER: kernel sources include"),
        ] {
            let error = paths(source).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
