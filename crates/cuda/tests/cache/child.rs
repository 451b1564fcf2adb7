//! Processes of this test program: tests that are marked as ignored in modules `reexecuted`.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of a child's cache.
const FOLDER: &str = "FRAZIL_TEST_FOLDER";

/// The number of a child.
const WRITER: &str = "FRAZIL_TEST_WRITER";

/// What a child prints when its work begins.
const READY: &str = "ready";

/// How long a child works at most if nobody ends it.
const LONGEST: Duration = Duration::from_secs(60);

/// A process that runs one test, and ends with this value.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a test with a folder and a number, and waits until its work begins.
    pub(crate) fn start(test: &str, folder: &Path, writer: u32) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(arguments(test)).env(FOLDER, folder).env(WRITER, writer.to_string());
        let mut process = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with(READY)), "{test} ended early");
        process
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Whether it is at work.
    pub(crate) fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test by a program that sets something up before. What it prints is kept: it would be read as
/// what this program says of its own tests.
///
/// # Panics
///
/// Where it fails, with what it printed.
#[cfg(target_os = "linux")]
pub(crate) fn run_by(mut program: Command, test: &str, folder: &Path) {
    program.arg(env::current_exe().unwrap()).args(arguments(test)).env(FOLDER, folder);
    let output = program.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {}\n{out}{error}", output.status);
    assert!(out.contains("1 passed"), "{test} is no test:\n{out}");
}

fn arguments(test: &str) -> [&str; 4] {
    [test, "--exact", "--ignored", "--nocapture"]
}

/// The folder that the child was given.
pub(crate) fn folder() -> PathBuf {
    env::var_os(FOLDER).expect("another test runs this").into()
}

/// The number that the child was given.
pub(crate) fn writer() -> u32 {
    env::var(WRITER).expect("another test runs this").parse().unwrap()
}

/// In a child: says that it begins, and works until it is killed.
pub(crate) fn work(mut step: impl FnMut()) {
    use std::io::Write;
    // A line of its own: the name of the test stands before it on the same one.
    std::io::stdout().lock().write_all(format!("\n{READY}\n").as_bytes()).unwrap();
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        step();
    }
}
