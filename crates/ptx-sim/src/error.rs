//! Why a text is refused.

use std::fmt;

/// Why a PTX text cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not PTX as this crate reads it.
    #[error("PTX line {line}: {what}")]
    Syntax {
        /// Line of the PTX text, from 1.
        line: u32,
        /// What was met, and what was expected.
        what: String,
    },
    /// Names, types or sizes contradict each other.
    #[error("PTX line {line}: {what}")]
    Invalid {
        /// Line of the PTX text, from 1.
        line: u32,
        /// The contradiction.
        what: String,
    },
    /// Instructions that are not modelled. All of the module are named, not the first alone.
    #[error("{} not modelled: {}", .0.len(), List(.0))]
    Unmodelled(Vec<Unmodelled>),
}

/// One instruction that this crate has no model of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{instruction}` (PTX line {line}: {why})")]
pub struct Unmodelled {
    /// The instruction with all its modifiers.
    pub instruction: String,
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The part that is not modelled.
    pub why: String,
}

impl LoadError {
    pub(crate) fn syntax(line: u32, what: impl Into<String>) -> Self {
        Self::Syntax { line, what: what.into() }
    }

    pub(crate) fn invalid(line: u32, what: impl Into<String>) -> Self {
        Self::Invalid { line, what: what.into() }
    }
}

struct List<'a>(&'a [Unmodelled]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{entry}")?;
        }
        Ok(())
    }
}
