//! A compiler that makes nothing.

use frazil_core::Error;

use super::{Compiler, Request};
use crate::Artifact;
use crate::nvrtc::Build;

/// Stands for a compiler where nothing may be compiled: for tests that show that something was
/// compiled before. It has the names of what that one would make.
#[derive(Clone, Copy, Debug)]
pub struct Forbidden(pub Build);

impl Compiler for Forbidden {
    fn build(&self) -> Build {
        self.0
    }

    fn compile(&self, request: &Request) -> Result<Artifact, Error> {
        Err(Error::Compile {
            kernel: request.symbol.to_string(),
            options: request.options(self.0.version),
            log: "compiling is forbidden here".into(),
        })
    }
}
