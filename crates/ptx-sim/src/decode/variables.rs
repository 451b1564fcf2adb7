//! Variables of a module, and the bytes that it gives them (PTX ISA 5.4).

use std::collections::HashMap;

use super::is_in_memory;
use super::scope::Symbol;
use crate::error::LoadError;
use crate::program::{Relocation, Variable};
use crate::syntax::ast::{self, Initializer, Number};
use crate::types::{ScalarType, Space};

/// Most bytes of one variable: more is a mistake, or an attempt to take all memory.
const MAX_BYTES: u64 = 1 << 30;

pub(super) fn declare<'a>(
    variables: &[ast::Variable<'a>],
    symbols: &mut HashMap<&'a str, Symbol>,
) -> Result<Vec<Variable>, LoadError> {
    let mut declared = Vec::new();
    for variable in variables {
        let symbol = Symbol::Variable(declared.len());
        if symbols.insert(variable.name, symbol).is_some() {
            let what = format!("`{}` is declared twice", variable.name);
            return Err(LoadError::invalid(variable.line, what));
        }
        declared.push(one(variable)?);
    }
    Ok(declared)
}

/// A variable of the global, const or shared space, without its initial bytes.
pub(super) fn one(variable: &ast::Variable<'_>) -> Result<Variable, LoadError> {
    let name = variable.name;
    let fail = |what: String| Err(LoadError::invalid(variable.line, what));
    match variable.space {
        Space::Shared if !variable.init.is_empty() => {
            return fail(format!("`{name}` is shared and has an initialiser"));
        }
        Space::Shared | Space::Global | Space::Const => {}
        space => return fail(format!("`{name}` is {space} and stands outside of functions")),
    }
    if variable.bytes.is_some_and(|bytes| bytes > MAX_BYTES) {
        return fail(format!("`{name}` is too large"));
    }
    if is_in_memory(variable.space) && variable.bytes.is_none() {
        return fail(format!("`{name}` has no extent; modules are not linked here"));
    }
    Ok(Variable {
        name: name.to_owned(),
        space: variable.space,
        align: variable.align,
        bytes: variable.bytes,
        init: Vec::new(),
        relocations: Vec::new(),
    })
}

pub(super) fn initialise(
    variables: &[ast::Variable<'_>],
    symbols: &HashMap<&str, Symbol>,
    into: &mut [Variable],
) -> Result<(), LoadError> {
    for (index, variable) in variables.iter().enumerate() {
        let element_bytes = variable.element.bytes() as usize;
        let given = (variable.init.len() * element_bytes) as u64;
        if variable.bytes.is_some_and(|bytes| given > bytes) {
            let what = format!("`{}` has more initial values than room", variable.name);
            return Err(LoadError::invalid(variable.line, what));
        }
        for initializer in &variable.init {
            let target = &mut into[index];
            let value = match *initializer {
                Initializer::Number(number) => bits_of(number, variable.element),
                Initializer::Address { name, offset } => {
                    let Some(Symbol::Variable(of)) = symbols.get(name).copied() else {
                        let what = format!("`{name}` is no variable of this module");
                        return Err(LoadError::invalid(variable.line, what));
                    };
                    if element_bytes != 8 {
                        let what = format!("an address in elements of {element_bytes} bytes");
                        return Err(LoadError::invalid(variable.line, what));
                    }
                    let at = target.init.len();
                    target.relocations.push(Relocation { at, variable: of, offset });
                    0
                }
            };
            let mut bytes = value.to_le_bytes().to_vec();
            bytes.resize(element_bytes, 0);
            target.init.extend(bytes);
        }
    }
    Ok(())
}

/// The bits of a constant as an operand of a type: floats are converted among their formats.
pub(super) fn bits_of(number: Number, ty: ScalarType) -> u64 {
    match (number, ty) {
        (Number::Int(value), _) => value,
        (Number::F32(bits), ScalarType::F64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Number::F32(bits), _) => bits.into(),
        #[expect(clippy::cast_possible_truncation, reason = "the type of the use is narrower")]
        (Number::F64(bits), ScalarType::F32) => (f64::from_bits(bits) as f32).to_bits().into(),
        (Number::F64(bits), _) => bits,
    }
}
