//! Standard output: text for people or one JSON object a line.

use std::fmt;
use std::io::{self, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Where the results of a command go.
#[derive(Debug)]
pub(crate) struct Output {
    to: StdoutLock<'static>,
    colour: bool,
    /// Whether machines read it.
    pub(crate) json: bool,
}

/// Colours, by meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Good,
    Bad,
    Faint,
}

/// Text in a colour, where there are colours.
#[derive(Debug)]
pub(crate) struct Painted<T>(Option<Tone>, T);

impl Output {
    /// Standard output; coloured when it is a terminal and `NO_COLOR` is unset or empty
    /// (<https://no-color.org>).
    pub(crate) fn stdout(json: bool) -> Self {
        let to = io::stdout().lock();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = to.is_terminal() && !no_colour;
        Self { to, colour, json }
    }

    /// One object, on a line of its own. Numbers that are not finite become `null`.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        // Whole before any of it is written: half an object is of no use to a reader.
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        self.to.write_all(&line)?;
        Ok(())
    }

    pub(crate) fn paint<T: fmt::Display>(&self, tone: Tone, text: T) -> Painted<T> {
        Painted(self.colour.then_some(tone), text)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ECMA-48 "select graphic rendition": green, red, faint.
        let code = match self.0 {
            None => return self.1.fmt(f),
            Some(Tone::Good) => 32,
            Some(Tone::Bad) => 31,
            Some(Tone::Faint) => 2,
        };
        write!(f, "\x1b[{code}m")?;
        self.1.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}
