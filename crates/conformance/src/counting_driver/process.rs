//! A test in a process that has the counting driver.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::CountingDriver;
use crate::skip;

/// Says where the counting driver's file is, where it does not lie beside the test program.
const VARIABLE: &str = "FRAZIL_COUNTING_DRIVER";

/// Set in the child: the test that it runs.
const CHILD: &str = "FRAZIL_COUNTED_TEST";

/// How cargo names the counting driver's file.
const FILE: &str = "libfrazil_counting_driver.so";

/// Names by which callers open the driver; some try the one without a version first.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Runs a test once more in a child process whose `libcuda.so.1` is the counting driver: which
/// library that name stands for is settled when a process first opens it.
///
/// ```no_run
/// use frazil_conformance::counting_driver::CountedProcess;
///
/// #[test]
/// fn execute_calls_the_driver_once() {
///     let process = CountedProcess::new().unwrap();
///     process.run_test("execute_calls_the_driver_once", |calls| {
///         let ((), made) = calls.during(|| { /* execute */ });
///         made.assert_exactly(&[("cuLaunchKernelEx", 1)]);
///     });
/// }
/// ```
#[derive(Clone, Debug)]
pub struct CountedProcess {
    counting_driver: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

/// The counting driver's file is not there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the counting driver is not at {}; {VARIABLE} may say where it is, and a package has it built beside its tests by naming it as a dev-dependency", .0.display())]
pub struct NotBuilt(PathBuf);

impl CountedProcess {
    /// With the counting driver that the environment variable `FRAZIL_COUNTING_DRIVER` names (its
    /// file, of any name), else the one that lies beside the test program, where cargo puts it.
    ///
    /// # Errors
    ///
    /// [`NotBuilt`] where there is no such file.
    pub fn new() -> Result<Self, NotBuilt> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let beside = || std::env::current_exe().unwrap_or_default().with_file_name(FILE);
        let counting_driver = named.unwrap_or_else(beside);
        if !counting_driver.is_file() {
            return Err(NotBuilt(counting_driver));
        }
        Ok(Self { counting_driver, variables: Vec::new() })
    }

    /// The counting driver's file.
    #[must_use]
    pub fn counting_driver(&self) -> &Path {
        &self.counting_driver
    }

    /// Sets an environment variable of the child; `FRAZIL_REAL_DRIVER` says to the counting driver
    /// where NVIDIA's is.
    #[must_use]
    pub fn with_variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs `body` in a child process of this test program, which runs only the test of that whole
    /// name: the one that calls this.
    ///
    /// Gives what the child printed, to the parent alone. Where the child says that it cannot run
    /// ([`skip`]), so does the parent.
    ///
    /// # Panics
    ///
    /// Where `body` does, with what the child printed; where the child has no counting driver or
    /// runs no such test.
    #[track_caller]
    pub fn run_test(&self, test: &str, body: impl FnOnce(&CountingDriver)) -> Option<String> {
        if let Some(running) = std::env::var_os(CHILD) {
            assert_eq!(running.to_str(), Some(test), "the child runs one test");
            let calls = CountingDriver::attached();
            body(&calls.expect("`libcuda.so.1` is the counting driver here"));
            return None;
        }
        let output = self.spawn(test).unwrap_or_else(|error| panic!("{test}: {error}"));
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(
            output.status.success(),
            "{test} in a process of its own: {}\n{text}",
            output.status
        );
        assert!(text.contains("1 passed"), "there is no test `{test}`\n{text}");
        if let Some(reason) = skip::reason_in(&text) {
            skip::because(reason);
        }
        Some(text)
    }

    fn spawn(&self, test: &str) -> std::io::Result<Output> {
        let folder = tempfile::tempdir()?;
        let file = std::path::absolute(&self.counting_driver)?;
        for name in NAMES {
            std::os::unix::fs::symlink(&file, folder.path().join(name))?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.env(CHILD, test).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("LD_LIBRARY_PATH", self.library_path(folder.path()));
        command.output()
    }

    /// The folder of the counting driver, before those that the child would have anyway.
    fn library_path(&self, folder: &Path) -> OsString {
        const NAME: &str = "LD_LIBRARY_PATH";
        let given = self.variables.iter().rev().find(|(name, _)| *name == NAME);
        let rest = given.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(NAME));
        let rest = rest.filter(|rest| !rest.is_empty());
        let mut path = folder.as_os_str().to_owned();
        if let Some(rest) = rest {
            path.push(":");
            path.push(rest);
        }
        path
    }
}
