//! Operands, checked against the type of their instruction (PTX ISA 9.2, 9.4.1).

use super::Refusal;
use super::function::FunctionDecoder;
use super::scope::Symbol;
use super::special;
use super::variables::bits_of;
use crate::program::{
    Address, AddressBase, Constant, Predicate, PredicateRegister, Register, Source,
};
use crate::syntax::ast::{self, Operand};
use crate::types::{ScalarType, Space};

/// Generic and param addresses of a frame begin here in the param space.
pub(crate) const PARAM_FRAME_BASE: u64 = 1 << 20;

/// How wide a register may be for a type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Exact,
    /// The register may be wider: the relaxed rules of `ld`, `st` and `cvt`.
    Relaxed,
}

impl FunctionDecoder<'_, '_> {
    /// A value of this type, in a register of its width or a constant.
    pub(super) fn source(
        &mut self,
        operand: &Operand<'_>,
        ty: ScalarType,
    ) -> Result<Source, Refusal> {
        self.source_of(operand, ty, Width::Exact)
    }

    pub(super) fn source_of(
        &mut self,
        operand: &Operand<'_>,
        ty: ScalarType,
        width: Width,
    ) -> Result<Source, Refusal> {
        match operand {
            Operand::Number(number) => Ok(self.constants.value(bits_of(*number, ty))),
            Operand::Offset(name, offset) => self.address_of(name, *offset),
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Register(register, declared)) => {
                    check_width(name, declared, ty, width)?;
                    Ok(Source::Register(register))
                }
                Some(_) => self.address_of(name, 0),
                None => special::special(name, self.constants)
                    .ok_or_else(|| Refusal::invalid(format!("`{name}` is not known"))),
            },
            _ => Err(Refusal::invalid("an operand is neither a register nor a constant")),
        }
    }

    /// The address of a variable in its own space, where it is the same for all threads.
    fn address_of(&mut self, name: &str, offset: u64) -> Result<Source, Refusal> {
        match self.find(name) {
            Some(Symbol::Variable(index)) => Ok(self.variable(index, offset)),
            Some(Symbol::EntryParam { offset: at }) => {
                Ok(self.constants.value(u64::from(at).wrapping_add(offset)))
            }
            Some(Symbol::Local { .. } | Symbol::FrameParam { .. }) => {
                Err(Refusal::unmodelled("the address of a frame outside of `mov`"))
            }
            Some(Symbol::Function(_)) => Err(Refusal::unmodelled("the address of a function")),
            Some(Symbol::Register(..) | Symbol::Predicate(_)) | None => {
                Err(Refusal::invalid(format!("`{name}` is no variable")))
            }
        }
    }

    fn variable(&mut self, index: usize, offset: u64) -> Source {
        if self.program.variables[index].space == Space::Shared {
            self.uses.shared.insert(index);
        }
        self.constants.source(Constant::Variable { index, offset })
    }

    pub(super) fn sources<const N: usize>(
        &mut self,
        operands: &[Operand<'_>],
        ty: ScalarType,
    ) -> Result<[Source; N], Refusal> {
        let mut sources = [Source::Constant(0); N];
        for (source, operand) in sources.iter_mut().zip(operands) {
            *source = self.source(operand, ty)?;
        }
        Ok(sources)
    }

    pub(super) fn register(
        &mut self,
        operand: &Operand<'_>,
        ty: ScalarType,
    ) -> Result<Register, Refusal> {
        self.register_of(operand, ty, Width::Exact)
    }

    pub(super) fn register_of(
        &mut self,
        operand: &Operand<'_>,
        ty: ScalarType,
        width: Width,
    ) -> Result<Register, Refusal> {
        let Operand::Name(name) = operand else {
            return Err(Refusal::invalid("a result is no register"));
        };
        if *name == "_" {
            return Ok(self.scratch());
        }
        match self.find(name) {
            Some(Symbol::Register(register, declared)) => {
                check_width(name, declared, ty, width)?;
                Ok(register)
            }
            _ => Err(Refusal::invalid(format!("`{name}` is no register"))),
        }
    }

    /// A register or `_`, which takes no value.
    pub(super) fn optional_register(
        &mut self,
        operand: &Operand<'_>,
        ty: ScalarType,
        width: Width,
    ) -> Result<Option<Register>, Refusal> {
        match operand {
            Operand::Name("_") => Ok(None),
            _ => self.register_of(operand, ty, width).map(Some),
        }
    }

    pub(super) fn predicate_register(&self, name: &str) -> Result<PredicateRegister, Refusal> {
        match self.find(name) {
            Some(Symbol::Predicate(predicate)) => Ok(predicate),
            _ => Err(Refusal::invalid(format!("`{name}` is no predicate"))),
        }
    }

    /// A predicate that is written, or `_`.
    pub(super) fn optional_predicate(
        &self,
        name: &str,
    ) -> Result<Option<PredicateRegister>, Refusal> {
        if name == "_" { Ok(None) } else { self.predicate_register(name).map(Some) }
    }

    pub(super) fn predicate_result(
        &self,
        operand: &Operand<'_>,
    ) -> Result<PredicateRegister, Refusal> {
        match operand {
            Operand::Name(name) => self.predicate_register(name),
            _ => Err(Refusal::invalid("a result is no predicate")),
        }
    }

    pub(super) fn predicate(&self, operand: &Operand<'_>) -> Result<Predicate, Refusal> {
        match operand {
            Operand::Name(name) => {
                let index = self.predicate_register(name)?;
                Ok(Predicate::Register { index, negated: false })
            }
            Operand::Not(name) => {
                let index = self.predicate_register(name)?;
                Ok(Predicate::Register { index, negated: true })
            }
            Operand::Number(ast::Number::Int(value)) => Ok(Predicate::Constant(*value != 0)),
            _ => Err(Refusal::invalid("an operand is no predicate")),
        }
    }

    /// An address, and the space it lies in where a name decides that.
    pub(super) fn address(
        &mut self,
        operand: &Operand<'_>,
        space: Space,
    ) -> Result<(Address, Space), Refusal> {
        let Operand::Address(address) = operand else {
            return Err(Refusal::invalid("an operand is no address"));
        };
        if !address.coordinates.is_empty() {
            return Err(Refusal::unmodelled("an address of a tensor"));
        }
        let offset = address.offset;
        let Some(name) = address.base else {
            let base = AddressBase::Wide(self.constants.value(offset));
            return Ok((Address { base, offset: 0 }, space));
        };
        match self.find(name) {
            Some(Symbol::Register(register, declared)) => {
                let source = Source::Register(register);
                let base = match declared.bytes() {
                    4 => AddressBase::Narrow(source),
                    8 => AddressBase::Wide(source),
                    _ => return Err(Refusal::invalid(format!("`{name}` holds no address"))),
                };
                Ok((Address { base, offset }, space))
            }
            Some(Symbol::Local { offset: at } | Symbol::FrameParam { offset: at, .. }) => {
                let is_local = matches!(self.find(name), Some(Symbol::Local { .. }));
                let own = if is_local { Space::Local } else { Space::Param };
                check_space(name, own, space)?;
                let offset = offset.wrapping_add(at.into());
                Ok((Address { base: AddressBase::Frame, offset }, Space::Local))
            }
            Some(Symbol::Variable(index)) => {
                let own = self.program.variables[index].space;
                // Only addresses of memory are generic addresses as they stand.
                if !(space == Space::Generic && own == Space::Global) {
                    check_space(name, own, space)?;
                }
                let base = AddressBase::Wide(self.variable(index, offset));
                Ok((Address { base, offset: 0 }, own))
            }
            Some(Symbol::EntryParam { .. }) => {
                check_space(name, Space::Param, space)?;
                let base = AddressBase::Wide(self.address_of(name, offset)?);
                Ok((Address { base, offset: 0 }, Space::Param))
            }
            _ => Err(Refusal::invalid(format!("`{name}` is no address"))),
        }
    }
}

fn check_space(name: &str, own: Space, used: Space) -> Result<(), Refusal> {
    if own == used {
        return Ok(());
    }
    Err(Refusal::invalid(format!("`{name}` lies in the {own} space, not in the {used} space")))
}

fn check_width(
    name: &str,
    declared: ScalarType,
    ty: ScalarType,
    width: Width,
) -> Result<(), Refusal> {
    let fits = match width {
        Width::Exact => declared.bytes() == ty.bytes(),
        Width::Relaxed => declared.bytes() >= ty.bytes(),
    };
    if fits {
        return Ok(());
    }
    let (has, needs) = (declared.bits(), ty.bits());
    Err(Refusal::invalid(format!("`{name}` has {has} bits where {needs} are needed")))
}

/// The number of operands, or a refusal.
pub(super) fn expect(operands: &[Operand<'_>], counts: &[usize]) -> Result<(), Refusal> {
    if counts.contains(&operands.len()) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{} operands", operands.len())))
}

/// An integer known when the module is loaded.
pub(super) fn immediate(operand: &Operand<'_>) -> Result<u64, Refusal> {
    match operand {
        Operand::Number(ast::Number::Int(value)) => Ok(*value),
        _ => Err(Refusal::unmodelled("an operand that is not constant")),
    }
}
