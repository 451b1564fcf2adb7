//! Arithmetic and comparisons of integers and floats (PTX ISA 9.7.1 and the sections after it).

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::expect;
use crate::alu::{self, FloatModifiers, Rounding};
use crate::program::{BoolOp, CarryOp, Join, Op, Source};
use crate::syntax::ast::Operand;
use crate::types::ScalarType as S;

type Decoded = Option<Result<Op, Refusal>>;

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn arithmetic(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Decoded {
        Some(match name {
            "add" | "sub" | "addc" | "subc" if name.ends_with('c') || modifiers.take("cc") => {
                self.carry(name, modifiers, operands)
            }
            "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "abs" | "neg"
            | "sad" | "mul24" | "mad24" | "fma" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2"
            | "sin" | "cos" | "tanh" | "copysign" => match modifiers.ty() {
                Err(refusal) => Err(refusal),
                Ok(ty) if ty.is_integer() => self.integer(name, ty, modifiers, operands),
                Ok(ty) => self.float(name, ty, modifiers, operands),
            },
            "setp" => self.set_predicate(modifiers, operands),
            "set" => self.set(modifiers, operands),
            _ => return None,
        })
    }

    fn integer(
        &mut self,
        name: &str,
        ty: S,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let no_model = || Refusal::unmodelled(format!("no form for type {ty:?}"));
        match name {
            "mul" | "mad" | "mul24" | "mad24" => self.product(name, ty, modifiers, operands),
            "abs" | "neg" => {
                expect(operands, &[2])?;
                let f = alu::int1(name, ty).ok_or_else(no_model)?;
                Ok(Op::Map1 {
                    f,
                    d: self.register(&operands[0], ty)?,
                    s: self.sources(&operands[1..], ty)?,
                })
            }
            "sad" => {
                expect(operands, &[4])?;
                let f = alu::int3(name, ty).ok_or_else(no_model)?;
                Ok(Op::Map3 {
                    f,
                    d: self.register(&operands[0], ty)?,
                    s: self.sources(&operands[1..], ty)?,
                })
            }
            _ => {
                expect(operands, &[3])?;
                let suffix = modifiers.take_any(&["sat", "relu"]);
                let name = suffix.map_or(name.to_owned(), |suffix| format!("{name}.{suffix}"));
                let f = alu::int2(&name, ty).ok_or_else(no_model)?;
                Ok(Op::Map2 {
                    f,
                    d: self.register(&operands[0], ty)?,
                    s: self.sources(&operands[1..], ty)?,
                })
            }
        }
    }

    /// `mul` and `mad` with the part of the product that is kept; `mul` adds zero.
    fn product(
        &mut self,
        name: &str,
        ty: S,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let is_mul = name.starts_with("mul");
        expect(operands, &[if is_mul { 3 } else { 4 }])?;
        let part = modifiers
            .take_any(&["lo", "hi", "wide"])
            .ok_or_else(|| Refusal::invalid("neither `.lo`, `.hi` nor `.wide`"))?;
        let f = match (name.ends_with("24"), part) {
            (false, "lo") => alu::int3("mad.lo", ty),
            (false, "hi") => alu::multiply_hi(ty),
            (false, _) => alu::multiply_wide(ty),
            (true, "lo") => alu::multiply_add_24(ty),
            (true, _) => None,
        };
        let f = f.ok_or_else(|| Refusal::unmodelled(format!("`.{part}` of type {ty:?}")))?;
        let wide = if part == "wide" { widened(ty) } else { ty };
        let [a, b] = self.sources(&operands[1..], ty)?;
        if is_mul && part == "lo" && !name.ends_with("24") {
            // The commonest product of all goes without an addition.
            if let Some(f) = alu::int2("mul.lo", ty) {
                return Ok(Op::Map2 { f, d: self.register(&operands[0], ty)?, s: [a, b] });
            }
        }
        let c = if is_mul { self.constants.value(0) } else { self.source(&operands[3], wide)? };
        Ok(Op::Map3 { f, d: self.register(&operands[0], wide)?, s: [a, b, c] })
    }

    fn carry(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[3])?;
        let carry_in = name.ends_with('c');
        let op = CarryOp {
            bits: 0,
            subtract: name.starts_with("sub"),
            carry_in,
            // `add.cc` has used its modifier on the way here.
            carry_out: !carry_in || modifiers.take("cc"),
        };
        let ty = modifiers.ty()?;
        if !ty.is_integer() || ty.bits() < 32 {
            return Err(Refusal::unmodelled(format!("carry of type {ty:?}")));
        }
        let [a, b] = self.sources(&operands[1..], ty)?;
        let d = self.register(&operands[0], ty)?;
        Ok(Op::Carry { op: CarryOp { bits: ty.bits(), ..op }, d, a, b })
    }

    fn float(
        &mut self,
        name: &str,
        ty: S,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        // An approximate function is computed closer than it must be.
        let approximate = modifiers.take("approx") || (name == "div" && modifiers.take("full"));
        let rounding = match modifiers.take_any(&["rn", "rz", "rm", "rp"]) {
            Some("rz") => Rounding::Zero,
            Some("rm") => Rounding::Down,
            Some("rp") => Rounding::Up,
            _ => Rounding::Nearest,
        };
        let only_approximate = ["ex2", "lg2", "sin", "cos", "tanh", "rsqrt"].contains(&name);
        if only_approximate && !approximate {
            return Err(Refusal::unmodelled("without `.approx`"));
        }
        modifiers.take("noftz");
        let settings = FloatModifiers {
            rounding,
            flush: modifiers.take("ftz"),
            saturate: modifiers.take("sat"),
            relu: modifiers.take("relu"),
        };
        let nan = ["min", "max"].contains(&name) && modifiers.take("NaN");
        let is_of_three = ["min", "max"].contains(&name) && operands.len() == 4;
        let operation = match name {
            "mad" => "fma".to_owned(),
            _ if is_of_three && !nan && ty == S::F32 => format!("{name}.3"),
            _ if nan => format!("{name}.NaN"),
            _ => name.to_owned(),
        };
        let f = alu::float_map(&operation, ty, settings)
            .ok_or_else(|| Refusal::unmodelled(format!("no form for type {ty:?}")))?;
        let count = match name {
            "fma" | "mad" => 3,
            "min" | "max" if operation.ends_with(".3") => 3,
            "add" | "sub" | "mul" | "div" | "min" | "max" | "copysign" => 2,
            _ => 1,
        };
        expect(operands, &[count + 1])?;
        let zero = self.constants.value(0);
        let mut s = [zero; 3];
        for (source, operand) in s.iter_mut().zip(&operands[1..]) {
            *source = self.source(operand, ty)?;
        }
        Ok(Op::Float { f, d: self.register(&operands[0], ty)?, s })
    }

    fn comparison(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<(alu::Compare, Join, [Source; 2], S), Refusal> {
        let ty = modifiers.ty()?;
        let flush = modifiers.take("ftz");
        let name = modifiers.first()?;
        let f = alu::compare(name, ty, flush)
            .ok_or_else(|| Refusal::unmodelled(format!("`.{name}` of type {ty:?}")))?;
        let s = self.sources(operands, ty)?;
        let join = match modifiers.take_any(&["and", "or", "xor"]) {
            None => {
                expect(operands, &[2])?;
                None
            }
            Some(op) => {
                expect(operands, &[3])?;
                Some((bool_op(op), self.predicate(&operands[2])?))
            }
        };
        Ok((f, join, s, ty))
    }

    fn set_predicate(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let [result, rest @ ..] = operands else {
            return Err(Refusal::invalid("no operands"));
        };
        let (p, q) = match result {
            Operand::Pair(p, q) => (self.optional_predicate(p)?, self.optional_predicate(q)?),
            Operand::Name(p) => (self.optional_predicate(p)?, None),
            _ => return Err(Refusal::invalid("a result is no predicate")),
        };
        let (f, join, s, _) = self.comparison(modifiers, rest)?;
        Ok(Op::Compare { f, join, p, q, s })
    }

    fn set(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let [result, rest @ ..] = operands else {
            return Err(Refusal::invalid("no operands"));
        };
        let (f, join, s, compared) = self.comparison(modifiers, rest)?;
        if matches!(compared, S::F16 | S::BF16) {
            return Err(Refusal::unmodelled("`set` of 16-bit floats"));
        }
        let to = modifiers.ty()?;
        let yes = match to {
            S::U32 | S::S32 => u64::from(u32::MAX),
            S::F32 => u64::from(1.0_f32.to_bits()),
            _ => return Err(Refusal::unmodelled(format!("a result of type {to:?}"))),
        };
        Ok(Op::Set { f, join, d: self.register(result, to)?, yes, s })
    }
}

pub(super) fn bool_op(name: &str) -> BoolOp {
    match name {
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        _ => BoolOp::Xor,
    }
}

fn widened(ty: S) -> S {
    match ty {
        S::U16 => S::U32,
        S::S16 => S::S32,
        S::U32 => S::U64,
        S::S32 => S::S64,
        other => other,
    }
}
