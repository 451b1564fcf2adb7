//! Where an instruction stands, in PTX and in CUDA C++.

use std::fmt;

/// A line of CUDA C++, from the line information of the PTX.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The file, as the compiler was told its name.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// Where an instruction stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The opcode with its modifiers.
    pub instruction: String,
    /// Line of the PTX text, from 1.
    pub ptx_line: u32,
    /// Line of the source, where the PTX was compiled with line information.
    pub source: Option<SourceLine>,
    /// Where the function of `source` was called, if it was inlined.
    pub inlined_at: Option<SourceLine>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at PTX line {}", self.instruction, self.ptx_line)?;
        if let Some(source) = &self.source {
            write!(f, ", {source}")?;
        }
        if let Some(caller) = &self.inlined_at {
            write!(f, ", inlined at {caller}")?;
        }
        Ok(())
    }
}

/// `.loc`, with the index of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Location {
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) inlined_at: Option<(u32, u32)>,
}

/// Places of all instructions, by their index.
#[derive(Debug, Default)]
pub(crate) struct PlaceTable {
    files: Vec<(u32, String)>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    instruction: String,
    ptx_line: u32,
    location: Option<Location>,
}

impl PlaceTable {
    pub(crate) fn new(files: &[(u32, &str)]) -> Self {
        let files = files.iter().map(|(index, path)| (*index, (*path).to_owned())).collect();
        Self { files, entries: Vec::new() }
    }

    pub(crate) fn push(&mut self, opcode: &str, ptx_line: u32, location: Option<Location>) {
        self.entries.push(Entry { instruction: opcode.to_owned(), ptx_line, location });
    }

    pub(crate) fn place(&self, pc: u32) -> Place {
        let entry = &self.entries[pc as usize];
        Place {
            instruction: entry.instruction.clone(),
            ptx_line: entry.ptx_line,
            source: entry.location.and_then(|at| self.line(at.file, at.line)),
            inlined_at: entry
                .location
                .and_then(|at| at.inlined_at)
                .and_then(|(file, line)| self.line(file, line)),
        }
    }

    fn line(&self, file: u32, line: u32) -> Option<SourceLine> {
        // Line 0 is code that no line of the source stands for.
        let (_, path) = self.files.iter().find(|(index, _)| *index == file && line > 0)?;
        Some(SourceLine { file: path.clone(), line })
    }
}
