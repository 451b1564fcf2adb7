//! How captures begin, end and break, and what events are to them.

use std::sync::Arc;

use frazil_cuda::{CaptureMode, CaptureStatus, Driver, DriverCalls};

use super::{Differences, call, code, elsewhere};

/// `cuStreamBeginCapture`, `cuStreamEndCapture`, `cuStreamIsCapturing`.
pub(crate) fn captures(driver: &Arc<Driver>) {
    let mut differences = Differences::default();
    let stream = driver.stream_create().unwrap();
    let memory = driver.mem_alloc(64).unwrap();
    let fill = || call!(driver, memset_d8_async(memory, 0, 64, stream));
    let status = || call!(driver, stream_is_capturing(stream)).unwrap();
    let begin = |mode| call!(driver, stream_begin_capture(stream, mode));
    let end = || {
        let graph = call!(driver, stream_end_capture(stream));
        graph.and_then(|graph| call!(driver, graph_destroy(graph)))
    };

    differences.compare("a stream at first", status(), CaptureStatus::None);
    differences.compare("the end of no capture", code(end()), 401);
    for sentinel in [0, 1] {
        let begun = call!(driver, stream_begin_capture(sentinel, CaptureMode::Relaxed));
        differences.compare("a capture of the legacy stream", code(begun), 900);
    }

    // A capture that is not relaxed ends on its thread alone, and is lost by a try elsewhere
    // (measured: the documentation does not say what becomes of it).
    for (mode, foreign) in
        [(CaptureMode::Global, 908), (CaptureMode::ThreadLocal, 908), (CaptureMode::Relaxed, 0)]
    {
        begin(mode).unwrap();
        differences.compare("a stream that is captured", status(), CaptureStatus::Active);
        let what = format!("the end of a {mode:?} capture on another thread");
        differences.compare(&what, code(elsewhere(driver, end)), foreign);
        differences.compare("its end on its own thread then", code(end()), 401);
        differences.compare("the stream then", status(), CaptureStatus::None);
    }

    // What is recorded has not run.
    call!(driver, memset_d8_async(memory, 9, 64, stream)).unwrap();
    call!(driver, stream_synchronize(stream)).unwrap();
    begin(CaptureMode::Global).unwrap();
    fill().unwrap();
    end().unwrap();
    let mut byte = [0];
    call!(driver, copy_to_host(&mut byte, memory, stream)).unwrap();
    differences.compare("memory that a captured fill names", byte, [9]);

    // A broken capture gives errors until it is ended, and none after.
    begin(CaptureMode::Global).unwrap();
    let wait = call!(driver, stream_synchronize(stream));
    differences.compare("a wait for the capturing stream", code(wait), 900);
    differences.compare("the stream then", status(), CaptureStatus::Invalidated);
    differences.compare("work on it", code(fill()), 901);
    let wait = call!(driver, stream_synchronize(stream));
    differences.compare("a second wait for it", code(wait), 900);
    differences.compare("its end", code(end()), 901);
    differences.compare("the stream after the end", status(), CaptureStatus::None);
    differences.compare("work on it after the end", code(fill()), 0);

    // Two captures of one thread: what breaks one breaks the other where it forbids it too.
    let second = driver.stream_create().unwrap();
    begin(CaptureMode::Relaxed).unwrap();
    call!(driver, stream_begin_capture(second, CaptureMode::ThreadLocal)).unwrap();
    differences.compare("an allocation under two captures", code(driver.mem_alloc(64)), 900);
    differences.compare("the relaxed one", status(), CaptureStatus::Active);
    let other = call!(driver, stream_is_capturing(second)).unwrap();
    differences.compare("the other", other, CaptureStatus::Invalidated);
    differences.compare("end of the other", code(call!(driver, stream_end_capture(second))), 901);
    differences.compare("end of the relaxed one", code(end()), 0);

    call!(driver, stream_synchronize(stream)).unwrap();
    call!(driver, mem_free(memory)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    call!(driver, stream_destroy(second)).unwrap();
    differences.assert_none();
}

/// `cuEventElapsedTime`, `cuEventSynchronize`, `CUDA_ERROR_CAPTURED_EVENT`.
pub(crate) fn events(driver: &Arc<Driver>) {
    let mut differences = Differences::default();
    let stream = driver.stream_create().unwrap();
    let [start, end] = [(); 2].map(|()| driver.event_create().unwrap());
    let elapsed = || call!(driver, event_elapsed_time(start, end));

    let wait = call!(driver, event_synchronize(start));
    differences.compare("a wait for an event that was never recorded", code(wait), 0);
    differences.compare("time to events never recorded", code(elapsed()), 400);
    call!(driver, event_record(start, stream)).unwrap();
    differences.compare("time to an event never recorded", code(elapsed()), 400);
    call!(driver, event_record(end, stream)).unwrap();
    call!(driver, event_synchronize(end)).unwrap();
    differences.compare("time is not negative", elapsed().unwrap() >= 0.0, true);

    call!(driver, stream_begin_capture(stream, CaptureMode::Relaxed)).unwrap();
    call!(driver, event_record(end, stream)).unwrap();
    let wait = call!(driver, event_synchronize(end));
    differences.compare("a wait for a captured event", code(wait), 907);
    differences.compare("time to a captured event", code(elapsed()), 1);
    let graph = call!(driver, stream_end_capture(stream));
    differences.compare("the capture then", code(graph), 901);
    // Recorded anew, it is an event like any other.
    call!(driver, event_record(end, stream)).unwrap();
    differences.compare("a wait for it", code(call!(driver, event_synchronize(end))), 0);

    call!(driver, event_destroy(start)).unwrap();
    call!(driver, event_destroy(end)).unwrap();
    call!(driver, stream_destroy(stream)).unwrap();
    differences.assert_none();
}
