//! The parts of an opcode. Each must be used: one that is left over is not modelled, never skipped.

use super::Refusal;
use crate::types::ScalarType;

#[derive(Clone)]
pub(super) struct Modifiers<'a> {
    parts: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    /// The name of the instruction, and its modifiers.
    pub(super) fn split(opcode: &'a str) -> (&'a str, Self) {
        let mut parts = opcode.split('.');
        let name = parts.next().unwrap_or(opcode);
        (name, Self { parts: parts.collect() })
    }

    pub(super) fn take(&mut self, modifier: &str) -> bool {
        let at = self.parts.iter().position(|part| *part == modifier);
        if let Some(at) = at {
            self.parts.remove(at);
        }
        at.is_some()
    }

    /// The first of these that is there.
    pub(super) fn take_any<'m>(&mut self, modifiers: &[&'m str]) -> Option<&'m str> {
        modifiers.iter().copied().find(|modifier| self.take(modifier))
    }

    pub(super) fn take_prefixed(&mut self, prefix: &str) -> Option<&'a str> {
        let at = self.parts.iter().position(|part| part.starts_with(prefix))?;
        Some(self.parts.remove(at))
    }

    /// The next part, whatever it is.
    pub(super) fn first(&mut self) -> Result<&'a str, Refusal> {
        if self.parts.is_empty() {
            return Err(Refusal::unmodelled("a modifier is missing"));
        }
        Ok(self.parts.remove(0))
    }

    /// The last part, as it is written.
    pub(super) fn last(&mut self) -> Result<&'a str, Refusal> {
        self.parts.pop().ok_or_else(|| Refusal::unmodelled("it has no type"))
    }

    /// The type, which stands last.
    pub(super) fn ty(&mut self) -> Result<ScalarType, Refusal> {
        let last = self.last()?;
        ScalarType::parse(last).ok_or_else(|| Refusal::unmodelled(format!("type `.{last}`")))
    }

    pub(super) fn end(self) -> Result<(), Refusal> {
        match self.parts.first() {
            None => Ok(()),
            Some(part) => Err(Refusal::unmodelled(format!("modifier `.{part}`"))),
        }
    }
}
