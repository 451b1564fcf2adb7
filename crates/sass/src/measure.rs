//! What is counted of a kernel.

use crate::function::{Function, Instruction};
use crate::loops::{Loop, loops};

/// A kernel's innermost loops with matrix products, and what it has of local memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// In order of their first instructions.
    pub loops: Vec<LoopCounts>,
    /// Bytes of a thread's accesses to local memory outside of those loops, each instruction once.
    pub local_bytes_outside: u32,
}

/// Instructions of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCounts {
    /// All.
    pub length: u32,
    /// Matrix products: `HMMA`, `HGMMA` and their like.
    pub mma: u32,
    /// `LDSM`.
    pub ldsm: u32,
    /// `MUFU`.
    pub mufu: u32,
    /// `LDGSTS`: `cp.async`.
    pub ldgsts: u32,
    /// `LDL` and `STL`.
    pub local: u32,
}

/// Counts a kernel.
pub fn measure(function: &Function) -> Measured {
    let code = &function.instructions;
    let all: Vec<Loop> = loops(function);
    let with_mma = |one: &&Loop| one.iter().any(|&at| is_mma(&code[at]));
    let with_mma: Vec<&Loop> = all.iter().filter(with_mma).collect();
    let is_innermost = |one: &&Loop| {
        !with_mma.iter().any(|other| other.len() < one.len() && one.is_superset(other))
    };
    let innermost: Vec<&Loop> = with_mma.iter().copied().filter(is_innermost).collect();
    let outside = |&(at, _): &(usize, &Instruction)| innermost.iter().all(|one| !one.contains(&at));
    let local_bytes_outside =
        code.iter().enumerate().filter(outside).map(|(_, one)| local_bytes(one));
    Measured {
        local_bytes_outside: local_bytes_outside.sum(),
        loops: innermost.iter().map(|one| counts(one.iter().map(|&at| &code[at]))).collect(),
    }
}

fn counts<'a>(code: impl Iterator<Item = &'a Instruction>) -> LoopCounts {
    let mut counts = LoopCounts::default();
    for instruction in code {
        counts.length += 1;
        counts.mma += u32::from(is_mma(instruction));
        let counter = match instruction.base() {
            "LDSM" => &mut counts.ldsm,
            "MUFU" => &mut counts.mufu,
            "LDGSTS" => &mut counts.ldgsts,
            "LDL" | "STL" => &mut counts.local,
            _ => continue,
        };
        *counter += 1;
    }
    counts
}

/// `HMMA`, `IMMA`, `QMMA`, `OMMA`, `HGMMA`, `QGMMA`, `UTCHMMA`, …: all end alike.
fn is_mma(instruction: &Instruction) -> bool {
    instruction.base().ends_with("MMA")
}

fn local_bytes(instruction: &Instruction) -> u32 {
    if !matches!(instruction.base(), "LDL" | "STL") {
        return 0;
    }
    let width = |modifier| match modifier {
        "U8" | "S8" => Some(1),
        "U16" | "S16" => Some(2),
        "64" => Some(8),
        "128" => Some(16),
        _ => None,
    };
    instruction.opcode.split('.').find_map(width).unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::functions;

    #[test]
    fn the_innermost_loops_with_products_are_counted_and_local_memory_apart() {
        let text = "\
.text.frazil_x:
/*0000*/ STL.64 [R1], R2 ;
.outer:
/*0010*/ LDL.LU R3, [R1] ;
.copy:
/*0020*/ LDGSTS.E.128 [R4], desc[UR4][R2.64] ;
/*0030*/ @P2 BRA `(.copy) ;
.inner:
/*0040*/ LDSM.16.M88.4 R4, [R8] ;
/*0050*/ HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
/*0060*/ HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
/*0070*/ STL [R1+0x8], R2 ;
/*0080*/ MUFU.EX2 R0, R0 ;
/*0090*/ @P0 BRA `(.inner) ;
/*00a0*/ @P1 BRA `(.outer) ;
/*00b0*/ EXIT ;
";
        let inner = LoopCounts { length: 6, mma: 2, ldsm: 1, mufu: 1, ldgsts: 0, local: 1 };
        let expected = Measured { loops: vec![inner], local_bytes_outside: 8 + 4 };
        assert_eq!(measure(&functions(text)[0]), expected);
    }
}
