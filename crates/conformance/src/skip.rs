//! Tests that cannot run here: counted as skipped, never as passed.
//!
//! libtest knows no skip at run time, so a test says that it is one and returns; `cargo xtask test`
//! takes it out of those that passed, prints the reason, and fails where its tier is required.
//!
//! ```no_run
//! # fn nvrtc() -> Result<(), std::io::Error> { Ok(()) }
//! #[test]
//! fn every_kernel_compiles() {
//!     let nvrtc = match nvrtc() {
//!         Ok(nvrtc) => nvrtc,
//!         Err(error) => return frazil_conformance::skip::because(format_args!("no NVRTC: {error}")),
//!     };
//!     // ...
//! }
//! ```

use std::fmt::Display;
use std::io::Write;
use std::{io, thread};

/// What the line of a skip begins with; the test's name, `: ` and the reason follow.
pub const MARK: &str = "SKIPPED test ";

/// Says that the test that calls it cannot run here. The test returns next.
///
/// The reason begins with what is missing, in few words and alike for every test that misses it:
/// reasons are counted. It is called on the thread of the test, which has the test's name.
///
/// # Panics
///
/// Where nothing can be written to standard output, since a skip that nobody sees would pass.
pub fn because(reason: impl Display) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("on a thread without a name");
    let reason = reason.to_string().lines().collect::<Vec<_>>().join(" | ");
    // Not by a macro: libtest keeps to itself what those print in a test that ends well.
    let line = format!("{MARK}{test}: {reason}\n");
    let written = io::stdout().lock().write_all(line.as_bytes());
    if let Err(error) = written {
        panic!("{test} is skipped and cannot say so: {error}");
    }
}

/// Why a test was skipped, by what its process printed: for a test that runs another one, or itself
/// once more, in a child process and keeps its output. It is then skipped as well.
pub fn reason_in(output: &str) -> Option<&str> {
    let said = output.lines().find_map(|line| line.split_once(MARK))?.1;
    Some(said.split_once(": ").map_or(said, |(_, reason)| reason))
}
