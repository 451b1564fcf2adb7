//! Module level: directives, variables, functions (PTX ISA 5.4, 7.1, 11).

use super::ast::{Directives, Function, Initializer, Module, Variable};
use super::body::parse_body;
use super::lex::{Kind, lex};
use super::parser::Parser;
use crate::error::LoadError;
use crate::types::{ScalarType, Space};

/// Most nested braces of an initialiser.
const MAX_NESTING: u32 = 16;

pub(crate) fn parse(text: &str) -> Result<Module<'_>, LoadError> {
    let tokens = lex(text)?;
    let mut parser = Parser::new(&tokens);
    let mut module = Module::default();
    while let Some(kind) = parser.peek() {
        let Kind::Word(word) = kind else { return Err(parser.unexpected("a directive")) };
        match word {
            ".version" => {
                parser.next();
                parser.next();
            }
            ".target" => {
                parser.next();
                module.target = parser.word("a target")?;
                while parser.eat(',') {
                    parser.word("an option of the target")?;
                }
            }
            ".address_size" => {
                parser.next();
                if parser.u32()? != 64 {
                    return Err(parser.unexpected("an address size of 64"));
                }
            }
            ".file" => module.files.push(file(&mut parser)?),
            ".section" => {
                parser.next();
                parser.next();
                parser.skip_braces()?;
            }
            ".visible" | ".extern" | ".weak" | ".common" | ".noreturn" => {
                parser.next();
            }
            ".alias" => parser.skip_past(';')?,
            ".entry" | ".func" => module.functions.push(function(&mut parser)?),
            ".pragma" => parser.skip_past(';')?,
            _ => {
                let Some(space) = variable_space(word) else {
                    return Err(parser.unexpected("a directive of a module"));
                };
                parser.next();
                variables(&mut parser, space, &mut module.variables)?;
            }
        }
    }
    Ok(module)
}

/// The space of the variables that this directive declares.
pub(super) fn variable_space(directive: &str) -> Option<Space> {
    Some(match directive {
        ".global" => Space::Global,
        ".shared" => Space::Shared,
        ".const" => Space::Const,
        ".local" => Space::Local,
        ".param" => Space::Param,
        _ => return None,
    })
}

fn file<'a>(parser: &mut Parser<'a, '_>) -> Result<(u32, &'a str), LoadError> {
    parser.next();
    let entry = (parser.u32()?, parser.text()?);
    // Time and size of the file.
    while parser.eat(',') {
        parser.integer()?;
    }
    Ok(entry)
}

fn function<'a>(parser: &mut Parser<'a, '_>) -> Result<Function<'a>, LoadError> {
    let line = parser.line();
    let is_entry = parser.next() == Some(Kind::Word(".entry"));
    let returns =
        if parser.peek() == Some(Kind::Punct('(')) { parameters(parser)? } else { Vec::new() };
    let name = parser.word("the name of a function")?;
    let params =
        if parser.peek() == Some(Kind::Punct('(')) { parameters(parser)? } else { Vec::new() };
    let directives = directives(parser)?;
    let body = if parser.eat(';') { None } else { Some(parse_body(parser)?) };
    Ok(Function { name, line, is_entry, returns, params, directives, body })
}

fn directives(parser: &mut Parser<'_, '_>) -> Result<Directives, LoadError> {
    let mut directives = Directives::default();
    while let Some(Kind::Word(word)) = parser.peek() {
        parser.next();
        match word {
            ".maxntid" => directives.max_threads = Some(parser.extents()?),
            ".reqntid" => directives.required_threads = Some(parser.extents()?),
            ".reqnctapercluster" => directives.required_cluster = Some(parser.extents()?),
            ".minnctapersm" | ".maxnctapersm" | ".maxnreg" | ".maxclusterrank" => {
                parser.u32()?;
            }
            ".explicitcluster" | ".noreturn" | ".blocksareclusters" => {}
            ".pragma" => parser.skip_past(';')?,
            ".abi_preserve" | ".abi_preserve_control" => {
                parser.u32()?;
            }
            _ => {
                let what = format!("`{word}` is no directive of a function known here");
                return Err(LoadError::syntax(parser.line(), what));
            }
        }
    }
    Ok(directives)
}

fn parameters<'a>(parser: &mut Parser<'a, '_>) -> Result<Vec<Variable<'a>>, LoadError> {
    parser.expect('(')?;
    let mut parameters = Vec::new();
    while !parser.eat(')') {
        if !parameters.is_empty() {
            parser.expect(',')?;
        }
        let space = parser.word("`.param`")?;
        if space != ".param" {
            let what = format!("parameters in `{space}` are not modelled");
            return Err(LoadError::syntax(parser.line(), what));
        }
        let prefix = Prefix::parse(parser)?;
        parameters.push(prefix.declare(parser, Space::Param)?);
    }
    Ok(parameters)
}

/// What follows a space directive: one or more variables up to the semicolon.
pub(super) fn variables<'a>(
    parser: &mut Parser<'a, '_>,
    space: Space,
    into: &mut Vec<Variable<'a>>,
) -> Result<(), LoadError> {
    let prefix = Prefix::parse(parser)?;
    loop {
        let mut variable = prefix.declare(parser, space)?;
        if parser.eat('=') {
            initializers(parser, 0, &mut variable.init)?;
        }
        if space == Space::Global || space == Space::Const {
            // An extent that the initialiser gives.
            let given = variable.init.len() as u64 * u64::from(variable.element.bytes());
            variable.bytes = variable.bytes.or((given > 0).then_some(given));
        }
        into.push(variable);
        if parser.eat(';') {
            return Ok(());
        }
        parser.expect(',')?;
    }
}

/// Alignment and type, which all variables of one declaration share.
struct Prefix {
    align: Option<u32>,
    element: ScalarType,
    vector: u32,
}

impl Prefix {
    fn parse(parser: &mut Parser<'_, '_>) -> Result<Self, LoadError> {
        let mut prefix = Self { align: None, element: ScalarType::Pred, vector: 1 };
        let mut is_pointer = false;
        loop {
            let Some(Kind::Word(word)) = parser.peek() else {
                return Err(parser.unexpected("the name of a variable"));
            };
            let Some(name) = word.strip_prefix('.') else { break };
            parser.next();
            match name {
                "align" => {
                    let align = parser.u32()?;
                    // After `.ptr` it is the alignment of what the pointer points to.
                    if !is_pointer {
                        prefix.align = Some(align);
                    }
                }
                "ptr" => is_pointer = true,
                "global" | "const" | "local" | "shared" | "param" if is_pointer => {}
                "v2" => prefix.vector = 2,
                "v4" => prefix.vector = 4,
                _ => {
                    let Some(element) = ScalarType::parse(name) else {
                        let what = format!("`{word}` is no type of a variable known here");
                        return Err(LoadError::syntax(parser.line(), what));
                    };
                    prefix.element = element;
                }
            }
        }
        if prefix.element == ScalarType::Pred {
            return Err(parser.unexpected("the type of a variable"));
        }
        Ok(prefix)
    }

    fn declare<'a>(
        &self,
        parser: &mut Parser<'a, '_>,
        space: Space,
    ) -> Result<Variable<'a>, LoadError> {
        let line = parser.line();
        let name = parser.word("the name of a variable")?;
        let mut bytes = Some(u64::from(self.element.bytes()) * u64::from(self.vector));
        while parser.eat('[') {
            if parser.eat(']') {
                bytes = None;
                continue;
            }
            let extent = parser.integer()?;
            parser.expect(']')?;
            bytes =
                match bytes {
                    Some(bytes) => Some(bytes.checked_mul(extent).ok_or_else(|| {
                        LoadError::invalid(line, format!("`{name}` is too large"))
                    })?),
                    None => None,
                };
        }
        let align = self.align.unwrap_or(self.element.bytes() * self.vector);
        if !align.is_power_of_two() || align > 4096 {
            let what = format!("an alignment of {align} is not a power of two up to 4096");
            return Err(LoadError::invalid(line, what));
        }
        Ok(Variable { name, line, space, align, element: self.element, bytes, init: Vec::new() })
    }
}

fn initializers<'a>(
    parser: &mut Parser<'a, '_>,
    nesting: u32,
    into: &mut Vec<Initializer<'a>>,
) -> Result<(), LoadError> {
    if !parser.eat('{') {
        into.push(initializer(parser)?);
        return Ok(());
    }
    if nesting == MAX_NESTING {
        return Err(parser.unexpected("fewer nested braces"));
    }
    while !parser.eat('}') {
        initializers(parser, nesting + 1, into)?;
        if !parser.eat(',') {
            parser.expect('}')?;
            break;
        }
    }
    Ok(())
}

fn initializer<'a>(parser: &mut Parser<'a, '_>) -> Result<Initializer<'a>, LoadError> {
    let Some(Kind::Word(word)) = parser.peek() else {
        return parser.number().map(Initializer::Number);
    };
    parser.next();
    // Spaces are windows of one address space here, so a generic address is the address.
    let name = if word == "generic" && parser.eat('(') {
        let name = parser.word("the name of a variable")?;
        parser.expect(')')?;
        name
    } else {
        word
    };
    let offset = if parser.eat('+') { parser.integer()? } else { 0 };
    Ok(Initializer::Address { name, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_with_its_directives() {
        let text = ".version 9.5 .target sm_90a, debug .address_size 64
            .visible .entry k(.param .u64 .ptr .global .align 1 a, .param .align 8 .b8 b[40])
            .maxntid 256, 1, 1 .minnctapersm 1 { ret; }
            .file 1 \"k.cu\", 5, 6";
        let module = parse(text).unwrap();
        assert_eq!(module.target, "sm_90a");
        assert_eq!(module.files, [(1, "k.cu")]);
        let function = &module.functions[0];
        assert_eq!(function.directives.max_threads, Some([256, 1, 1]));
        let params: Vec<_> = function.params.iter().map(|p| (p.name, p.align, p.bytes)).collect();
        assert_eq!(params, [("a", 8, Some(8)), ("b", 8, Some(40))]);
    }

    #[test]
    fn an_initialiser_gives_an_extent() {
        let module = parse(".global .b8 a[] = {1, 2, 3}; .global .u64 p[2] = {a, a+2};").unwrap();
        assert_eq!(module.variables[0].bytes, Some(3));
        assert_eq!(module.variables[1].bytes, Some(16));
        let Initializer::Address { name: "a", offset: 2 } = module.variables[1].init[1] else {
            panic!("{:?}", module.variables[1].init)
        };
    }

    #[test]
    fn what_is_no_ptx_is_an_error_with_its_line() {
        for text in ["\n\nx", "\n\n.global .b8 a[", "\n\n.entry k( { ret; }", "\n\n.func f() {"] {
            match parse(text) {
                Err(LoadError::Syntax { line: 3, .. }) => {}
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
