//! One program: a source, its headers, and what compiling makes of them.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use super::table::{Code, RawProgram, Table};
use crate::ImageKind;

/// A text with the name under which it is included, or told of in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The text.
    pub(crate) text: &'a str,
}

/// What is compiled. Headers are given whole: nothing is read from a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// The source.
    pub(crate) source: Text<'a>,
    /// What it may include.
    pub(crate) headers: &'a [Text<'a>],
    /// What is made of it.
    pub(crate) kind: ImageKind,
    /// Options of NVRTC.
    pub(crate) options: &'a [String],
}

/// What NVRTC made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// A cubin, or PTX that ends in a zero byte.
    pub(crate) image: Vec<u8>,
    /// Warnings, and what options asked the compiler to say.
    pub(crate) log: String,
}

/// A source that NVRTC refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {name}\n{log}")]
pub struct NvrtcError {
    /// The function that failed.
    pub call: &'static str,
    /// Name of its code.
    pub name: String,
    /// The compiler's messages; empty where it came to none.
    pub log: String,
}

/// A live program, destroyed when dropped.
struct Program<'a> {
    table: &'a Table,
    raw: RawProgram,
}

/// Compiles one unit.
pub(super) fn compile(table: &Table, unit: &Unit<'_>) -> Result<Output, NvrtcError> {
    let program = Program::new(table, unit)?;
    let options =
        unit.options.iter().map(|option| c_text(option)).collect::<Result<Vec<_>, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let count = c_count(options.len())?;
    // SAFETY: the program is live, and `count` options are texts that end in a zero.
    let code = unsafe { (table.compile_program)(program.raw, count, options.as_ptr()) };
    let log = program.log();
    check(table, "nvrtcCompileProgram", code)
        .map_err(|error| NvrtcError { log: log.clone(), ..error })?;
    Ok(Output { image: program.image(unit.kind)?, log })
}

impl<'a> Program<'a> {
    fn new(table: &'a Table, unit: &Unit<'_>) -> Result<Self, NvrtcError> {
        let text = c_text(unit.source.text)?;
        let name = c_text(unit.source.name)?;
        let headers = unit.headers.iter();
        let texts =
            headers.clone().map(|header| c_text(header.text)).collect::<Result<Vec<_>, _>>()?;
        let names = headers.map(|header| c_text(header.name)).collect::<Result<Vec<_>, _>>()?;
        let pointers =
            |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (texts, names) = (pointers(&texts), pointers(&names));
        let count = c_count(names.len())?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is written to; all texts end in a zero and are copied by the call, and both
        // lists hold `count` of them.
        let code = unsafe {
            (table.create_program)(
                &raw mut raw,
                text.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        check(table, "nvrtcCreateProgram", code)?;
        Ok(Self { table, raw })
    }

    /// The compiler's messages; empty where it will not say.
    fn log(&self) -> String {
        let bytes = self.read("nvrtcGetProgramLog", self.table.log_size, self.table.log);
        let mut bytes = bytes.unwrap_or_default();
        bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }

    fn image(&self, kind: ImageKind) -> Result<Vec<u8>, NvrtcError> {
        match kind {
            ImageKind::Cubin => self.read("nvrtcGetCUBIN", self.table.cubin_size, self.table.cubin),
            ImageKind::Ptx => self.read("nvrtcGetPTX", self.table.ptx_size, self.table.ptx),
        }
    }

    /// Reads one of its results.
    fn read(
        &self,
        call: &'static str,
        size_of: unsafe extern "C" fn(RawProgram, *mut usize) -> Code,
        copy: unsafe extern "C" fn(RawProgram, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is live, and the size is written to.
        check(self.table, call, unsafe { size_of(self.raw, &raw mut size) })?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: the program is live, and as many bytes as it asked for are there to be written.
        check(self.table, call, unsafe { copy(self.raw, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is live, and nothing uses it after. A failure has no cure.
        let _ = unsafe { (self.table.destroy_program)(&raw mut self.raw) };
    }
}

/// The name of a code, where it is not success.
pub(super) fn check(table: &Table, call: &'static str, code: Code) -> Result<(), NvrtcError> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: any code is taken.
    let name = unsafe { (table.error_string)(code) };
    let name = if name.is_null() {
        format!("code {code}")
    } else {
        // SAFETY: the library's names are static and end in a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    Err(NvrtcError { call, name, log: String::new() })
}

fn c_text(text: &str) -> Result<CString, NvrtcError> {
    CString::new(text).map_err(|error| refused(format!("a text with a zero byte: {error}")))
}

fn c_count(count: usize) -> Result<c_int, NvrtcError> {
    c_int::try_from(count).map_err(|error| refused(format!("{count} texts: {error}")))
}

/// What is refused before the library is asked.
fn refused(name: String) -> NvrtcError {
    NvrtcError { call: "nvrtcCreateProgram", name, log: String::new() }
}
