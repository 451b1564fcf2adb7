//! Moves, selections, and addresses between spaces (PTX ISA, `mov`, `selp`, `cvta`, `isspacep`).

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::{PARAM_FRAME_BASE, Width, expect};
use super::scope::Symbol;
use super::special;
use crate::alu::map;
use crate::program::{Op, PredicateRegister, Source};
use crate::syntax::ast::Operand;
use crate::types::{ScalarType as S, Space};

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn moves(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        Some(match name {
            "mov" => self.mov(modifiers, operands),
            "selp" => self.select(modifiers, operands),
            "cvta" => self.convert_address(modifiers, operands),
            "isspacep" => self.is_space(modifiers, operands),
            _ => return None,
        })
    }

    fn mov(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        let ty = modifiers.ty()?;
        let [to, from] = operands else { return Err(Refusal::invalid("not two operands")) };
        if ty == S::Pred {
            let a = match from {
                Operand::Name(name) if special::is_explicit_cluster(name) => {
                    return Err(Refusal::unmodelled("`%is_explicit_cluster`"));
                }
                _ => self.predicate(from)?,
            };
            return Ok(Op::PredicateSet { d: self.predicate_result(to)?, a });
        }
        if let Operand::Vector(parts) = to {
            return self.unpack(parts, from, ty);
        }
        if let Operand::Vector(parts) = from {
            return self.pack(to, parts, ty);
        }
        if let Operand::Name(name) | Operand::Offset(name, _) = from {
            let more = if let Operand::Offset(_, more) = from { *more } else { 0 };
            let frame = match self.find(name) {
                Some(Symbol::Local { offset }) => Some(u64::from(offset)),
                // Only accesses to the param space read this, which tells it from a kernel's own.
                Some(Symbol::FrameParam { offset, .. }) => {
                    Some(PARAM_FRAME_BASE + u64::from(offset))
                }
                _ => None,
            };
            if let Some(offset) = frame {
                let d = self.register(to, ty)?;
                return Ok(Op::FrameAddress { d, offset: offset.wrapping_add(more) });
            }
            if self.find(name).is_none()
                && let Some(clock) = special::clock(name)
            {
                return Ok(Op::Clock { clock, d: self.register(to, ty)? });
            }
        }
        let s = [self.source(from, ty)?];
        Ok(Op::Map1 { f: map!(|a: u64| a), d: self.register(to, ty)?, s })
    }

    fn part_type(count: usize, ty: S) -> Result<S, Refusal> {
        match (ty.bits() as usize, count) {
            (16, 2) => Ok(S::B8),
            (32, 2) => Ok(S::B16),
            (32, 4) => Ok(S::B8),
            (64, 2) => Ok(S::B32),
            (64, 4) => Ok(S::B16),
            _ => Err(Refusal::unmodelled(format!("{count} parts of type {ty:?}"))),
        }
    }

    fn unpack(&mut self, parts: &[Operand<'a>], from: &Operand<'a>, ty: S) -> Result<Op, Refusal> {
        let part = Self::part_type(parts.len(), ty)?;
        let a = self.source(from, ty)?;
        let parts = parts.iter().map(|to| self.optional_register(to, part, Width::Exact));
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Op::Unpack { parts, a, bits: part.bits() })
    }

    fn pack(&mut self, to: &Operand<'a>, parts: &[Operand<'a>], ty: S) -> Result<Op, Refusal> {
        let part = Self::part_type(parts.len(), ty)?;
        let parts = parts.iter().map(|from| self.source(from, part));
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Op::Pack { d: self.register(to, ty)?, parts, bits: part.bits() })
    }

    fn select(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[4])?;
        let ty = modifiers.ty()?;
        let s = self.sources(&operands[1..], ty)?;
        let p = self.predicate(&operands[3])?;
        Ok(Op::Select { d: self.register(&operands[0], ty)?, s, p })
    }

    fn convert_address(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        let to_generic = !modifiers.take("to");
        let space = take_space(modifiers)?;
        let ty = modifiers.ty()?;
        if ty != S::U64 {
            return Err(Refusal::unmodelled("addresses of other than 64 bits"));
        }
        let d = self.register(&operands[0], ty)?;
        let a = self.source(&operands[1], ty)?;
        Ok(Op::ConvertAddress { space, to_generic, d, a })
    }

    fn is_space(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        let space = take_space(modifiers)?;
        let d: PredicateRegister = self.predicate_result(&operands[0])?;
        let a: Source = self.source(&operands[1], S::U64)?;
        Ok(Op::IsSpace { space, d, a })
    }
}

/// A space that a modifier names, `generic` where none does.
pub(super) fn space(modifiers: &mut Modifiers<'_>) -> Result<Space, Refusal> {
    if modifiers.take("shared::cluster") {
        return Err(Refusal::unmodelled("shared memory of a cluster"));
    }
    if modifiers.take_any(&["shared", "shared::cta"]).is_some() {
        return Ok(Space::Shared);
    }
    let spaces = [
        ("global", Space::Global),
        ("local", Space::Local),
        ("const", Space::Const),
        ("param", Space::Param),
        ("param::entry", Space::Param),
        ("param::func", Space::Param),
    ];
    let found = spaces.into_iter().find(|(name, _)| modifiers.take(name));
    Ok(found.map_or(Space::Generic, |(_, space)| space))
}

fn take_space(modifiers: &mut Modifiers<'_>) -> Result<Space, Refusal> {
    match space(modifiers)? {
        Space::Generic => Err(Refusal::unmodelled("no space is named")),
        space => Ok(space),
    }
}
