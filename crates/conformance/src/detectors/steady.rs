//! Whether the same call gives the same bits, whatever is around it.

use std::sync::Barrier;
use std::thread;

use frazil_core::Executable;
use frazil_cuda::tools::OwnedStream;

use super::Subject;
use super::capture::{captured, eager};
use super::finding::{Finding, Stop};
use super::job::Job;
use super::results::Results;
use crate::image::{DEAD, GUARD, POISON};

/// Rounds of a replay; samples take turns.
const REPLAYS: usize = 4;

pub(super) fn replay(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(subject.cuda()?)?;
    let executable = subject.build("outside of a capture")?;
    let exec = captured(&executable, &job.prepare()?, &stream)?.instantiate()?;
    let mut findings = Vec::new();
    for round in 1..=REPLAYS {
        let sample = round % 2;
        job.write_inputs(&subject.samples[sample])?;
        job.poison_outputs()?;
        #[expect(unsafe_code, reason = "a graph is launched")]
        // SAFETY: the graph is one call over the memory of the job, which lives and is used by
        // nothing else.
        unsafe { exec.launch(&stream) }?;
        stream.synchronize()?;
        let replayed = job.results()?;
        job.poison_outputs()?;
        let fresh = eager(&executable, &mut job, &stream, stream.stream())?;
        findings.extend(unequal(&fresh, &replayed, "when replayed and when called"));
        findings.extend(subject.judge(sample, &fresh, "when called").err());
        findings.extend(subject.judge(sample, &replayed, "when replayed").err());
        if !findings.is_empty() {
            break;
        }
    }
    Ok(findings)
}

fn unequal(a: &Results, b: &Results, situation: &'static str) -> Option<Finding> {
    a.difference(b).map(|place| Finding::Unequal { situation, place })
}

pub(super) fn threads(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let device = subject.cuda()?;
    let executable = subject.build("outside of a capture")?;
    let barrier = Barrier::new(subject.samples.len());
    let mut workers = Vec::new();
    for sample in 0..subject.samples.len() {
        workers.push((sample, subject.job(sample)?, OwnedStream::new(device)?));
    }
    let (executable, barrier) = (&executable, &barrier);
    // The memory of both lives until both are done, as in `guards`.
    let found = thread::scope(|scope| {
        let threads = workers.iter_mut().map(|(sample, job, stream)| {
            scope.spawn(|| {
                barrier.wait();
                let situation = "while another thread calls the same executable";
                let repeats = subject.effort.thread_repeats;
                same_bits(subject, executable, job, stream, (*sample, repeats, situation))
            })
        });
        let threads: Vec<_> = threads.collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    let mut findings = Vec::new();
    for found in found {
        findings.extend(found?);
    }
    Ok(findings)
}

pub(super) fn repeats(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(subject.cuda()?)?;
    let executable = subject.build("outside of a capture")?;
    let how = (0, subject.effort.repeats, "when called again");
    Ok(same_bits(subject, &executable, &mut job, &stream, how)?.into_iter().collect())
}

/// Calls again and again over what the call before has left; the first that differs, or is wrong.
fn same_bits(
    subject: &Subject<'_>,
    executable: &Executable,
    job: &mut Job,
    stream: &OwnedStream,
    (sample, repeats, situation): (usize, u32, &'static str),
) -> Result<Option<Finding>, Stop> {
    let first = eager(executable, job, stream, stream.stream())?;
    if let Err(wrong) = subject.judge(sample, &first, situation) {
        return Ok(Some(wrong));
    }
    for _ in 1..repeats {
        let again = eager(executable, job, stream, stream.stream())?;
        let finding = unequal(&first, &again, situation);
        if finding.is_some() {
            return Ok(finding);
        }
    }
    Ok(None)
}

/// What a workspace holds before a call: zeros and ones, NaNs of every float type, numbers far
/// outside of everything, numbers that look right.
const CONTENTS: [[u8; 2]; 7] = [[0; 2], [0xff; 2], [1, 0], [0, 0x80], DEAD, GUARD, POISON];

pub(super) fn poison(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(subject.cuda()?)?;
    let executable = subject.build("outside of a capture")?;
    let mut first: Option<Results> = None;
    let mut findings = Vec::new();
    for content in CONTENTS {
        job.fill_workspace(content)?;
        job.poison_outputs()?;
        let results = eager(&executable, &mut job, &stream, stream.stream())?;
        let situation = "after another content of the workspace";
        findings.extend(subject.judge(0, &results, situation).err());
        let first = first.get_or_insert_with(|| results.clone());
        findings.extend(unequal(first, &results, situation));
    }
    Ok(findings)
}

pub(super) fn guards(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let stream = OwnedStream::new(subject.cuda()?)?;
    let executable = subject.build("outside of a capture")?;
    let mut findings = Vec::new();
    // The memory of all calls lives until the last one is done: an engine that keeps an address of
    // the first reads what it should not, and not what is freed.
    let jobs = (0..subject.samples.len()).map(|at| subject.job(at));
    let mut jobs = jobs.collect::<Result<Vec<_>, Stop>>()?;
    for (job, sample) in jobs.iter_mut().zip(&subject.samples) {
        eager(&executable, job, &stream, stream.stream())?;
        findings.extend(job.written(sample)?);
    }
    Ok(findings)
}
