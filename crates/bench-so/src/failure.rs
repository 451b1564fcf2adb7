//! What went wrong, as C is told.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};

use frazil_conformance::run::panic_text;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Why a function has not done what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was given means nothing, or does not fit.
    Misuse(String),
    /// No engine serves the case.
    Declined(String),
    /// Something broke.
    Fault(String),
}

impl Failure {
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        Self::Fault(format!("a panic: {}", panic_text(panic)))
    }

    /// Keeps the message for this thread and gives the status.
    pub(crate) fn keep(self) -> i32 {
        let (status, text) = match self {
            Self::Misuse(text) => (1, text),
            Self::Declined(text) => (2, text),
            Self::Fault(text) => (3, text),
        };
        // A zero byte would end the text for C.
        let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        MESSAGE.with(|message| message.replace(text));
        status
    }
}

/// The last message of this thread.
pub(crate) fn message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}
