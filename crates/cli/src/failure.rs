//! How a command ends, and the exit code of each end.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// What a command that ran to its end has found; the worse of two is the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Everything asked for was done, and right.
    #[default]
    Right,
    /// No engine serves what was asked for.
    Declined,
    /// A case that means nothing.
    Invalid,
    /// Nothing of an answer could be judged.
    Unjudged,
    /// An answer outside its tolerance, or other than its file states.
    Wrong,
}

/// Why a command stopped early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument or a file that means nothing.
    Input(String),
    /// A fault of an engine or of the system.
    Fault(String),
    /// No engine serves what was asked for.
    Declined(String),
    /// Nothing more can be written to standard output.
    Output(io::Error),
}

/// What a shell reports for a program that a closed pipe ended.
const BROKEN_PIPE: u8 = 128 + 13;

impl Outcome {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Right => ExitCode::SUCCESS,
            Self::Unjudged | Self::Wrong => ExitCode::FAILURE,
            Self::Invalid => ExitCode::from(2),
            Self::Declined => ExitCode::from(3),
        }
    }

    pub(crate) fn or_worse(&mut self, other: Self) {
        *self = (*self).max(other);
    }
}

impl Failure {
    /// Bad input in a file.
    pub(crate) fn in_file(path: &std::path::Path, what: impl fmt::Display) -> Self {
        Self::Input(format!("{}: {what}", path.display()))
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Input(_) => ExitCode::from(2),
            Self::Fault(_) => ExitCode::FAILURE,
            Self::Declined(_) => ExitCode::from(3),
            Self::Output(_) if self.is_broken_pipe() => ExitCode::from(BROKEN_PIPE),
            Self::Output(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(text) | Self::Fault(text) | Self::Declined(text) => f.write_str(text),
            Self::Output(error) => write!(f, "standard output: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<frazil::Error> for Failure {
    fn from(error: frazil::Error) -> Self {
        match error {
            frazil::Error::NoEngine(declined) => Self::Declined(declined.to_string()),
            frazil::Error::InvalidGraph(invalid) => Self::Input(invalid.to_string()),
            fault => Self::Fault(fault.to_string()),
        }
    }
}
