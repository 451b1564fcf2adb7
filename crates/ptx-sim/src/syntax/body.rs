//! Statements of a function (PTX ISA 4.3).

use super::ast::{Guard, Instruction, Location, Statement};
use super::lex::Kind;
use super::module::{variable_space, variables};
use super::operand::operands;
use super::parser::Parser;
use crate::error::LoadError;
use crate::types::ScalarType;

/// Most nested blocks. The parser calls itself once for each, so that text decides no depth.
const MAX_NESTING: u32 = 64;

pub(super) fn parse_body<'a>(parser: &mut Parser<'a, '_>) -> Result<Vec<Statement<'a>>, LoadError> {
    block(parser, 0)
}

fn block<'a>(parser: &mut Parser<'a, '_>, nesting: u32) -> Result<Vec<Statement<'a>>, LoadError> {
    parser.expect('{')?;
    let mut statements = Vec::new();
    while !parser.eat('}') {
        match parser.peek() {
            Some(Kind::Punct('{')) if nesting == MAX_NESTING => {
                return Err(parser.unexpected("fewer nested blocks"));
            }
            Some(Kind::Punct('{')) => {
                statements.push(Statement::Block(block(parser, nesting + 1)?));
            }
            Some(Kind::Punct('@')) => {
                statements.push(Statement::Instruction(instruction(parser)?));
            }
            Some(Kind::Punct(';')) => {
                parser.next();
            }
            Some(Kind::Word(word)) if parser.peek_after(1) == Some(Kind::Punct(':')) => {
                let line = parser.line();
                parser.next();
                parser.next();
                statements.push(label(parser, word, line)?);
            }
            Some(Kind::Word(word)) if word.starts_with('.') => {
                directive(parser, word, &mut statements)?;
            }
            Some(Kind::Word(_)) => statements.push(Statement::Instruction(instruction(parser)?)),
            _ => return Err(parser.unexpected("a statement")),
        }
    }
    Ok(statements)
}

fn label<'a>(
    parser: &mut Parser<'a, '_>,
    name: &'a str,
    line: u32,
) -> Result<Statement<'a>, LoadError> {
    if !parser.eat_word(".branchtargets") {
        return Ok(Statement::Label(name, line));
    }
    let mut labels = Vec::new();
    loop {
        labels.push(parser.word("a label")?);
        if parser.eat(';') {
            return Ok(Statement::BranchTargets { name, labels });
        }
        parser.expect(',')?;
    }
}

fn directive<'a>(
    parser: &mut Parser<'a, '_>,
    word: &'a str,
    statements: &mut Vec<Statement<'a>>,
) -> Result<(), LoadError> {
    let line = parser.line();
    parser.next();
    match word {
        ".reg" => registers(parser, line, statements),
        ".loc" => {
            statements.push(Statement::Location(location(parser)?));
            Ok(())
        }
        ".pragma" => {
            loop {
                statements.push(Statement::Pragma(parser.text()?));
                if !parser.eat(',') {
                    break;
                }
            }
            parser.expect(';')
        }
        // The type of a function that is called through a register; such a call is refused later.
        ".callprototype" => parser.skip_past(';'),
        _ => {
            let Some(space) = variable_space(word) else {
                let what = format!("`{word}` is no directive of a body known here");
                return Err(LoadError::syntax(line, what));
            };
            let mut declared = Vec::new();
            variables(parser, space, &mut declared)?;
            statements.extend(declared.into_iter().map(Statement::Variable));
            Ok(())
        }
    }
}

fn registers<'a>(
    parser: &mut Parser<'a, '_>,
    line: u32,
    statements: &mut Vec<Statement<'a>>,
) -> Result<(), LoadError> {
    let word = parser.word("the type of registers")?;
    let element = word.strip_prefix('.').and_then(ScalarType::parse);
    let element = element.ok_or_else(|| {
        LoadError::syntax(line, format!("registers of type `{word}` are not known here"))
    })?;
    loop {
        let name = parser.word("the name of a register")?;
        let count = if parser.eat('<') {
            let count = parser.u32()?;
            parser.expect('>')?;
            Some(count)
        } else {
            None
        };
        statements.push(Statement::Registers { name, element, count, line });
        if parser.eat(';') {
            return Ok(());
        }
        parser.expect(',')?;
    }
}

fn location<'a>(parser: &mut Parser<'a, '_>) -> Result<Location<'a>, LoadError> {
    let mut location =
        Location { file: parser.u32()?, line: parser.u32()?, inlined_at: None, function: None };
    parser.u32()?;
    while parser.eat(',') {
        if parser.eat_word("function_name") {
            location.function = Some(parser.word("the label of a name")?);
            if parser.eat('+') {
                parser.integer()?;
            }
        } else if parser.eat_word("inlined_at") {
            location.inlined_at = Some((parser.u32()?, parser.u32()?));
            parser.u32()?;
        } else {
            return Err(parser.unexpected("`function_name` or `inlined_at`"));
        }
    }
    Ok(location)
}

fn instruction<'a>(parser: &mut Parser<'a, '_>) -> Result<Instruction<'a>, LoadError> {
    let guard = if parser.eat('@') {
        let negated = parser.eat('!');
        Some(Guard { predicate: parser.word("a predicate")?, negated })
    } else {
        None
    };
    let line = parser.line();
    let opcode = parser.word("an instruction")?;
    let operands = operands(parser)?;
    Ok(Instruction { line, guard, opcode, operands })
}
