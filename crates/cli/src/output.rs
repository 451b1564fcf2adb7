//! Standard output: text for people or one JSON object a line.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Where the results of a command go.
#[derive(Debug)]
pub(crate) struct Output {
    to: StdoutLock<'static>,
    /// A line that has not ended. Lines go out whole, whatever interrupts the program.
    begun: Vec<u8>,
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
    /// Standard output, coloured as [`is_coloured`] says.
    pub(crate) fn stdout(json: bool) -> Self {
        let to = io::stdout().lock();
        let colour = is_coloured(|name| std::env::var_os(name), to.is_terminal());
        Self { to, begun: Vec::new(), colour, json }
    }

    /// One object, on a line of its own. Numbers that are not finite become `null`.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        self.write_all(&line)?;
        Ok(())
    }

    pub(crate) fn paint<T: fmt::Display>(&self, tone: Tone, text: T) -> Painted<T> {
        Painted(self.colour.then_some(tone), text)
    }
}

/// Whether text is coloured. `NO_COLOR`, not empty, means never (<https://no-color.org>);
/// `CLICOLOR_FORCE`, not empty and not 0, means always (<https://bixense.com/clicolors>); else
/// terminals have colours, but for those that say they are dumb.
fn is_coloured(variable: impl Fn(&str) -> Option<OsString>, is_terminal: bool) -> bool {
    let value = |name| variable(name).filter(|value| !value.is_empty());
    if value("NO_COLOR").is_some() {
        return false;
    }
    value("CLICOLOR_FORCE").is_some_and(|value| value != "0")
        || is_terminal && value("TERM").is_none_or(|term| term != "dumb")
}

/// A text that neither ends its line nor steers a terminal, whoever wrote it.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escaped).collect::<String>().into()
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend(bytes);
        if let Some(end) = self.begun.iter().rposition(|&byte| byte == b'\n') {
            let written = self.to.write_all(&self.begun[..=end]);
            self.begun.drain(..=end);
            written?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&std::mem::take(&mut self.begun))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_anyone_stays_on_its_line() {
        for (text, line) in [
            ("plain é漢", "plain é漢"),
            ("a\nb\r", "a\\nb\\r"),
            ("\x1b[2J\u{85}", "\\u{1b}[2J\\u{85}"),
        ] {
            assert_eq!(one_line(text), line);
        }
    }

    #[test]
    fn colours_are_for_terminals_and_for_whom_they_are_forced_on() {
        for (variables, on_terminal, elsewhere) in [
            (&[][..], true, false),
            (&[("TERM", "xterm-256color")], true, false),
            (&[("TERM", "dumb")], false, false),
            (&[("NO_COLOR", "1")], false, false),
            (&[("NO_COLOR", "0")], false, false),
            (&[("NO_COLOR", "")], true, false),
            (&[("CLICOLOR_FORCE", "1")], true, true),
            (&[("CLICOLOR_FORCE", "0")], true, false),
            (&[("CLICOLOR_FORCE", "")], true, false),
            (&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true, true),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false, false),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            let found = [true, false].map(|is_terminal| is_coloured(variable, is_terminal));
            assert_eq!(found, [on_terminal, elsewhere], "{variables:?}");
        }
    }
}
