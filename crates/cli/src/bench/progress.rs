//! How far a bench has come, on standard error where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts rounds; it draws only between them, never while something is timed.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    rounds: u64,
    cells_done: u64,
}

impl Progress {
    pub(super) fn new(cells: usize, rounds: u32) -> Self {
        let rounds = u64::from(rounds);
        // Drawn nowhere when standard error is no terminal.
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(Some(cells as u64 * rounds), target);
        // No colours, whatever NO_COLOR says.
        let style =
            ProgressStyle::with_template("[{bar:24}] {percent:>3}% {eta:>4} left  {wide_msg}");
        bar.set_style(style.expect("a template of known keys").progress_chars("=> "));
        Self { bar, rounds, cells_done: 0 }
    }

    pub(super) fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    pub(super) fn round(&self, done: u32) {
        self.bar.set_position(self.cells_done * self.rounds + u64::from(done));
    }

    pub(super) fn cell_done(&mut self) {
        self.cells_done += 1;
        self.bar.set_position(self.cells_done * self.rounds);
    }

    /// Makes room for other lines while `write` runs.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
