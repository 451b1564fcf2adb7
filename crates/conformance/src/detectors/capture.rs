//! What happens inside a capture.

use frazil_core::{Executable, Launches, Stream};
use frazil_cuda::tools::{Capture, Graph, OwnedStream};
use frazil_cuda::{CaptureMode, GraphNode};

use super::Subject;
use super::finding::{Finding, Stop, not_built, not_executed};
use super::job::{Job, Prepared};
use super::results::Results;

pub(super) fn build_and_execute(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let situation = "in a capture in GLOBAL mode";
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(subject.cuda()?)?;
    let plan = (subject.plan)();
    let prepared = job.prepare()?;
    let capture = stream.capture(CaptureMode::Global)?;
    let mut findings = Vec::new();
    // Kept until the capture has ended: drops are another rule.
    let built = plan.build(subject.device).map_err(not_built(situation));
    let executed = match &built {
        Ok(executable) => {
            prepared.execute(executable, stream.stream()).map_err(not_executed(situation))
        }
        Err(_) => Ok(()),
    };
    let ended = end(capture, "build and execute");
    findings.extend(executed.err());
    match ended {
        Ok(graph) if findings.is_empty() && built.is_ok() => {
            let results = replayed(&graph, &stream, &job)?;
            findings.extend(subject.judge(0, &results, "when replayed").err());
        }
        Ok(_) => {}
        Err(finding) => findings.push(finding),
    }
    findings.extend(built.err());
    Ok(findings)
}

pub(super) fn dropped(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let device = subject.cuda()?;
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(device)?;
    let plan = (subject.plan)();
    let executable = plan.build(subject.device).map_err(not_built("outside of a capture"))?;
    let prepared = job.prepare()?;
    let capture = stream.capture(CaptureMode::Global)?;
    let executed = {
        // What execute does is another rule; this thread is exempt from the capture's meanwhile.
        let _exempt = device.relax_capture()?;
        prepared.execute(&executable, stream.stream())
    };
    drop(executable);
    drop(plan);
    let ended = end(capture, "dropping a plan and its executable");
    executed.map_err(not_executed("in a capture"))?;
    let results = replayed(&ended?, &stream, &job)?;
    let judged = subject.judge(0, &results, "when replayed after plan and executable were dropped");
    Ok(judged.err().into_iter().collect())
}

pub(super) fn launches(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(subject.cuda()?)?;
    let executable = subject.build("outside of a capture")?;
    let graph = captured(&executable, &job.prepare()?, &stream)?;
    let found: Vec<String> = graph.nodes()?.iter().map(name).collect();
    let (promised, are_all) = match executable.plan().launches() {
        Launches::Own(names) => (names, true),
        Launches::Foreign { setup } => (setup, false),
        other => unreachable!("{other:?}"),
    };
    let promised: Vec<String> = promised.iter().map(|name| name.clone().into_owned()).collect();
    let is_kernel = |node: &GraphNode| node.kernel.is_some();
    let as_promised = if are_all {
        found == promised
    } else {
        found.starts_with(&promised) && graph.nodes()?.iter().all(is_kernel)
    };
    let finding = Finding::Launches { found, promised };
    Ok(if as_promised { Vec::new() } else { vec![finding] })
}

/// The symbol of a kernel, the kind of another node.
fn name(node: &GraphNode) -> String {
    node.kernel.clone().unwrap_or_else(|| format!("{:?}", node.kind))
}

/// One call, captured so that only what waits for the capturing stream itself breaks it.
pub(super) fn captured(
    executable: &Executable,
    prepared: &Prepared<'_>,
    stream: &OwnedStream,
) -> Result<Graph, Stop> {
    let capture = stream.capture(CaptureMode::Relaxed)?;
    let executed = prepared.execute(executable, stream.stream());
    let ended = end(capture, "execute");
    executed.map_err(not_executed("in a capture"))?;
    Ok(ended?)
}

fn end(capture: Capture<'_>, situation: &'static str) -> Result<Graph, Finding> {
    let broken = |error: frazil_cuda::DriverError| Finding::BrokenCapture {
        situation,
        error: error.to_string(),
    };
    capture.end().map_err(broken)
}

/// What one replay leaves.
fn replayed(graph: &Graph, stream: &OwnedStream, job: &Job) -> Result<Results, Stop> {
    let exec = graph.instantiate()?;
    #[expect(unsafe_code, reason = "a graph is launched")]
    // SAFETY: the graph is calls over the memory of the job, which lives and is used by nothing
    // else.
    unsafe { exec.launch(stream) }?;
    stream.synchronize()?;
    job.results()
}

/// One call outside of a capture, done.
pub(super) fn eager(
    executable: &Executable,
    job: &mut Job,
    owner: &OwnedStream,
    stream: Stream,
) -> Result<Results, Stop> {
    job.prepare()?.execute(executable, stream).map_err(not_executed("outside of a capture"))?;
    owner.synchronize()?;
    job.results()
}
