//! The pool of constants: each value once.

use std::collections::HashMap;

use crate::program::{Constant, Source};

#[derive(Debug, Default)]
pub(crate) struct Constants {
    values: Vec<Constant>,
    known: HashMap<Constant, u32>,
}

impl Constants {
    pub(super) fn source(&mut self, constant: Constant) -> Source {
        let values = &mut self.values;
        let index = self.known.entry(constant).or_insert_with(|| {
            values.push(constant);
            // A text of four billion constants does not fit the memory that it is read into.
            u32::try_from(values.len() - 1).unwrap_or(u32::MAX)
        });
        Source::Constant(*index)
    }

    pub(super) fn value(&mut self, value: u64) -> Source {
        self.source(Constant::Value(value))
    }

    pub(super) fn into_values(self) -> Vec<Constant> {
        self.values
    }
}
