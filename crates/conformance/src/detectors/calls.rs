//! What a call does beside its launches.

use std::hint::black_box;

use frazil_core::{DeviceId, Error, Executable, Launches, Stream};
use frazil_cuda::tools::OwnedStream;
use frazil_cuda::{CudaDevice, Driver, DriverCalls};

use super::Subject;
use super::capture::captured;
use super::finding::{Blind, Finding, Stop, not_executed};
use super::job::Prepared;
use super::results::first_difference;
use crate::alloc::count_allocations;
#[cfg(target_os = "linux")]
use crate::counting_driver::{CallCounts, CountingDriver};

/// The function that launches a kernel, as often as the plan promised kernels.
pub const LAUNCH: &str = "cuLaunchKernelEx";

/// Functions that a call may use beside [`LAUNCH`]: they look at the context and the stream, and
/// make the context current; pushes and pops are as many.
pub const BESIDE_LAUNCHES: [&str; 4] =
    ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuStreamGetCtx"];

/// Calls over which allocations and driver calls are counted: fewer than a stream queues without
/// waiting.
const COUNTED: u32 = 100;

pub(super) fn host_allocations(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    if matches!(subject.device.id(), DeviceId::Simulated(_)) {
        return Err(Blind::Simulated.into());
    }
    let ((), seen) = count_allocations(|| drop(black_box(Box::new(0_u8))));
    if seen == 0 {
        return Err(Blind::NoCountingAllocator.into());
    }
    let (executed, allocations) = counted(subject, |work| count_allocations(work))?;
    executed?;
    let calls = COUNTED as usize;
    let finding = Finding::HostAllocations { allocations, calls };
    Ok(if allocations == 0 { Vec::new() } else { vec![finding] })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn driver_calls(_: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    Err(Blind::NoCountingDriver.into())
}

#[cfg(target_os = "linux")]
pub(super) fn driver_calls(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    if matches!(subject.device.id(), DeviceId::Simulated(_)) {
        return Err(Blind::Simulated.into());
    }
    let driver = CountingDriver::attached().ok_or(Blind::NoCountingDriver)?;
    let (executed, made) = counted(subject, |work| driver.during(work))?;
    executed?;
    Ok(judge_calls(&made, (subject.plan)().launches()))
}

/// Driver calls of [`COUNTED`] calls of a plan against what may be.
#[cfg(target_os = "linux")]
fn judge_calls(made: &CallCounts, launches: &Launches) -> Vec<Finding> {
    let calls = u64::from(COUNTED);
    let finding = |function: &str, found, may_be| {
        let function = function.to_owned();
        Finding::DriverCalls { function, found, may_be, calls }
    };
    let mut findings = Vec::new();
    let mut allowed = BESIDE_LAUNCHES.to_vec();
    // What a foreign library launches, it launches in its own way.
    if let Launches::Own(names) = launches {
        let (found, may_be) = (made.of(LAUNCH), calls * names.len() as u64);
        if found != may_be {
            findings.push(finding(LAUNCH, found, may_be));
        }
    }
    allowed.push(LAUNCH);
    let (pushed, popped) = (made.of("cuCtxPushCurrent"), made.of("cuCtxPopCurrent"));
    if pushed != popped {
        findings.push(finding("cuCtxPushCurrent", pushed, popped));
    }
    let others = made.outside(&allowed);
    findings.extend(others.by_name().iter().map(|(name, found)| finding(name, *found, 0)));
    findings
}

/// Some calls of an executable that was called before, under a counter.
fn counted<C>(
    subject: &Subject<'_>,
    count: impl FnOnce(&mut dyn FnMut() -> Result<(), Error>) -> (Result<(), Error>, C),
) -> Result<(Result<(), Stop>, C), Stop> {
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(subject.cuda()?)?;
    let executable = subject.build("outside of a capture")?;
    let prepared = job.prepare()?;
    let once = || prepared.execute(&executable, stream.stream());
    once().map_err(not_executed("outside of a capture"))?;
    stream.synchronize()?;
    let (executed, counts) = count(&mut || (0..COUNTED).try_for_each(|_| once()));
    stream.synchronize()?;
    let executed = executed.map_err(|error| not_executed("outside of a capture")(error).into());
    Ok((executed, counts))
}

/// Streams that every context has: the legacy stream, twice, and the thread's own.
const SENTINELS: [(u64, &str); 3] =
    [(0, "on the default stream"), (1, "on the legacy stream"), (2, "on the thread's own stream")];

pub(super) fn streams(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let device = subject.cuda()?;
    let mut job = subject.job(0)?;
    let stream = OwnedStream::new(device)?;
    let executable = subject.build("outside of a capture")?;
    let before = job.image()?;
    let _graph = captured(&executable, &job.prepare()?, &stream)?;
    synchronize(device)?;
    let mut findings = Vec::new();
    for ((memory, before), (_, after)) in before.into_iter().zip(job.image()?) {
        if let Some(offset) = first_difference(&before, &after) {
            findings.push(Finding::ForeignWork { memory, offset });
        }
    }
    for (raw, situation) in SENTINELS {
        job.fill_workspace([0; 2])?;
        job.poison_outputs()?;
        #[expect(unsafe_code, reason = "a stream is named")]
        // SAFETY: every context has these streams.
        let stream = unsafe { Stream::from_raw(raw) };
        job.prepare()?.execute(&executable, stream).map_err(not_executed(situation))?;
        synchronize(device)?;
        findings.extend(subject.judge(0, &job.results()?, situation).err());
    }
    Ok(findings)
}

/// Waits for all work of the device, on whichever stream.
fn synchronize(device: &CudaDevice) -> Result<(), Stop> {
    let _current = device.make_current()?;
    Ok(device.driver().ctx_synchronize()?)
}

pub(super) fn context(subject: &Subject<'_>) -> Result<Vec<Finding>, Stop> {
    let device = subject.cuda()?;
    let (driver, own) = (device.driver(), device.context()?);
    let stream = OwnedStream::new(device)?;
    let mut job = subject.job(0)?;
    let prepared = job.prepare()?;
    let mut findings = Vec::new();
    // On a thread that has no context, and on one that has the device's already.
    for is_pushed in [false, true] {
        if is_pushed {
            #[expect(unsafe_code, reason = "a context is made current")]
            // SAFETY: a device's context lives as long as the process.
            unsafe { driver.ctx_push_current(own) }?;
        }
        let looked = stages(subject, driver, &prepared, stream.stream());
        if is_pushed {
            driver.ctx_pop_current()?;
        }
        // Below what was current, there was nothing.
        let found = current(driver)?;
        if looked.as_ref().is_ok_and(Vec::is_empty) && found.is_some() {
            findings.push(Finding::Context { after: "everything", before: None, found });
        }
        while driver.ctx_get_current()?.is_some() {
            driver.ctx_pop_current()?;
        }
        findings.extend(looked?);
    }
    stream.synchronize()?;
    Ok(findings)
}

/// The context after each stage of a plan's life against that before all.
fn stages(
    subject: &Subject<'_>,
    driver: &Driver,
    prepared: &Prepared<'_>,
    stream: Stream,
) -> Result<Vec<Finding>, Stop> {
    let before = current(driver)?;
    let mut findings = Vec::new();
    let mut look = |after| -> Result<(), Stop> {
        let found = current(driver)?;
        if found != before {
            findings.push(Finding::Context { after, before, found });
        }
        Ok(())
    };
    let executable: Executable = subject.build("outside of a capture")?;
    look("build")?;
    prepared.execute(&executable, stream).map_err(not_executed("outside of a capture"))?;
    look("execute")?;
    drop(executable);
    look("drop")?;
    Ok(findings)
}

fn current(driver: &Driver) -> Result<Option<u64>, Stop> {
    Ok(driver.ctx_get_current()?.map(|context| context.raw()))
}
