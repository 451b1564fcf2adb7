//! Conversions (PTX ISA, `cvt`).

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::{Width, expect};
use crate::alu::{self, Conversion, Rounding};
use crate::program::Op;
use crate::syntax::ast::Operand;
use crate::types::ScalarType as S;

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn conversion(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        (name == "cvt").then(|| self.convert(modifiers, operands))
    }

    fn convert(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let from = modifiers.ty()?;
        if modifiers.take("tf32") {
            return self.convert_to_tf32(from, modifiers, operands);
        }
        let to = modifiers.ty()?;
        let whole = modifiers.take_any(&["rni", "rzi", "rmi", "rpi"]);
        let rounded = modifiers.take_any(&["rn", "rz", "rm", "rp"]);
        let rounding = match whole.or(rounded) {
            Some("rzi" | "rz") => Rounding::Zero,
            Some("rmi" | "rm") => Rounding::Down,
            Some("rpi" | "rp") => Rounding::Up,
            _ => Rounding::Nearest,
        };
        let (packed, element) = match to {
            S::F16x2 => (true, S::F16),
            S::BF16x2 => (true, S::BF16),
            other => (false, other),
        };
        let conversion = Conversion {
            from,
            to: element,
            rounding,
            saturate: modifiers.take("sat"),
            flush: modifiers.take("ftz"),
            relu: modifiers.take("relu"),
            to_whole: whole.is_some() && !element.is_integer(),
        };
        check(conversion, whole, rounded)?;
        if packed {
            return self.convert_pair(conversion, to, operands);
        }
        expect(operands, &[2])?;
        // Registers may be wider than the types on both sides (PTX ISA 9.4.1).
        let a = self.source_of(&operands[1], from, Width::Relaxed)?;
        let d = self.register_of(&operands[0], to, Width::Relaxed)?;
        Ok(Op::Convert { conversion, d, a })
    }

    /// `cvt.rna.tf32.f32 d, a`: to the nearest f32 whose lower 13 bits are zero, ties away from zero.
    fn convert_to_tf32(
        &mut self,
        from: S,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        if from != S::F32 || !modifiers.take("rna") {
            return Err(Refusal::unmodelled("no such form"));
        }
        expect(operands, &[2])?;
        let s = [self.source(&operands[1], from)?];
        Ok(Op::Map1 { f: alu::to_tf32(), d: self.register(&operands[0], S::B32)?, s })
    }

    /// `cvt.rn.f16x2.f32 d, a, b`: `a` becomes the upper half.
    fn convert_pair(
        &mut self,
        conversion: Conversion,
        to: S,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        if conversion.from != S::F32 {
            return Err(Refusal::unmodelled(format!("from type {:?}", conversion.from)));
        }
        expect(operands, &[3])?;
        let [high, low] = self.sources(&operands[1..], conversion.from)?;
        let d = self.register(&operands[0], to)?;
        Ok(Op::ConvertPair { conversion, d, high, low })
    }
}

/// Refuses what the ISA has no form for, so that no modifier is without effect.
fn check(
    conversion: Conversion,
    whole: Option<&str>,
    rounded: Option<&str>,
) -> Result<(), Refusal> {
    let Conversion { from, to, saturate, flush, relu, .. } = conversion;
    let is_float = |ty: S| matches!(ty, S::F16 | S::BF16 | S::F32 | S::F64);
    let known = |ty: S| ty.is_integer() || is_float(ty);
    if !known(from) || !known(to) {
        return Err(Refusal::unmodelled(format!("from type {from:?} to type {to:?}")));
    }
    let invalid = |what: &str| Err(Refusal::invalid(what));
    let narrows = is_float(from) && is_float(to) && to.bytes() < from.bytes();
    let needs_whole = is_float(from) && to.is_integer();
    let needs_rounding = narrows || (from.is_integer() && is_float(to));
    if needs_whole && whole.is_none() {
        return invalid("no rounding to an integer");
    }
    if needs_rounding && rounded.is_none() {
        return invalid("no rounding");
    }
    if whole.is_some() && (from.is_integer() || narrows) {
        return invalid("rounding to an integer");
    }
    if flush && from != S::F32 && to != S::F32 {
        return invalid("`.ftz` without f32");
    }
    if relu && !matches!(to, S::F16 | S::BF16) {
        return Err(Refusal::unmodelled("`.relu` of this type"));
    }
    // Conversions to integers clamp in any case.
    if saturate && to == S::BF16 {
        return Err(Refusal::unmodelled("`.sat` of this type"));
    }
    Ok(())
}
