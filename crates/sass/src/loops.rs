//! Natural loops: Aho, Lam, Sethi, Ullman, "Compilers", 9.6.
//!
//! A branch backwards is not enough: compilers put rare code behind the end and jump back from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::function::{Function, Instruction};

/// Positions of the instructions of a loop.
pub type Loop = BTreeSet<usize>;

/// A run of instructions that is entered at its first alone.
#[derive(Debug)]
struct Block {
    begin: usize,
    end: usize,
    next: Vec<usize>,
}

/// Every loop, by the position of its first block; loops of one head are one.
pub fn loops(function: &Function) -> Vec<Loop> {
    let blocks = blocks(function);
    let dominators = dominators(&blocks);
    let mut heads: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, block) in blocks.iter().enumerate() {
        for &head in block.next.iter().filter(|head| dominators[from].contains(*head)) {
            heads.entry(head).or_default().extend(body(&blocks, head, from));
        }
    }
    let positions = |blocks_of: &BTreeSet<usize>| {
        blocks_of.iter().flat_map(|&at| blocks[at].begin..blocks[at].end).collect()
    };
    heads.values().map(positions).collect()
}

/// Where control goes on after an instruction, if not to the next one alone.
enum Flow<'a> {
    Ends,
    Jumps(Option<&'a str>),
    GoesOn,
}

fn flow(instruction: &Instruction) -> Flow<'_> {
    match instruction.base() {
        "EXIT" | "RET" | "KILL" => Flow::Ends,
        // To a register: a jump table. Where it leads is told by no label.
        "BRX" | "JMX" => Flow::Ends,
        "BRA" | "JMP" | "BREAK" if instruction.label().is_some() => {
            Flow::Jumps(instruction.label())
        }
        "BRA" | "JMP" => Flow::Jumps(None),
        _ => Flow::GoesOn,
    }
}

fn blocks(function: &Function) -> Vec<Block> {
    let count = function.instructions.len();
    let mut begins: BTreeSet<usize> = function.labels.values().copied().collect();
    begins.insert(0);
    for (at, instruction) in function.instructions.iter().enumerate() {
        if !matches!(flow(instruction), Flow::GoesOn) {
            begins.insert(at + 1);
        }
    }
    let begins: Vec<usize> = begins.into_iter().filter(|&begin| begin < count).collect();
    let at = |position: usize| begins.binary_search(&position).ok();
    let block = |(index, &begin): (usize, &usize)| {
        let end = begins.get(index + 1).copied().unwrap_or(count);
        let last = &function.instructions[end - 1];
        let mut next = Vec::new();
        let goes_on = match flow(last) {
            Flow::GoesOn => true,
            Flow::Ends => last.is_conditional,
            Flow::Jumps(label) => {
                let target = label.and_then(|label| function.labels.get(label));
                next.extend(target.and_then(|&target| at(target)));
                last.is_conditional || is_conditional_branch(last)
            }
        };
        if goes_on {
            next.extend(at(end));
        }
        Block { begin, end, next }
    };
    begins.iter().enumerate().map(block).collect()
}

/// A branch may have its condition as an operand: ``BRA.U !UP0, `(.L_x_1)``.
fn is_conditional_branch(branch: &Instruction) -> bool {
    branch.operands.split_once(',').is_some_and(|(first, _)| !first.contains('`'))
}

/// For each block those that every way to it passes, itself included; of blocks that nothing leads to,
/// none.
fn dominators(blocks: &[Block]) -> Vec<BTreeSet<usize>> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
    for (from, block) in blocks.iter().enumerate() {
        block.next.iter().for_each(|&to| before[to].push(from));
    }
    let mut found: Vec<Option<BTreeSet<usize>>> = vec![None; blocks.len()];
    if let Some(first) = found.first_mut() {
        *first = Some(BTreeSet::from([0]));
    }
    loop {
        let mut is_changed = false;
        for at in 1..blocks.len() {
            let mut known = before[at].iter().filter_map(|&from| found[from].as_ref());
            let Some(first) = known.next() else { continue };
            let mut common = known.fold(first.clone(), |common, set| &common & set);
            common.insert(at);
            if found[at].as_ref() != Some(&common) {
                found[at] = Some(common);
                is_changed = true;
            }
        }
        if !is_changed {
            return found.into_iter().map(Option::unwrap_or_default).collect();
        }
    }
}

/// Blocks that reach `from` without passing `head`.
fn body(blocks: &[Block], head: usize, from: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::from([head]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if found.insert(at) {
            let before = (0..blocks.len()).filter(|&other| blocks[other].next.contains(&at));
            open.extend(before);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::functions;

    fn of(lines: &[&str]) -> Vec<Vec<usize>> {
        let mut text = String::from(".text.frazil_x:\n");
        let mut address = 0;
        for line in lines {
            if line.ends_with(':') {
                text += line;
            } else {
                text += &format!("/*{address:04x}*/ {line} ;");
                address += 16;
            }
            text.push('\n');
        }
        let found = loops(&functions(&text)[0]);
        found.into_iter().map(|one| one.into_iter().collect()).collect()
    }

    #[test]
    fn nested_loops_are_found_and_the_trap_behind_the_end_is_none_that_is_entered() {
        let nested = of(&[
            "MOV R0, R1",
            ".outer:",
            "NOP",
            ".inner:",
            "HMMA R0, R1",
            "@P0 BRA `(.inner)",
            "NOP",
            "@P1 BRA `(.outer)",
            "EXIT",
            ".trap:",
            "BRA `(.trap)",
        ]);
        assert_eq!(nested, [vec![1, 2, 3, 4, 5], vec![2, 3]]);
    }

    /// A wait that fails jumps behind the end and comes back into the middle of the loop.
    #[test]
    fn rare_code_behind_the_end_belongs_to_its_loop_and_makes_none() {
        let found = of(&[
            ".head:",
            "NOP",
            "@!P0 BRA `(.slow)",
            ".back:",
            "HMMA R0, R1",
            "@P1 BRA `(.head)",
            "EXIT",
            ".slow:",
            "NOP",
            "BRA `(.back)",
        ]);
        assert_eq!(found, [vec![0, 1, 2, 3, 5, 6]]);
    }

    #[test]
    fn a_condition_may_be_an_operand() {
        let found = of(&[".head:", "NOP", "BRA.U UP0, `(.head)", "BRA `(.end)", ".end:", "EXIT"]);
        assert_eq!(found, [vec![0, 1]]);
        // Without one nothing behind it is reached from it.
        assert_eq!(of(&[".head:", "NOP", "BRA `(.head)", "EXIT"]), [vec![0, 1]]);
    }
}
