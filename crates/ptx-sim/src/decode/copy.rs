//! Asynchronous copies (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy", `cp.async`).

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::{expect, immediate};
use super::scope::Symbol;
use crate::program::{CopyOp, CopyRead, Op};
use crate::syntax::ast::Operand;
use crate::types::ScalarType as S;

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn copy(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        if name != "cp" || !modifiers.take("async") {
            return None;
        }
        Some(match modifiers.take_any(&["commit_group", "wait_group", "wait_all", "mbarrier"]) {
            Some("commit_group") => expect(operands, &[0]).map(|()| Op::CopyCommit),
            Some("wait_all") => expect(operands, &[0]).map(|()| Op::CopyWait { pending: None }),
            Some("wait_group") => copy_wait(operands),
            Some(_) => Err(Refusal::unmodelled("an arrival of copies at an `mbarrier`")),
            None if modifiers.take("bulk") => Err(Refusal::unmodelled("bulk copies")),
            None => self.copy_begin(modifiers, operands),
        })
    }

    /// `cp.async.cg.shared.global [to], [from], bytes, read, policy`: the last two may be absent.
    fn copy_begin(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let past_l1 = match modifiers.take_any(&["ca", "cg"]) {
            Some(level) => level == "cg",
            None => return Err(Refusal::unmodelled("neither `.ca` nor `.cg`")),
        };
        let to_shared = modifiers.take_any(&["shared", "shared::cta"]).is_some();
        if !to_shared || !modifiers.take("global") {
            return Err(Refusal::unmodelled("not from global to shared memory"));
        }
        let operands = self.without_policy(modifiers, operands)?;
        modifiers.take_any(&["L2::64B", "L2::128B", "L2::256B"]);
        expect(operands, &[3, 4])?;
        let bytes = match immediate(&operands[2])? {
            bytes @ (4 | 8) if past_l1 => {
                return Err(Refusal::invalid(format!("{bytes} bytes, where `.cg` has 16")));
            }
            4 => 4,
            8 => 8,
            16 => 16,
            bytes => return Err(Refusal::invalid(format!("{bytes} bytes"))),
        };
        let read = match operands.get(3) {
            None => CopyRead::All,
            Some(operand) => self.copy_read(operand)?,
        };
        let (to, _) = self.address(&operands[0], CopyOp::TO)?;
        let (from, _) = self.address(&operands[1], CopyOp::FROM)?;
        Ok(Op::Copy(Box::new(CopyOp { to, from, bytes, read })))
    }

    /// A predicate says that the source is ignored, anything else how many of its bytes are read.
    fn copy_read(&mut self, operand: &Operand<'a>) -> Result<CopyRead, Refusal> {
        let (Operand::Name(name) | Operand::Not(name)) = operand else {
            return Ok(CopyRead::Bytes(self.source(operand, S::U32)?));
        };
        match self.find(name) {
            Some(Symbol::Predicate(_)) => Ok(CopyRead::Unless(self.predicate(operand)?)),
            _ => Ok(CopyRead::Bytes(self.source(operand, S::U32)?)),
        }
    }
}

fn copy_wait(operands: &[Operand<'_>]) -> Result<Op, Refusal> {
    expect(operands, &[1])?;
    let pending = u32::try_from(immediate(&operands[0])?);
    let pending = pending.map_err(|_| Refusal::invalid("a number of groups that is no u32"))?;
    Ok(Op::CopyWait { pending: Some(pending) })
}
