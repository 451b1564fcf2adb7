//! Logic, shifts and bits (PTX ISA, "Logic and Shift Instructions"; `popc` to `bmsk`; `prmt`).

use super::Refusal;
use super::arithmetic::bool_op;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::{expect, immediate};
use crate::alu;
use crate::program::{Op, Predicate, Source};
use crate::syntax::ast::Operand;
use crate::types::ScalarType as S;

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn bits(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        Some(match name {
            "and" | "or" | "xor" | "not" | "cnot" => self.logic(name, modifiers, operands),
            "shl" | "shr" => self.shift(name, modifiers, operands),
            "lop3" => self.logic3(modifiers, operands),
            "shf" => self.shift_funnel(modifiers, operands),
            "prmt" => self.byte_permute(modifiers, operands),
            "popc" | "clz" | "brev" | "bfind" | "bfe" | "bfi" | "bmsk" | "szext" | "fns" => {
                self.bit_map(name, modifiers, operands)
            }
            _ => return None,
        })
    }

    fn logic(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let ty = modifiers.ty()?;
        let is_unary = name == "not" || name == "cnot";
        expect(operands, &[if is_unary { 2 } else { 3 }])?;
        if ty == S::Pred {
            let d = self.predicate_result(&operands[0])?;
            let a = self.predicate(&operands[1])?;
            return match name {
                "not" => Ok(Op::PredicateSet { d, a: negated(a) }),
                "cnot" => Err(Refusal::unmodelled("`cnot` of predicates")),
                _ => {
                    let b = self.predicate(&operands[2])?;
                    Ok(Op::PredicateMap { op: bool_op(name), d, a, b })
                }
            };
        }
        let f = alu::logic(name, ty)
            .ok_or_else(|| Refusal::unmodelled(format!("no form for type {ty:?}")))?;
        let a = self.source(&operands[1], ty)?;
        let b = if is_unary { a } else { self.source(&operands[2], ty)? };
        Ok(Op::Map2 { f, d: self.register(&operands[0], ty)?, s: [a, b] })
    }

    fn shift(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[3])?;
        let ty = modifiers.ty()?;
        let f = alu::shift(name, ty)
            .ok_or_else(|| Refusal::unmodelled(format!("no form for type {ty:?}")))?;
        let s = [self.source(&operands[1], ty)?, self.source(&operands[2], S::U32)?];
        Ok(Op::Map2 { f, d: self.register(&operands[0], ty)?, s })
    }

    fn logic3(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        // The form with a predicate, `lop3.or.b32 d|p, a, b, c, table, q`, has one more operand.
        expect(operands, &[5])?;
        let ty = modifiers.ty()?;
        if ty != S::B32 {
            return Err(Refusal::unmodelled(format!("type {ty:?}")));
        }
        let [a, b, c] = self.sources(&operands[1..], ty)?;
        let table = self.constants.value(immediate(&operands[4])?);
        let d = self.register(&operands[0], ty)?;
        Ok(Op::Map4 { f: alu::logic3(), d, s: [a, b, c, table] })
    }

    fn shift_funnel(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[4])?;
        let ty = modifiers.ty()?;
        let direction = modifiers.take_any(&["l", "r"]);
        let mode = modifiers.take_any(&["clamp", "wrap"]);
        let (Some(direction), Some(mode), S::B32) = (direction, mode, ty) else {
            return Err(Refusal::unmodelled("no such form"));
        };
        let s = self.sources(&operands[1..], ty)?;
        let f = alu::shift_funnel(direction == "l", mode == "clamp");
        Ok(Op::Map3 { f, d: self.register(&operands[0], ty)?, s })
    }

    fn byte_permute(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[4])?;
        let mode = modifiers.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]);
        let ty = modifiers.ty()?;
        let f = alu::byte_permute(mode.unwrap_or("")).filter(|_| ty == S::B32);
        let f = f.ok_or_else(|| Refusal::unmodelled("no such form"))?;
        let s = self.sources(&operands[1..], ty)?;
        Ok(Op::Map3 { f, d: self.register(&operands[0], ty)?, s })
    }

    /// Operand types: the first has the instruction's, positions and lengths are u32; `bfi` has two
    /// values first. The results of counts are u32.
    fn bit_map(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let ty = modifiers.ty()?;
        let count = match name {
            "popc" | "clz" | "brev" | "bfind" => 1,
            "bmsk" | "szext" => 2,
            "bfe" | "fns" => 3,
            _ => 4,
        };
        expect(operands, &[count + 1])?;
        let suffix = modifiers.take_any(&["shiftamt", "clamp", "wrap"]);
        let full = suffix.map_or(name.to_owned(), |suffix| format!("{name}.{suffix}"));
        let f = alu::bit_map(&full, ty)
            .ok_or_else(|| Refusal::unmodelled(format!("no form for type {ty:?}")))?;
        let counts = ["popc", "clz", "bfind"].contains(&name);
        let d = self.register(&operands[0], if counts { S::U32 } else { ty })?;
        let first = self.source(&operands[1], ty)?;
        let mut s: [Source; 4] = [first; 4];
        for (index, operand) in operands.iter().enumerate().skip(2) {
            let is_value = name == "bfi" && index == 2;
            s[index - 1] = self.source(operand, if is_value { ty } else { S::U32 })?;
        }
        Ok(Op::Map4 { f, d, s })
    }
}

fn negated(predicate: Predicate) -> Predicate {
    match predicate {
        Predicate::Register { index, negated } => Predicate::Register { index, negated: !negated },
        Predicate::Constant(value) => Predicate::Constant(!value),
    }
}
