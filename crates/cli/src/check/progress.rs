//! How far a check has come, on standard error where that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output::one_line;

/// A line that is written over.
#[derive(Debug)]
pub(super) struct Progress {
    total: usize,
    done: usize,
    last: Option<Instant>,
    shown: bool,
    terminal: bool,
}

/// Time between two writes.
const PAUSE: Duration = Duration::from_millis(100);

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { total, done: 0, last: None, shown: false, terminal }
    }

    pub(super) fn done(&mut self, id: &str) {
        self.done += 1;
        if !self.terminal || self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        let _ = write!(io::stderr(), "\r\x1b[K{}/{} {}", self.done, self.total, one_line(id));
        (self.last, self.shown) = (Some(Instant::now()), true);
    }

    /// Makes room for other lines.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
