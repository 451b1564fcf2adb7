//! What serde_json says about text that is one line of a file.

/// Its message without the line, which is always 1; the column stays.
pub(crate) fn without_line(error: &str) -> String {
    error.replace(" at line 1 column ", " at column ")
}
