//! Names inside functions. A block has names of its own, which hide those outside.

use std::collections::HashMap;

use crate::program::{PredicateRegister, Register};
use crate::types::ScalarType;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Register(Register, ScalarType),
    Predicate(PredicateRegister),
    /// A variable of the module's list.
    Variable(usize),
    /// A byte of the frame: a local variable.
    Local {
        offset: u32,
    },
    /// A byte of the frame: a parameter of a function, or of a call.
    FrameParam {
        offset: u32,
        bytes: u32,
    },
    /// A byte of the kernel's parameters.
    EntryParam {
        offset: u32,
    },
    Function(usize),
}

/// `count` registers from `first` on, named by a prefix and a number.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    count: u32,
    element: ScalarType,
}

#[derive(Debug, Default)]
struct Block<'a> {
    symbols: HashMap<&'a str, Symbol>,
    ranges: HashMap<&'a str, Range>,
    labels: HashMap<&'a str, u32>,
    targets: HashMap<&'a str, Vec<&'a str>>,
    parent: Option<usize>,
}

/// All blocks of one function, kept after they end because branches are resolved last.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    blocks: Vec<Block<'a>>,
    current: usize,
}

impl<'a> Scopes<'a> {
    pub(super) fn new() -> Self {
        Self { blocks: vec![Block::default()], current: 0 }
    }

    pub(super) fn open(&mut self) {
        self.blocks.push(Block { parent: Some(self.current), ..Block::default() });
        self.current = self.blocks.len() - 1;
    }

    pub(super) fn close(&mut self) {
        self.current = self.blocks[self.current].parent.unwrap_or(0);
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// False where the block has such a name already.
    pub(super) fn declare(&mut self, name: &'a str, symbol: Symbol) -> bool {
        self.blocks[self.current].symbols.insert(name, symbol).is_none()
    }

    pub(super) fn declare_range(
        &mut self,
        prefix: &'a str,
        first: u32,
        count: u32,
        element: ScalarType,
    ) -> bool {
        let range = Range { first, count, element };
        self.blocks[self.current].ranges.insert(prefix, range).is_none()
    }

    pub(super) fn declare_label(&mut self, name: &'a str, pc: u32) -> bool {
        self.blocks[self.current].labels.insert(name, pc).is_none()
    }

    pub(super) fn declare_targets(&mut self, name: &'a str, labels: Vec<&'a str>) {
        self.blocks[self.current].targets.insert(name, labels);
    }

    pub(super) fn find(&self, name: &str) -> Option<Symbol> {
        self.search(self.current, |block| {
            block.symbols.get(name).copied().or_else(|| in_range(block, name))
        })
    }

    pub(super) fn label(&self, block: usize, name: &str) -> Option<u32> {
        self.search(block, |block| block.labels.get(name).copied())
    }

    pub(super) fn targets(&self, block: usize, name: &str) -> Option<&[&'a str]> {
        let mut at = Some(block);
        while let Some(index) = at {
            if let Some(labels) = self.blocks[index].targets.get(name) {
                return Some(labels);
            }
            at = self.blocks[index].parent;
        }
        None
    }

    fn search<T>(&self, from: usize, find: impl Fn(&Block<'a>) -> Option<T>) -> Option<T> {
        let mut at = Some(from);
        while let Some(index) = at {
            let block = &self.blocks[index];
            if let Some(found) = find(block) {
                return Some(found);
            }
            at = block.parent;
        }
        None
    }
}

fn in_range(block: &Block<'_>, name: &str) -> Option<Symbol> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let range = block.ranges.get(prefix)?;
    let digits = &name[prefix.len()..];
    let number: u32 = digits.parse().ok()?;
    if number >= range.count || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    let index = range.first + number;
    Some(match range.element {
        ScalarType::Pred => Symbol::Predicate(PredicateRegister(index)),
        element => Symbol::Register(Register(index), element),
    })
}
