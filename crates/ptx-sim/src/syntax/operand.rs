//! Operands (PTX ISA 6).

use super::ast::{Address, Operand};
use super::lex::Kind;
use super::parser::Parser;
use crate::error::LoadError;

/// Operands up to and with the semicolon.
pub(super) fn operands<'a>(parser: &mut Parser<'a, '_>) -> Result<Vec<Operand<'a>>, LoadError> {
    let mut operands = Vec::new();
    if parser.eat(';') {
        return Ok(operands);
    }
    loop {
        operands.push(operand(parser)?);
        if parser.eat(';') {
            return Ok(operands);
        }
        parser.expect(',')?;
    }
}

fn operand<'a>(parser: &mut Parser<'a, '_>) -> Result<Operand<'a>, LoadError> {
    match parser.peek() {
        Some(Kind::Punct('{')) => {
            parser.next();
            list(parser, '}').map(Operand::Vector)
        }
        Some(Kind::Punct('(')) => {
            parser.next();
            list(parser, ')').map(Operand::Group)
        }
        Some(Kind::Punct('[')) => {
            parser.next();
            address(parser).map(Operand::Address)
        }
        Some(Kind::Punct('!')) => {
            parser.next();
            parser.word("a predicate").map(Operand::Not)
        }
        _ => plain(parser),
    }
}

/// What may stand inside a list: no list again.
fn plain<'a>(parser: &mut Parser<'a, '_>) -> Result<Operand<'a>, LoadError> {
    let Some(Kind::Word(name)) = parser.peek() else {
        return parser.number().map(Operand::Number);
    };
    parser.next();
    if parser.eat('|') {
        return Ok(Operand::Pair(name, parser.word("a predicate")?));
    }
    if parser.eat('+') {
        return Ok(Operand::Offset(name, parser.integer()?));
    }
    Ok(Operand::Name(name))
}

fn list<'a>(parser: &mut Parser<'a, '_>, end: char) -> Result<Vec<Operand<'a>>, LoadError> {
    let mut operands = Vec::new();
    if parser.eat(end) {
        return Ok(operands);
    }
    loop {
        operands.push(plain(parser)?);
        if parser.eat(end) {
            return Ok(operands);
        }
        parser.expect(',')?;
    }
}

fn address<'a>(parser: &mut Parser<'a, '_>) -> Result<Address<'a>, LoadError> {
    let base = match parser.peek() {
        Some(Kind::Word(name)) => {
            parser.next();
            Some(name)
        }
        _ => None,
    };
    // `[5]`, `[a]`, `[a+5]`, `[a+-5]`.
    let has_offset = base.is_none() || parser.eat('+') || parser.peek() == Some(Kind::Punct('-'));
    let offset = if has_offset { parser.integer()? } else { 0 };
    let coordinates = if parser.eat(',') {
        parser.expect('{')?;
        list(parser, '}')?
    } else {
        Vec::new()
    };
    parser.expect(']')?;
    Ok(Address { base, offset, coordinates })
}
