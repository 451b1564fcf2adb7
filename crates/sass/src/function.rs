//! Functions of a disassembly, as `nvdisasm -c` writes them.

use std::collections::BTreeMap;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// `HMMA.16816.F32.BF16`.
    pub opcode: String,
    /// What follows, without the semicolon.
    pub operands: String,
    /// Whether a predicate may leave it out.
    pub is_conditional: bool,
}

/// One section of code: a kernel with every function that was not inlined into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// The kernel.
    pub name: String,
    /// In order of addresses.
    pub instructions: Vec<Instruction>,
    /// Position of the first instruction behind a label.
    pub labels: BTreeMap<String, usize>,
}

impl Instruction {
    /// The opcode without its modifiers.
    pub fn base(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// The label that it names: `` `(.L_x_1) ``.
    pub fn label(&self) -> Option<&str> {
        let (_, rest) = self.operands.split_once("`(")?;
        Some(rest.split_once(')')?.0)
    }
}

/// Every function of a disassembly.
pub fn functions(text: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            functions.push(Function { name: name.into(), ..Function::default() });
        }
        let Some(function) = functions.last_mut() else { continue };
        if let Some(label) = line.strip_suffix(':').filter(|label| !label.contains(' ')) {
            function.labels.insert(label.into(), function.instructions.len());
        } else if let Some(instruction) = instruction(line) {
            function.instructions.push(instruction);
        }
    }
    functions
}

/// `/*0320*/              @!P0 BRA `(.L_x_0) ;`
fn instruction(line: &str) -> Option<Instruction> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    u64::from_str_radix(address, 16).ok()?;
    let text = rest.split(';').next()?.trim().trim_start_matches('{').trim();
    let (predicate, text) = match text.strip_prefix('@') {
        Some(rest) => rest.split_once(' ')?,
        None => ("", text),
    };
    let text = text.trim();
    let (opcode, operands) = text.split_once(' ').unwrap_or((text, ""));
    let opcode = opcode.to_owned();
    // What is never false is no condition.
    let is_conditional = !["", "PT", "UPT"].contains(&predicate);
    Some(Instruction { opcode, operands: operands.trim().into(), is_conditional })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
	.headerflags	@\"EF_CUDA_SM90\"
        /*0000*/ NOT.CODE ;
	.section	.text.frazil_x,\"ax\",@progbits
frazil_x:
.text.frazil_x:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/               @PT HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
        /*0020*/              @!P0 BRA `(.L_x_0) ;
        /*0030*/                   NOP;
";

    #[test]
    fn instructions_and_labels_are_read() {
        let functions = functions(TEXT);
        let [function] = &functions[..] else { panic!("{functions:?}") };
        assert_eq!(function.name, "frazil_x");
        let opcodes: Vec<&str> =
            function.instructions.iter().map(|one| one.opcode.as_str()).collect();
        assert_eq!(opcodes, ["LDC", "HMMA.16816.F32.BF16", "BRA", "NOP"]);
        assert_eq!(function.labels[".L_x_0"], 1);
        assert_eq!(function.instructions[2].label(), Some(".L_x_0"));
        assert_eq!(function.instructions[1].base(), "HMMA");
        let conditional: Vec<bool> =
            function.instructions.iter().map(|one| one.is_conditional).collect();
        assert_eq!(conditional, [false, false, true, false]);
    }
}
