//! The driver and NVRTC, opened in a process of their own: a broken library may end it, and this one
//! still says so.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use frazil_cuda::DriverCalls;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// How long opening may take. A first start of the driver takes some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What opening has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Opened {
    pub(super) driver: Answer<Driver>,
    pub(super) nvrtc: Answer<Nvrtc>,
}

/// A library that answered, or the reason why none did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<T> {
    Opened(T),
    Missing(String),
}

/// The driver's library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Driver {
    /// The CUDA version that it speaks.
    pub(super) cuda: String,
    pub(super) num_gpus: i32,
}

/// The compiler that kernels are made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Nvrtc {
    pub(super) version: String,
    pub(super) path: String,
    pub(super) targets: Vec<String>,
}

/// `frazil open-libraries`: opens both, and writes a line for each before the next is opened.
pub(crate) fn open_libraries(out: &mut Output) -> Result<Outcome, Failure> {
    out.object(&driver())?;
    out.flush()?;
    out.object(&nvrtc())?;
    Ok(Outcome::Right)
}

fn driver() -> Answer<Driver> {
    let driver = match frazil_cuda::driver() {
        Ok(driver) => driver,
        Err(error) => return Answer::Missing(error.to_string()),
    };
    match (driver.driver_get_version(), driver.device_get_count()) {
        (Ok(version), Ok(num_gpus)) => {
            let cuda = format!("{}.{}", version / 1000, version % 1000 / 10);
            Answer::Opened(Driver { cuda, num_gpus })
        }
        (Err(error), _) | (_, Err(error)) => Answer::Missing(error.to_string()),
    }
}

fn nvrtc() -> Answer<Nvrtc> {
    match frazil_cuda::nvrtc::nvrtc() {
        Ok(nvrtc) => {
            let props = nvrtc.props();
            Answer::Opened(Nvrtc {
                version: format!("{}.{}", props.version.major, props.version.minor),
                path: nvrtc.path().to_string_lossy().into_owned(),
                targets: props.targets,
            })
        }
        Err(error) => Answer::Missing(error.to_string()),
    }
}

impl Opened {
    /// Runs this program once more to open the libraries.
    pub(super) fn in_a_child() -> Self {
        let said = env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("open-libraries").stdin(Stdio::null()).stderr(Stdio::null());
            wait(command.stdout(Stdio::piped()).spawn()?, PATIENCE)
        });
        match said {
            Ok((text, ended)) => Self::read(&text, &ended),
            Err(error) => {
                let reason = format!("not tried, since this program does not start again: {error}");
                Self { driver: Answer::Missing(reason.clone()), nvrtc: Answer::Missing(reason) }
            }
        }
    }

    /// Reads what the child said before it ended so.
    fn read(text: &str, ended: &str) -> Self {
        let mut lines = text.lines();
        let (driver, nvrtc) = (lines.next(), lines.next());
        let died = |what: &str| format!("the process that opened {what} {ended}");
        Self {
            driver: parse(driver).unwrap_or_else(|| Answer::Missing(died("the driver"))),
            nvrtc: parse(nvrtc).unwrap_or_else(|| {
                let what = if driver.is_some() { "NVRTC" } else { "the driver before it" };
                Answer::Missing(died(what))
            }),
        }
    }
}

fn parse<T: for<'a> Deserialize<'a>>(line: Option<&str>) -> Option<Answer<T>> {
    serde_json::from_str(line?).ok()
}

/// Everything that a child writes, and how it ended; one that takes too long is ended.
fn wait(mut child: Child, patience: Duration) -> io::Result<(String, String)> {
    let begin = Instant::now();
    // Read meanwhile: a pipe does not hold a line of all places, where there are many.
    let out = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.map_or(Ok(0), |mut out| out.read_to_end(&mut bytes));
        read.map(|_| bytes)
    });
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break said(status);
        }
        if begin.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            break format!("did not come back in {} s", patience.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    };
    let bytes = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), ended))
}

fn said(status: ExitStatus) -> String {
    format!("ended: {status}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: &str = r#"{"opened":{"cuda":"13.0","num_gpus":1}}"#;
    const NVRTC: &str = r#"{"missing":"no NVRTC"}"#;

    fn missing<T>(reason: &str) -> Answer<T> {
        Answer::Missing(reason.into())
    }

    /// What is said of a child that ended at any point.
    #[test]
    fn a_library_that_ends_the_process_is_told_and_the_other_is_kept() {
        let driver = Answer::Opened(Driver { cuda: "13.0".into(), num_gpus: 1 });
        let whole = Opened::read(&format!("{DRIVER}\n{NVRTC}\n"), "ended: exit status: 0");
        assert_eq!(whole, Opened { driver: driver.clone(), nvrtc: missing("no NVRTC") });
        let half = Opened::read(&format!("{DRIVER}\n{{\"op"), "ended: signal: 11 (SIGSEGV)");
        let died = "the process that opened NVRTC ended: signal: 11 (SIGSEGV)";
        assert_eq!(half, Opened { driver, nvrtc: missing(died) });
        let none = Opened::read("", "ended: signal: 6 (SIGABRT)");
        let died = "the process that opened the driver ended: signal: 6 (SIGABRT)";
        let before = "the process that opened the driver before it ended: signal: 6 (SIGABRT)";
        assert_eq!(none, Opened { driver: missing(died), nvrtc: missing(before) });
    }

    #[cfg(unix)]
    #[test]
    fn a_child_that_crashes_or_hangs_is_waited_for_no_longer_than_that() {
        let shell = |script: &str, seconds| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped());
            wait(command.spawn().unwrap(), Duration::from_secs(seconds)).unwrap()
        };
        let (text, ended) = shell("echo one; kill -SEGV $$", 60);
        assert_eq!(text, "one\n");
        assert!(ended.starts_with("ended: signal: 11"), "{ended}");
        // More than a pipe holds, and no text.
        let (text, ended) = shell("head -c 1000000 /dev/zero; printf '\\377'", 60);
        assert_eq!((text.len(), &*ended), (1_000_003, "ended: exit status: 0"));
        let begin = Instant::now();
        let (_, ended) = shell("exec sleep 60", 1);
        assert_eq!(ended, "did not come back in 1 s");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
