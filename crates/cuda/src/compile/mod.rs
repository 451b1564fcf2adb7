//! From a kernel source and a config to an artifact.
//!
//! `arch` is what is compiled for · `gate` says beforehand whether that can be · `config_header`
//! writes a config as a header · `options` has every option · `key` names the result · `symbols` and
//! `resources` read it · `shared` lists what several engines use · `forbidden` is for tests.

mod arch;
mod config_header;
mod forbidden;
mod gate;
mod key;
mod options;
mod resources;
mod shared;
mod symbols;

use std::borrow::Cow;
use std::fmt;

use frazil_core::{Config, Error, Version};

pub use arch::Arch;
pub use forbidden::Forbidden;
pub use gate::gate;
pub use shared::shared_kernels;

use crate::nvrtc::{Build, Nvrtc, Text, Unit};
use crate::sources::{CONFIG_HEADER, Source};
use crate::{Artifact, ImageKind, Key};

/// One kernel to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its source, which holds this kernel alone.
    pub source: Source,
    /// Its symbol.
    pub symbol: Cow<'static, str>,
    /// What is compiled in.
    pub config: Config,
    /// What it is compiled for.
    pub arch: Arch,
    /// What is made: machine code for a driver, PTX for a simulator.
    pub kind: ImageKind,
}

impl Request {
    /// Options that an NVRTC of this version is given.
    pub fn options(&self, nvrtc: Version) -> Vec<String> {
        options::options(self.arch, self.kind, nvrtc)
    }
}

/// What makes artifacts: NVRTC, or what stands for it in tests.
pub trait Compiler: fmt::Debug + Send + Sync {
    /// Which compiler it is.
    fn build(&self) -> Build;

    /// Makes one kernel. Slow.
    ///
    /// # Errors
    ///
    /// [`Error::Compile`] with the options and the compiler's messages.
    fn compile(&self, request: &Request) -> Result<Artifact, Error>;
}

impl Compiler for Nvrtc {
    fn build(&self) -> Build {
        self.build()
    }

    fn compile(&self, request: &Request) -> Result<Artifact, Error> {
        let options = request.options(self.build().version);
        let fault = |log: String| Error::Compile {
            kernel: format!("{} in {}", request.symbol, request.source.path()),
            options: options.clone(),
            log,
        };
        let files = request.source.files().iter();
        let texts: Vec<String> = files.clone().map(|file| placed(&file.path, &file.text)).collect();
        let config = placed(CONFIG_HEADER, &config_header::config_header(&request.config));
        let mut units: Vec<Text<'_>> =
            files.zip(&texts).map(|(file, text)| Text { name: &file.path, text }).collect();
        let source = units.remove(0);
        units.push(Text { name: CONFIG_HEADER, text: &config });
        let unit = Unit { source, headers: &units, kind: request.kind, options: &options };
        let output = self.compile_unit(&unit).map_err(|error| fault(error.to_string()))?;
        let symbols =
            symbols::checked(&output.image, request.kind, &request.symbol).map_err(fault)?;
        let of_cubin = request.kind == ImageKind::Cubin;
        let resources = || resources::resources(&output.log, &request.symbol);
        Ok(Artifact {
            key: Key::of(request, self.build()),
            kind: request.kind,
            symbols,
            resources: of_cubin.then(resources).flatten(),
            compiler: self.build().version,
            image: output.image,
        })
    }
}

/// A text that says where it stands: `kernels/` under a root of its own. Else the compiler would
/// write the current folder into the lines of the image, and one key would name several images.
fn placed(path: &str, text: &str) -> String {
    format!("#line 1 \"/frazil/kernels/{path}\"\n{text}")
}
