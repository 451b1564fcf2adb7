//! A cursor over tokens.

use super::lex::{Kind, Token};
use super::number::Number;
use crate::error::LoadError;

pub(super) struct Parser<'a, 't> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl<'a, 't> Parser<'a, 't> {
    pub(super) fn new(tokens: &'t [Token<'a>]) -> Self {
        Self { tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<Kind<'a>> {
        self.peek_after(0)
    }

    pub(super) fn peek_after(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    /// Line of the next token, or of the last one at the end.
    pub(super) fn line(&self) -> u32 {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    pub(super) fn next(&mut self) -> Option<Kind<'a>> {
        let kind = self.peek();
        self.at += usize::from(kind.is_some());
        kind
    }

    pub(super) fn eat(&mut self, mark: char) -> bool {
        let met = self.peek() == Some(Kind::Punct(mark));
        self.at += usize::from(met);
        met
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let met = self.peek() == Some(Kind::Word(word));
        self.at += usize::from(met);
        met
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), LoadError> {
        if self.eat(mark) { Ok(()) } else { Err(self.unexpected(&format!("`{mark}`"))) }
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, LoadError> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    pub(super) fn text(&mut self) -> Result<&'a str, LoadError> {
        match self.peek() {
            Some(Kind::Text(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected("a text in quotes")),
        }
    }

    /// A constant with an optional sign.
    pub(super) fn number(&mut self) -> Result<Number, LoadError> {
        let negative = self.eat('-');
        let Some(Kind::Number(text)) = self.peek() else {
            return Err(self.unexpected("a number"));
        };
        let number = Number::parse(text).ok_or_else(|| self.unexpected("a number"))?;
        self.at += 1;
        Ok(if negative { number.negated() } else { number })
    }

    pub(super) fn integer(&mut self) -> Result<u64, LoadError> {
        match self.number()? {
            Number::Int(value) => Ok(value),
            Number::F32(_) | Number::F64(_) => Err(self.unexpected("an integer before")),
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32, LoadError> {
        let line = self.line();
        let value = self.integer()?;
        u32::try_from(value).map_err(|_| LoadError::syntax(line, format!("{value} is too large")))
    }

    /// One to three extents; those not given are 1.
    pub(super) fn extents(&mut self) -> Result<[u32; 3], LoadError> {
        let mut extents = [self.u32()?, 1, 1];
        for extent in &mut extents[1..] {
            if !self.eat(',') {
                break;
            }
            *extent = self.u32()?;
        }
        Ok(extents)
    }

    /// Passes over everything up to and with the mark.
    pub(super) fn skip_past(&mut self, mark: char) -> Result<(), LoadError> {
        while !self.eat(mark) {
            if self.next().is_none() {
                return Err(self.unexpected(&format!("`{mark}`")));
            }
        }
        Ok(())
    }

    /// Passes over `{ … }`, nested ones inside.
    pub(super) fn skip_braces(&mut self) -> Result<(), LoadError> {
        self.expect('{')?;
        let mut depth = 1_u32;
        while depth > 0 {
            match self.next() {
                Some(Kind::Punct('{')) => depth += 1,
                Some(Kind::Punct('}')) => depth -= 1,
                Some(_) => {}
                None => return Err(self.unexpected("`}`")),
            }
        }
        Ok(())
    }

    pub(super) fn unexpected(&self, expected: &str) -> LoadError {
        let met = match self.peek() {
            Some(Kind::Word(text) | Kind::Number(text)) => format!("`{text}`"),
            Some(Kind::Text(text)) => format!("\"{text}\""),
            Some(Kind::Punct(mark)) => format!("`{mark}`"),
            None => "the end".to_owned(),
        };
        LoadError::syntax(self.line(), format!("expected {expected}, found {met}"))
    }
}
