//! What a shared library exports, read from its file.

use std::ffi::{CStr, CString};
use std::ops::Range;

/// Names of the functions that a 64-bit little-endian ELF file exports, sorted; none where it is no
/// such file, or is cut short.
///
/// Source: System V ABI, chapters 4 ("Sections", "Symbol Table"), with the layouts of ELF-64.
pub(crate) fn exported_functions(file: &[u8]) -> Option<Vec<CString>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry_bytes, count) =
        (field(file, 40..48)?, field(file, 58..60)?, field(file, 60..62)?);
    let sections: Option<Vec<Section<'_>>> = (0..count)
        .map(|at| Section::read(file, at.checked_mul(entry_bytes)?.checked_add(table)?))
        .collect();
    let sections = sections?;
    let symbols = sections.iter().find(|section| section.kind == Section::DYNAMIC_SYMBOLS)?;
    let names = sections.get(symbols.link)?.bytes;
    let mut functions = Vec::new();
    for symbol in symbols.bytes.chunks_exact(24) {
        let is_function = symbol[4] & 0xf == 2;
        let is_defined = field(symbol, 6..8)? != 0;
        if is_function && is_defined {
            let name = names.get(field(symbol, 0..4)?..)?;
            functions.push(CStr::from_bytes_until_nul(name).ok()?.to_owned());
        }
    }
    functions.sort();
    Some(functions)
}

struct Section<'a> {
    kind: usize,
    link: usize,
    bytes: &'a [u8],
}

impl<'a> Section<'a> {
    const DYNAMIC_SYMBOLS: usize = 11;
    const WITHOUT_BYTES: usize = 8;

    /// The section whose header is at an offset of the file.
    fn read(file: &'a [u8], at: usize) -> Option<Self> {
        let header = file.get(at..at.checked_add(64)?)?;
        let kind = field(header, 4..8)?;
        let (offset, len) = (field(header, 24..32)?, field(header, 32..40)?);
        let bytes = match kind {
            Self::WITHOUT_BYTES => &[],
            _ => file.get(offset..offset.checked_add(len)?)?,
        };
        Some(Self { kind, link: field(header, 40..44)?, bytes })
    }
}

/// An unsigned number of up to 8 bytes.
fn field(bytes: &[u8], range: Range<usize>) -> Option<usize> {
    let number =
        bytes.get(range)?.iter().rev().fold(0_u64, |high, low| high << 8 | u64::from(*low));
    number.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library that every one of our tests is linked with.
    fn libc() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let path = path.into_iter().find(|path| path.contains("libc.so") || path.contains("libc-"));
        std::fs::read(path.unwrap()).unwrap()
    }

    #[test]
    fn functions_of_a_library_are_found() {
        let functions = exported_functions(&libc()).unwrap();
        for name in [c"getenv", c"strlen", c"qsort"] {
            // `strlen` is chosen at run time and of another kind than a function.
            let expected = name != c"strlen";
            assert_eq!(functions.iter().any(|found| **found == *name), expected, "{name:?}");
        }
    }

    #[test]
    fn no_cut_of_a_library_panics() {
        let file = libc();
        for len in (0..200).chain((200..file.len()).step_by(file.len() / 97)) {
            assert_eq!(exported_functions(&file[..len]), None, "{len}");
        }
    }
}
