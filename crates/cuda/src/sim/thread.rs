//! What the driver keeps for each thread: the stack of contexts and the mode towards captures.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use super::code::{Code, Outcome};
use crate::{CaptureMode, ContextHandle};

/// States of all threads that differ from that of a new one.
#[derive(Debug, Default)]
pub(super) struct Threads(HashMap<ThreadId, Thread>);

#[derive(Debug)]
struct Thread {
    /// The last one is current.
    contexts: Vec<ContextHandle>,
    mode: CaptureMode,
}

impl Default for Thread {
    fn default() -> Self {
        Self { contexts: Vec::new(), mode: CaptureMode::Global }
    }
}

impl Threads {
    /// The calling thread's context.
    pub(super) fn current(&self) -> Option<ContextHandle> {
        self.0.get(&thread::current().id())?.contexts.last().copied()
    }

    pub(super) fn push(&mut self, context: ContextHandle) {
        self.0.entry(thread::current().id()).or_default().contexts.push(context);
    }

    pub(super) fn pop(&mut self) -> Outcome<()> {
        let id = thread::current().id();
        let popped = self.0.get_mut(&id).and_then(|thread| thread.contexts.pop());
        self.forget_if_new(id);
        popped.map(drop).ok_or(Code::INVALID_CONTEXT)
    }

    /// The calling thread's mode.
    pub(super) fn mode(&self) -> CaptureMode {
        self.0.get(&thread::current().id()).map_or(CaptureMode::Global, |thread| thread.mode)
    }

    pub(super) fn exchange_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let id = thread::current().id();
        let before = std::mem::replace(&mut self.0.entry(id).or_default().mode, mode);
        self.forget_if_new(id);
        before
    }

    /// A thread in the state of a new one is not kept, so that threads may come and go.
    fn forget_if_new(&mut self, id: ThreadId) {
        let is_new =
            |thread: &Thread| thread.contexts.is_empty() && thread.mode == CaptureMode::Global;
        if self.0.get(&id).is_some_and(is_new) {
            self.0.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_gives_back_what_was_current_before() {
        let mut threads = Threads::default();
        let [outer, inner] = [1, 2].map(|raw| ContextHandle::from_raw(raw).unwrap());
        assert_eq!(threads.pop(), Err(Code::INVALID_CONTEXT));
        threads.push(outer);
        threads.push(inner);
        assert_eq!(threads.current(), Some(inner));
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(threads.current(), None, "a stack is one thread's"));
        });
        assert_eq!(threads.pop(), Ok(()));
        assert_eq!(threads.current(), Some(outer));
        assert_eq!(threads.pop(), Ok(()));
        assert!(threads.0.is_empty(), "a thread that left nothing is not kept");
    }

    #[test]
    fn a_mode_is_one_threads_and_starts_as_global() {
        let mut threads = Threads::default();
        assert_eq!(threads.exchange_mode(CaptureMode::Relaxed), CaptureMode::Global);
        assert_eq!(threads.mode(), CaptureMode::Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(threads.mode(), CaptureMode::Global));
        });
        assert_eq!(threads.exchange_mode(CaptureMode::Global), CaptureMode::Relaxed);
        assert!(threads.0.is_empty());
    }
}
