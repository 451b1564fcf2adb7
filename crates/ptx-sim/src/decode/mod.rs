//! Syntax tree to program: every name, type, size and modifier is checked here, once.

mod arithmetic;
mod bits;
mod constants;
mod control;
mod conversion;
mod copy;
mod function;
mod matrix;
mod memory;
mod modifiers;
mod moves;
mod operands;
mod scope;
mod special;
mod variables;
mod warp;

use std::collections::{BTreeSet, HashMap};

use crate::error::{LoadError, Unmodelled};
use crate::module::{Entry, Parameter};
use crate::program::{PlaceTable, Program};
use crate::syntax::ast;
use crate::types::Space;
use constants::Constants;
use function::FunctionDecoder;
use scope::Symbol;

pub(crate) use operands::PARAM_FRAME_BASE;

/// Most bytes of a kernel's parameters (CUDA C++ Programming Guide, Function Parameters).
const MAX_PARAMETER_BYTES: u64 = 32_764;
/// Most bytes of one thread's frame in one function.
const MAX_FRAME_BYTES: u64 = 512 << 10;

/// Why an instruction is refused; its line is added where it is known.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Legal or not, there is no model of it.
    Unmodelled(String),
    /// It contradicts what the text declares.
    Invalid(String),
}

impl Refusal {
    fn unmodelled(why: impl Into<String>) -> Self {
        Self::Unmodelled(why.into())
    }

    fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

/// What all functions of a module share while it is decoded.
pub(crate) struct ModuleContext<'a> {
    symbols: HashMap<&'a str, Symbol>,
    signatures: Vec<Signature>,
}

impl ModuleContext<'_> {
    fn signature(&self, function: usize) -> &Signature {
        &self.signatures[function]
    }
}

/// Where a function's parameters lie in its frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    params: Vec<Field>,
    returns: Vec<Field>,
    bytes: u32,
    is_defined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: u32,
    bytes: u32,
    align: u32,
}

pub(crate) struct Decoded {
    pub(crate) program: Program,
    pub(crate) entries: Vec<Entry>,
}

/// # Errors
///
/// `LoadError::Invalid` at the first contradiction; else `LoadError::Unmodelled` with all instructions
/// that have no model.
pub(crate) fn decode(module: &ast::Module<'_>) -> Result<Decoded, LoadError> {
    let mut context = ModuleContext { symbols: HashMap::new(), signatures: Vec::new() };
    let mut program = Program {
        code: Vec::new(),
        places: PlaceTable::new(&module.files),
        functions: Vec::new(),
        variables: variables::declare(&module.variables, &mut context.symbols)?,
        constants: Vec::new(),
    };
    let functions = declare_functions(module, &mut context)?;
    variables::initialise(&module.variables, &context.symbols, &mut program.variables)?;
    let mut constants = Constants::default();
    let mut unmodelled = Vec::new();
    let mut uses = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let signature = &context.signatures[index];
        let decoder = FunctionDecoder::new(&context, signature, &mut program, &mut constants);
        let decoded = decoder.decode(function, &mut unmodelled)?;
        program.functions.push(decoded.function);
        uses.push(decoded.uses);
    }
    if !unmodelled.is_empty() {
        return Err(LoadError::Unmodelled(unmodelled));
    }
    program.constants = constants.into_values();
    let entries = functions.iter().enumerate().filter(|(_, function)| function.is_entry);
    let entries = entries.map(|(index, function)| entry(index, function, &context, &uses));
    let entries = entries.collect::<Vec<_>>();
    Ok(Decoded { program, entries })
}

/// What a function refers to.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    shared: BTreeSet<usize>,
    functions: BTreeSet<usize>,
}

/// One function for each name: its definition, or a declaration where there is none.
fn declare_functions<'m, 'a>(
    module: &'m ast::Module<'a>,
    context: &mut ModuleContext<'a>,
) -> Result<Vec<&'m ast::Function<'a>>, LoadError> {
    let mut functions: Vec<&ast::Function<'a>> = Vec::new();
    for function in &module.functions {
        let known = context.symbols.get(function.name).copied();
        let index = match known {
            None => {
                context.symbols.insert(function.name, Symbol::Function(functions.len()));
                functions.push(function);
                context.signatures.push(Signature::default());
                functions.len() - 1
            }
            Some(Symbol::Function(index)) if functions[index].body.is_none() => {
                functions[index] = function;
                index
            }
            Some(Symbol::Function(_)) if function.body.is_none() => continue,
            Some(_) => {
                let what = format!("`{}` is declared twice", function.name);
                return Err(LoadError::invalid(function.line, what));
            }
        };
        context.signatures[index] = signature(function)?;
    }
    Ok(functions)
}

fn signature(function: &ast::Function<'_>) -> Result<Signature, LoadError> {
    let mut bytes = 0;
    let limit = if function.is_entry { MAX_PARAMETER_BYTES } else { MAX_FRAME_BYTES };
    let mut fields = |variables: &[ast::Variable<'_>]| {
        let field = |variable: &ast::Variable<'_>| place(variable, &mut bytes, limit);
        variables.iter().map(field).collect::<Result<Vec<_>, _>>()
    };
    let params = fields(&function.params)?;
    let returns = fields(&function.returns)?;
    let is_defined = function.body.is_some();
    Ok(Signature { params, returns, bytes, is_defined })
}

/// Gives the variable its place after `end`, and moves `end`.
fn place(variable: &ast::Variable<'_>, end: &mut u32, limit: u64) -> Result<Field, LoadError> {
    let too_large =
        || LoadError::invalid(variable.line, format!("`{}` is too large", variable.name));
    let bytes = variable.bytes.ok_or_else(too_large)?;
    let offset = u64::from(*end).next_multiple_of(u64::from(variable.align));
    let after = offset.checked_add(bytes).filter(|after| *after <= limit);
    let after = after.ok_or_else(too_large)?;
    let narrow = |value: u64| u32::try_from(value).map_err(|_| too_large());
    *end = narrow(after)?;
    Ok(Field { offset: narrow(offset)?, bytes: narrow(bytes)?, align: variable.align })
}

fn entry(
    index: usize,
    function: &ast::Function<'_>,
    context: &ModuleContext<'_>,
    uses: &[Uses],
) -> Entry {
    let signature = &context.signatures[index];
    let fields = signature.params.iter();
    let parameters = fields.map(|field| Parameter {
        offset: field.offset,
        bytes: field.bytes,
        align: field.align,
    });
    let mut reached = BTreeSet::from([index]);
    let mut pending = vec![index];
    while let Some(next) = pending.pop() {
        let called = &uses[next].functions;
        pending.extend(called.iter().copied().filter(|callee| reached.insert(*callee)));
    }
    let shared = reached.iter().flat_map(|function| uses[*function].shared.iter().copied());
    Entry {
        name: function.name.to_owned(),
        function: index,
        parameters: parameters.collect(),
        parameter_bytes: signature.bytes,
        max_threads: function.directives.max_threads,
        required_threads: function.directives.required_threads,
        required_cluster: function.directives.required_cluster,
        shared_variables: shared.collect::<BTreeSet<_>>().into_iter().collect(),
        static_shared_bytes: 0,
    }
}

/// The refusal with the place of the instruction, if it must end decoding.
fn at_line(
    refusal: Refusal,
    instruction: &ast::Instruction<'_>,
    unmodelled: &mut Vec<Unmodelled>,
) -> Result<(), LoadError> {
    let line = instruction.line;
    match refusal {
        Refusal::Invalid(why) => {
            Err(LoadError::invalid(line, format!("`{}`: {why}", instruction.opcode)))
        }
        Refusal::Unmodelled(why) => {
            let instruction = instruction.opcode.to_owned();
            unmodelled.push(Unmodelled { instruction, line, why });
            Ok(())
        }
    }
}

fn is_in_memory(space: Space) -> bool {
    matches!(space, Space::Global | Space::Const)
}
