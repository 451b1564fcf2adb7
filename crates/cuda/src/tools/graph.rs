//! Captured work.

use std::marker::PhantomData;

use super::OwnedStream;
use crate::{
    CaptureMode, CudaDevice, DriverCalls, DriverError, GraphExecHandle, GraphHandle, GraphNode,
};

/// A capture that goes on. It ends on the thread that began it; dropped, it is thrown away.
#[derive(Debug)]
#[must_use = "what is captured is lost unless the capture is ended"]
pub struct Capture<'s> {
    stream: &'s OwnedStream,
    has_ended: bool,
    on_this_thread: PhantomData<*const ()>,
}

impl<'s> Capture<'s> {
    pub(super) fn begin(stream: &'s OwnedStream, mode: CaptureMode) -> Result<Self, DriverError> {
        let device = stream.device();
        let _current = device.make_current()?;
        // SAFETY: an owned stream lives.
        unsafe { device.driver().stream_begin_capture(stream.raw(), mode) }?;
        Ok(Self { stream, has_ended: false, on_this_thread: PhantomData })
    }

    /// The work that was queued.
    ///
    /// # Errors
    ///
    /// [`DriverError`] where something forbidden has broken the capture.
    pub fn end(mut self) -> Result<Graph, DriverError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Graph, DriverError> {
        self.has_ended = true;
        let device = self.stream.device();
        let _current = device.make_current()?;
        // SAFETY: an owned stream lives.
        let handle = unsafe { device.driver().stream_end_capture(self.stream.raw()) }?;
        Ok(Graph { device: device.clone(), handle })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // A capture that was broken has ended as well.
            let _ = self.finish();
        }
    }
}

/// Work that was captured.
#[derive(Debug)]
pub struct Graph {
    device: CudaDevice,
    handle: GraphHandle,
}

impl Graph {
    /// What it consists of, each node after those it depends on.
    ///
    /// # Errors
    ///
    /// [`DriverError`], as from a driver before CUDA 12.3, which cannot name kernels.
    pub fn nodes(&self) -> Result<Vec<GraphNode>, DriverError> {
        // SAFETY: the graph lives.
        unsafe { self.device.driver().graph_get_nodes(self.handle) }
    }

    /// The graph made ready to be launched, any number of times.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    pub fn instantiate(&self) -> Result<GraphExec, DriverError> {
        let _current = self.device.make_current()?;
        let _relaxed = self.device.relax_capture()?;
        // SAFETY: the graph lives.
        let handle = unsafe { self.device.driver().graph_instantiate(self.handle) }?;
        Ok(GraphExec { device: self.device.clone(), handle })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the graph is this value's; what was made ready of it stands by itself.
        let _ = unsafe { self.device.driver().graph_destroy(self.handle) };
    }
}

/// Captured work, ready to be launched.
#[derive(Debug)]
pub struct GraphExec {
    device: CudaDevice,
    handle: GraphExecHandle,
}

impl GraphExec {
    /// Queues all of it.
    ///
    /// # Errors
    ///
    /// [`DriverError`] of the call that failed.
    ///
    /// # Safety
    ///
    /// Memory that the captured work uses is still what it was at the capture, until the work is
    /// done; nothing else writes it meanwhile, or reads what the work writes.
    pub unsafe fn launch(&self, stream: &OwnedStream) -> Result<(), DriverError> {
        let _current = self.device.make_current()?;
        // SAFETY: both live; the rest is the caller's promise.
        unsafe { self.device.driver().graph_launch(self.handle, stream.raw()) }
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // A launch may still run; where it cannot be waited for, the handle is left.
        if let Ok(_settled) = self.device.settle() {
            // SAFETY: the handle is this value's, and launches are queued on streams made here, all
            // of whose work is done.
            let _ = unsafe { self.device.driver().graph_exec_destroy(self.handle) };
        }
    }
}
