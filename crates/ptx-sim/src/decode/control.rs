//! Control flow (PTX ISA, "Control Flow Instructions").

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::expect;
use super::scope::Symbol;
use crate::program::{Call, Op, Passed};
use crate::syntax::ast::Operand;
use crate::types::ScalarType;

type Control<'m> = Option<Result<(Op, Modifiers<'m>), Refusal>>;

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn control<'m>(
        &mut self,
        name: &str,
        modifiers: &Modifiers<'m>,
        operands: &[Operand<'a>],
        line: u32,
    ) -> Control<'m> {
        let mut modifiers = modifiers.clone();
        let op = match name {
            "bra" => self.branch(&mut modifiers, operands, line),
            "brx" => self.branch_indexed(&mut modifiers, operands, line),
            "call" => self.call(&mut modifiers, operands),
            "ret" => {
                modifiers.take("uni");
                expect(operands, &[0]).map(|()| Op::Return)
            }
            "exit" => expect(operands, &[0]).map(|()| Op::Exit),
            "trap" => expect(operands, &[0]).map(|()| Op::Trap),
            _ => return None,
        };
        Some(op.map(|op| (op, modifiers)))
    }

    fn branch(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
        line: u32,
    ) -> Result<Op, Refusal> {
        // A promise that all threads go the same way; branches are right without it.
        modifiers.take("uni");
        let [Operand::Name(label)] = operands else {
            return Err(Refusal::invalid("the target is no label"));
        };
        self.branch_to(label, line);
        Ok(Op::Branch { target: 0 })
    }

    fn branch_indexed(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
        line: u32,
    ) -> Result<Op, Refusal> {
        modifiers.take("uni");
        if !modifiers.take("idx") {
            return Err(Refusal::unmodelled("`brx` without `.idx`"));
        }
        let [index, Operand::Name(targets)] = operands else {
            return Err(Refusal::invalid("no index and list of targets"));
        };
        let index = self.source(index, ScalarType::U32)?;
        self.branch_to(targets, line);
        Ok(Op::BranchIndexed { targets: Box::default(), index })
    }

    fn call(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        modifiers.take("uni");
        let empty: &[Operand<'a>] = &[];
        let (results, name, arguments) = match operands {
            [Operand::Name(name)] => (empty, name, empty),
            [Operand::Name(name), Operand::Group(arguments)] => (empty, name, arguments.as_slice()),
            [Operand::Group(results), Operand::Name(name)] => (results.as_slice(), name, empty),
            [Operand::Group(results), Operand::Name(name), Operand::Group(arguments)] => {
                (results.as_slice(), name, arguments.as_slice())
            }
            _ => return Err(Refusal::unmodelled("a call through a register")),
        };
        let Some(Symbol::Function(function)) = self.find(name) else {
            return Err(Refusal::unmodelled(format!("a call through `{name}`")));
        };
        let signature = self.context.signature(function);
        if !signature.is_defined {
            if name.starts_with("__assertfail") {
                return self.assertion(arguments);
            }
            return Err(Refusal::unmodelled(format!("`{name}` has no body in this module")));
        }
        let arguments = self.passed(arguments, &signature.params)?;
        let results = self.passed(results, &signature.returns)?;
        self.uses.functions.insert(function);
        Ok(Op::Call(Box::new(Call { function, arguments, results })))
    }

    fn passed(
        &self,
        operands: &[Operand<'a>],
        fields: &[super::Field],
    ) -> Result<Box<[Passed]>, Refusal> {
        if operands.len() != fields.len() {
            let counts = (operands.len(), fields.len());
            return Err(Refusal::invalid(format!("{} operands for {}", counts.0, counts.1)));
        }
        let pairs = operands.iter().zip(fields);
        let passed = pairs.map(|(operand, field)| {
            let (offset, bytes) = self.frame_param(operand)?;
            if bytes != field.bytes {
                let what = format!("a parameter of {bytes} bytes for one of {}", field.bytes);
                return Err(Refusal::invalid(what));
            }
            Ok(Passed { caller: offset, callee: field.offset, bytes })
        });
        passed.collect()
    }

    fn frame_param(&self, operand: &Operand<'a>) -> Result<(u32, u32), Refusal> {
        let Operand::Name(name) = operand else {
            return Err(Refusal::unmodelled("an operand of a call that is no parameter"));
        };
        match self.find(name) {
            Some(Symbol::FrameParam { offset, bytes }) => Ok((offset, bytes)),
            _ => Err(Refusal::unmodelled(format!("`{name}` as an operand of a call"))),
        }
    }

    /// `__assertfail(message, file, line, function, size)`, which CUDA C++'s `assert` calls.
    fn assertion(&self, arguments: &[Operand<'a>]) -> Result<Op, Refusal> {
        let [message, file, line, ..] = arguments else {
            return Err(Refusal::invalid("`__assertfail` with other operands"));
        };
        let [message, file, line] = [message, file, line].map(|field| self.frame_param(field));
        let ((message, 8), (file, 8), (line, 4)) = (message?, file?, line?) else {
            return Err(Refusal::invalid("`__assertfail` with other operands"));
        };
        Ok(Op::Assertion { message, file, line })
    }
}
