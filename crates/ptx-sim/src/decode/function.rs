//! One function: declarations, labels, instructions in order, branches last.

use super::constants::Constants;
use super::modifiers::Modifiers;
use super::scope::{Scopes, Symbol};
use super::{MAX_FRAME_BYTES, ModuleContext, Refusal, Signature, Uses, at_line, place, variables};
use crate::error::{LoadError, Unmodelled};
use crate::program::{
    Function, Instruction, Location, Op, Predicate, PredicateRegister, Program, Register,
};
use crate::syntax::ast::{self, Operand, Statement};
use crate::types::{ScalarType, Space};

/// Most registers that a function may declare; NVRTC's largest kernels declare some ten thousands.
const MAX_REGISTERS: u32 = 1 << 20;

pub(crate) struct FunctionDecoder<'c, 'a> {
    pub(super) context: &'c ModuleContext<'a>,
    signature: &'c Signature,
    pub(super) program: &'c mut Program,
    pub(super) constants: &'c mut Constants,
    pub(super) uses: Uses,
    pub(super) scopes: Scopes<'a>,
    function: Function,
    branches: Vec<Branch<'a>>,
    location: Option<Location>,
    /// Bytes of the next load that the compiler looks at, from its pragma.
    pub(super) used_bytes: Option<u32>,
}

/// A branch whose label is looked up when all labels are known.
struct Branch<'a> {
    pc: usize,
    block: usize,
    label: &'a str,
    line: u32,
}

pub(crate) struct DecodedFunction {
    pub(crate) function: Function,
    pub(crate) uses: Uses,
}

impl<'c, 'a> FunctionDecoder<'c, 'a> {
    pub(super) fn new(
        context: &'c ModuleContext<'a>,
        signature: &'c Signature,
        program: &'c mut Program,
        constants: &'c mut Constants,
    ) -> Self {
        Self {
            context,
            signature,
            program,
            constants,
            uses: Uses::default(),
            scopes: Scopes::new(),
            function: Function::default(),
            branches: Vec::new(),
            location: None,
            used_bytes: None,
        }
    }

    pub(super) fn decode(
        mut self,
        function: &ast::Function<'a>,
        unmodelled: &mut Vec<Unmodelled>,
    ) -> Result<DecodedFunction, LoadError> {
        self.function.begin = self.pc();
        let Some(body) = &function.body else {
            return Ok(DecodedFunction { function: self.function, uses: self.uses });
        };
        self.declare_parameters(function)?;
        self.statements(body, unmodelled)?;
        // A body may end without `ret`.
        let end = if function.is_entry { Op::Exit } else { Op::Return };
        self.push("ret", function.line, None, end);
        self.resolve_branches(unmodelled)?;
        Ok(DecodedFunction { function: self.function, uses: self.uses })
    }

    fn declare_parameters(&mut self, function: &ast::Function<'a>) -> Result<(), LoadError> {
        let signature = self.signature;
        let params = function.params.iter().zip(&signature.params);
        let returns = function.returns.iter().zip(&signature.returns);
        for (variable, field) in params.chain(returns) {
            let offset = field.offset;
            let symbol = if function.is_entry {
                Symbol::EntryParam { offset }
            } else {
                Symbol::FrameParam { offset, bytes: field.bytes }
            };
            self.declare(variable.name, symbol, variable.line)?;
        }
        if !function.is_entry {
            self.function.frame_bytes = signature.bytes;
        }
        Ok(())
    }

    fn statements(
        &mut self,
        statements: &[Statement<'a>],
        unmodelled: &mut Vec<Unmodelled>,
    ) -> Result<(), LoadError> {
        for statement in statements {
            match statement {
                Statement::Block(inner) => {
                    self.scopes.open();
                    self.statements(inner, unmodelled)?;
                    self.scopes.close();
                }
                Statement::Label(name, line) => {
                    let pc = self.pc();
                    if !self.scopes.declare_label(name, pc) {
                        return Err(twice(name, *line));
                    }
                }
                Statement::Registers { name, element, count, line } => {
                    self.declare_registers(name, *element, *count, *line)?;
                }
                Statement::Variable(variable) => self.declare_variable(variable)?,
                Statement::BranchTargets { name, labels } => {
                    self.scopes.declare_targets(name, labels.clone());
                }
                Statement::Location(at) => {
                    let &ast::Location { file, line, inlined_at, function: _ } = at;
                    self.location = Some(Location { file, line, inlined_at });
                }
                Statement::Pragma(text) => {
                    let used = text.strip_prefix("used_bytes_mask").map(str::trim);
                    if let Some(used) = used {
                        self.used_bytes = parse_mask(used);
                    }
                }
                Statement::Instruction(instruction) => {
                    if let Err(refusal) = self.instruction(instruction) {
                        at_line(refusal, instruction, unmodelled)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, name: &'a str, symbol: Symbol, line: u32) -> Result<(), LoadError> {
        if self.scopes.declare(name, symbol) { Ok(()) } else { Err(twice(name, line)) }
    }

    fn declare_registers(
        &mut self,
        name: &'a str,
        element: ScalarType,
        count: Option<u32>,
        line: u32,
    ) -> Result<(), LoadError> {
        if element == ScalarType::B128 {
            let instruction = ".reg .b128".to_owned();
            let why = "registers of 128 bits".to_owned();
            return Err(LoadError::Unmodelled(vec![Unmodelled { instruction, line, why }]));
        }
        let is_predicate = element == ScalarType::Pred;
        let total = if is_predicate {
            &mut self.function.num_predicates
        } else {
            &mut self.function.num_registers
        };
        let first = *total;
        *total = first.saturating_add(count.unwrap_or(1));
        if *total > MAX_REGISTERS {
            let what = format!("more than {MAX_REGISTERS} registers");
            return Err(LoadError::invalid(line, what));
        }
        let Some(count) = count else {
            let symbol = if is_predicate {
                Symbol::Predicate(PredicateRegister(first))
            } else {
                Symbol::Register(Register(first), element)
            };
            return self.declare(name, symbol, line);
        };
        if self.scopes.declare_range(name, first, count, element) {
            Ok(())
        } else {
            Err(twice(name, line))
        }
    }

    fn declare_variable(&mut self, variable: &ast::Variable<'a>) -> Result<(), LoadError> {
        let symbol = match variable.space {
            Space::Local | Space::Param => {
                let end = &mut self.function.frame_bytes;
                let field = place(variable, end, MAX_FRAME_BYTES)?;
                if variable.space == Space::Local {
                    Symbol::Local { offset: field.offset }
                } else {
                    Symbol::FrameParam { offset: field.offset, bytes: field.bytes }
                }
            }
            _ => {
                let symbol = Symbol::Variable(self.program.variables.len());
                self.program.variables.push(variables::one(variable)?);
                symbol
            }
        };
        self.declare(variable.name, symbol, variable.line)
    }

    fn instruction(&mut self, instruction: &ast::Instruction<'a>) -> Result<(), Refusal> {
        let guard = match instruction.guard {
            None => None,
            Some(guard) => {
                let index = self.predicate_register(guard.predicate)?;
                Some(Predicate::Register { index, negated: guard.negated })
            }
        };
        let (name, modifiers) = Modifiers::split(instruction.opcode);
        let operands = instruction.operands.as_slice();
        let op = self.operation(name, modifiers, operands, instruction.line)?;
        self.push(instruction.opcode, instruction.line, guard, op);
        Ok(())
    }

    fn operation(
        &mut self,
        name: &str,
        modifiers: Modifiers<'_>,
        operands: &[Operand<'a>],
        line: u32,
    ) -> Result<Op, Refusal> {
        if let Some(op) = self.control(name, &modifiers, operands, line) {
            let (op, modifiers) = op?;
            modifiers.end()?;
            return Ok(op);
        }
        let mut modifiers = modifiers;
        let families = [
            Self::arithmetic,
            Self::bits,
            Self::moves,
            Self::conversion,
            Self::memory,
            Self::warp,
            Self::matrix,
            Self::copy,
        ];
        for family in families {
            if let Some(op) = family(self, name, &mut modifiers, operands) {
                let op = op?;
                modifiers.end()?;
                return Ok(op);
            }
        }
        Err(Refusal::unmodelled("instruction"))
    }

    fn push(&mut self, opcode: &str, line: u32, guard: Option<Predicate>, op: Op) {
        self.program.code.push(Instruction { guard, op });
        self.program.places.push(opcode, line, self.location);
    }

    pub(super) fn pc(&self) -> u32 {
        // Every instruction takes some bytes of a text that fits memory.
        u32::try_from(self.program.code.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn find(&self, name: &str) -> Option<Symbol> {
        self.scopes.find(name).or_else(|| self.context.symbols.get(name).copied())
    }

    /// A register that nothing reads, for results that are thrown away.
    pub(super) fn scratch(&mut self) -> Register {
        let register = Register(self.function.num_registers);
        self.function.num_registers += 1;
        register
    }

    /// Notes a branch of the instruction that is decoded now.
    pub(super) fn branch_to(&mut self, label: &'a str, line: u32) {
        let (pc, block) = (self.program.code.len(), self.scopes.current());
        self.branches.push(Branch { pc, block, label, line });
    }

    fn resolve_branches(&mut self, unmodelled: &[Unmodelled]) -> Result<(), LoadError> {
        // Instructions that were refused have left no room in the code, so branches are elsewhere.
        if !unmodelled.is_empty() {
            return Ok(());
        }
        for branch in std::mem::take(&mut self.branches) {
            let find = |label: &str| {
                self.scopes.label(branch.block, label).ok_or_else(|| {
                    LoadError::invalid(branch.line, format!("`{label}` is no label here"))
                })
            };
            match &mut self.program.code[branch.pc].op {
                Op::Branch { target } => *target = find(branch.label)?,
                Op::BranchIndexed { targets, .. } => {
                    let labels = self.scopes.targets(branch.block, branch.label);
                    let labels = labels.ok_or_else(|| {
                        let what = format!("`{}` is no list of targets", branch.label);
                        LoadError::invalid(branch.line, what)
                    })?;
                    *targets = labels.iter().map(|label| find(label)).collect::<Result<_, _>>()?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn twice(name: &str, line: u32) -> LoadError {
    LoadError::invalid(line, format!("`{name}` is declared twice"))
}

fn parse_mask(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
