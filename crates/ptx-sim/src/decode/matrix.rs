//! Matrices of a warp (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions").

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::moves::space;
use super::operands::expect;
use crate::alu::{Accumulator, MatrixElement, MatrixProduct};
use crate::program::{MatrixAccess, MatrixProductOp, Op, Source};
use crate::syntax::ast::Operand;
use crate::types::{ScalarType as S, Space};

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn matrix(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        Some(match name {
            "ldmatrix" => self.load_matrix(modifiers, operands),
            "stmatrix" => self.store_matrix(modifiers, operands),
            "movmatrix" => self.transpose_matrix(modifiers, operands),
            "mma" => self.matrix_product(modifiers, operands),
            _ => return None,
        })
    }

    fn load_matrix(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        let form = matrix_access(modifiers)?;
        let registers = vector(&operands[0], form.count)?;
        let registers = registers.iter().map(|d| self.register(d, S::B32));
        let registers = registers.collect::<Result<_, _>>()?;
        let (address, space) = self.address(&operands[1], form.space)?;
        let transposed = form.transposed;
        Ok(Op::LoadMatrix(Box::new(MatrixAccess { space, address, transposed, registers })))
    }

    fn store_matrix(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        let form = matrix_access(modifiers)?;
        let registers = vector(&operands[1], form.count)?;
        let registers = registers.iter().map(|s| self.source(s, S::B32));
        let registers = registers.collect::<Result<_, _>>()?;
        let (address, space) = self.address(&operands[0], form.space)?;
        let transposed = form.transposed;
        Ok(Op::StoreMatrix(Box::new(MatrixAccess { space, address, transposed, registers })))
    }

    fn transpose_matrix(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        aligned(modifiers)?;
        let ty = modifiers.ty()?;
        if !modifiers.take("m8n8") || !modifiers.take("trans") || ty != S::B16 {
            return Err(Refusal::unmodelled("no such form"));
        }
        let d = self.register(&operands[0], S::B32)?;
        Ok(Op::TransposeMatrix { d, a: self.source(&operands[1], S::B32)? })
    }

    /// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 d, a, b, c`
    fn matrix_product(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[4])?;
        aligned(modifiers)?;
        let k = match modifiers.take_any(&["m16n8k4", "m16n8k8", "m16n8k16"]) {
            Some("m16n8k4") => 4,
            Some("m16n8k8") => 8,
            Some(_) => 16,
            None => return Err(Refusal::unmodelled("no such shape")),
        };
        if !modifiers.take("row") || !modifiers.take("col") {
            return Err(Refusal::unmodelled("A is not by rows, or B not by columns"));
        }
        let [c, b, a, d] = [(); 4].map(|()| modifiers.last());
        let types = [d?, a?, b?, c?];
        let no_model = || Refusal::unmodelled(format!("k{k} of types {}", types.join(", ")));
        let product = product(types, k).ok_or_else(no_model)?;
        let [num_a, num_b, num_d] = product.registers();
        let mut d = [None; 4];
        for (d, operand) in d.iter_mut().zip(vector(&operands[0], num_d)?) {
            *d = Some(self.register(operand, S::B32)?);
        }
        let op = MatrixProductOp {
            product,
            d,
            a: self.fragment(&operands[1], num_a)?,
            b: self.fragment(&operands[2], num_b)?,
            c: self.fragment(&operands[3], num_d)?,
        };
        Ok(Op::MatrixProduct(Box::new(op)))
    }

    fn fragment<const N: usize>(
        &mut self,
        operand: &Operand<'a>,
        count: usize,
    ) -> Result<[Source; N], Refusal> {
        let registers = vector(operand, count)?;
        // The rest is not read.
        self.sources(registers, S::B32)
    }
}

fn product([d, a, b, c]: [&str; 4], k: usize) -> Option<MatrixProduct> {
    let element = match (a, k) {
        ("f16", 8 | 16) => MatrixElement::F16,
        ("bf16", 8 | 16) => MatrixElement::BF16,
        ("tf32", 4 | 8) => MatrixElement::TF32,
        _ => return None,
    };
    let accumulator = match d {
        "f32" => Accumulator::F32,
        "f16" if element == MatrixElement::F16 => Accumulator::F16,
        _ => return None,
    };
    (a == b && c == d).then_some(MatrixProduct { element, accumulator, k })
}

struct Form {
    count: usize,
    transposed: bool,
    space: Space,
}

fn matrix_access(modifiers: &mut Modifiers<'_>) -> Result<Form, Refusal> {
    aligned(modifiers)?;
    let ty = modifiers.ty()?;
    if !modifiers.take("m8n8") || ty != S::B16 {
        return Err(Refusal::unmodelled("no such shape and type"));
    }
    let count = match modifiers.take_any(&["x1", "x2", "x4"]) {
        Some("x1") => 1,
        Some("x2") => 2,
        Some(_) => 4,
        None => return Err(Refusal::unmodelled("no number of matrices")),
    };
    let transposed = modifiers.take("trans");
    let space = space(modifiers)?;
    if !matches!(space, Space::Shared | Space::Generic) {
        return Err(Refusal::invalid(format!("matrices in the {space} space")));
    }
    Ok(Form { count, transposed, space })
}

fn aligned(modifiers: &mut Modifiers<'_>) -> Result<(), Refusal> {
    if modifiers.take("sync") && modifiers.take("aligned") {
        return Ok(());
    }
    Err(Refusal::unmodelled("without `.sync.aligned`"))
}

/// The registers of a vector; one alone may stand without braces.
fn vector<'o, 'a>(operand: &'o Operand<'a>, count: usize) -> Result<&'o [Operand<'a>], Refusal> {
    let single = std::slice::from_ref(operand);
    let registers = if let Operand::Vector(list) = operand { list } else { single };
    if registers.len() == count {
        return Ok(registers);
    }
    Err(Refusal::invalid(format!("{} registers where {count} are needed", registers.len())))
}
