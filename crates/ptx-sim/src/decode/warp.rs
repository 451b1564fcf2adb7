//! Barriers and exchanges between threads (PTX ISA, "Parallel Synchronization and Communication Instructions"; `shfl.sync`).

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::operands::expect;
use crate::alu;
use crate::program::{BarrierOp, BarrierReduce, Op, ShuffleMode, VoteMode};
use crate::syntax::ast::Operand;
use crate::types::ScalarType as S;

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn warp(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        Some(match name {
            "bar" if modifiers.take("warp") => self.warp_sync(modifiers, operands),
            // `bar` is the aligned form of `barrier`.
            "bar" => self.barrier(modifiers, operands, true),
            "barrier" if modifiers.take("cluster") => {
                Err(Refusal::unmodelled("barriers of a cluster"))
            }
            "barrier" => self.barrier(modifiers, operands, false),
            "shfl" => self.shuffle(modifiers, operands),
            "vote" => self.vote(modifiers, operands),
            "match" => self.matching(modifiers, operands),
            "redux" => self.reduce(modifiers, operands),
            "elect" => self.elect(modifiers, operands),
            "activemask" => self.active_mask(modifiers, operands),
            "griddepcontrol" => grid_dependency(modifiers, operands),
            _ => return None,
        })
    }

    fn warp_sync(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[1])?;
        sync(modifiers)?;
        Ok(Op::WarpSync { mask: self.source(&operands[0], S::B32)? })
    }

    fn barrier(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
        is_bar: bool,
    ) -> Result<Op, Refusal> {
        modifiers.take("cta");
        let aligned = is_bar | modifiers.take("aligned");
        if modifiers.take("red") {
            return self.barrier_reduce(modifiers, operands, aligned);
        }
        expect(operands, &[1, 2])?;
        let waits = match modifiers.take_any(&["sync", "arrive"]) {
            Some("sync") => true,
            Some(_) => {
                expect(operands, &[2])?;
                false
            }
            None => return Err(Refusal::unmodelled("no such form")),
        };
        let id = self.source(&operands[0], S::U32)?;
        let count = operands.get(1).map(|count| self.source(count, S::U32)).transpose()?;
        Ok(Op::Barrier(Box::new(BarrierOp { id, count, aligned, waits, reduce: None })))
    }

    fn barrier_reduce(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
        aligned: bool,
    ) -> Result<Op, Refusal> {
        expect(operands, &[3, 4])?;
        let kind = modifiers.take_any(&["popc", "and", "or"]);
        let ty = modifiers.ty()?;
        let reduce = match (kind, ty) {
            (Some("popc"), S::U32) => BarrierReduce::Count(self.register(&operands[0], ty)?),
            (Some("and"), S::Pred) => BarrierReduce::And(self.predicate_result(&operands[0])?),
            (Some("or"), S::Pred) => BarrierReduce::Or(self.predicate_result(&operands[0])?),
            _ => return Err(Refusal::unmodelled("no such form")),
        };
        let [_, id, middle @ .., last] = operands else {
            return Err(Refusal::invalid("too few operands"));
        };
        let id = self.source(id, S::U32)?;
        let count = middle.first().map(|count| self.source(count, S::U32)).transpose()?;
        let reduce = Some((reduce, self.predicate(last)?));
        Ok(Op::Barrier(Box::new(BarrierOp { id, count, aligned, waits: true, reduce })))
    }

    fn shuffle(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[5])?;
        sync(modifiers)?;
        let mode = match modifiers.take_any(&["up", "down", "bfly", "idx"]) {
            Some("up") => ShuffleMode::Up,
            Some("down") => ShuffleMode::Down,
            Some("bfly") => ShuffleMode::Butterfly,
            Some(_) => ShuffleMode::Index,
            None => return Err(Refusal::unmodelled("no such mode")),
        };
        typed(modifiers, &[S::B32])?;
        let (d, p) = match &operands[0] {
            Operand::Pair(d, p) => {
                let d = self.register(&Operand::Name(d), S::B32)?;
                (d, self.optional_predicate(p)?)
            }
            d => (self.register(d, S::B32)?, None),
        };
        let s = self.sources(&operands[1..], S::B32)?;
        let mask = self.source(&operands[4], S::B32)?;
        Ok(Op::Shuffle { mode, d, p, s, mask })
    }

    fn vote(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[3])?;
        sync(modifiers)?;
        let name = modifiers.take_any(&["all", "any", "uni", "ballot"]);
        let ty = modifiers.ty()?;
        let a = self.predicate(&operands[1])?;
        let mask = self.source(&operands[2], S::B32)?;
        let mode = match (name, ty) {
            (Some("ballot"), S::B32) => {
                let d = self.register(&operands[0], S::B32)?;
                return Ok(Op::Vote { mode: VoteMode::Ballot(d), d: None, a, mask });
            }
            (Some("all"), S::Pred) => VoteMode::All,
            (Some("any"), S::Pred) => VoteMode::Any,
            (Some("uni"), S::Pred) => VoteMode::Uniform,
            _ => return Err(Refusal::unmodelled("no such form")),
        };
        let d = Some(self.predicate_result(&operands[0])?);
        Ok(Op::Vote { mode, d, a, mask })
    }

    fn matching(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[3])?;
        let all = modifiers.take("all");
        if !all && !modifiers.take("any") {
            return Err(Refusal::unmodelled("no such form"));
        }
        sync(modifiers)?;
        let ty = typed(modifiers, &[S::B32, S::B64])?;
        let (d, p) = match &operands[0] {
            Operand::Pair(d, p) if all => {
                (self.register(&Operand::Name(d), S::B32)?, self.optional_predicate(p)?)
            }
            d => (self.register(d, S::B32)?, None),
        };
        let a = self.source(&operands[1], ty)?;
        let mask = self.source(&operands[2], S::B32)?;
        Ok(Op::Match { all, bits: ty.bits(), d, p, a, mask })
    }

    fn reduce(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[3])?;
        sync(modifiers)?;
        let ty = modifiers.ty()?;
        let name = modifiers.first()?;
        let f = alu::reduce(name, ty)
            .ok_or_else(|| Refusal::unmodelled(format!("`.{name}` of type {ty:?}")))?;
        let d = self.register(&operands[0], ty)?;
        let a = self.source(&operands[1], ty)?;
        let mask = self.source(&operands[2], S::B32)?;
        Ok(Op::Reduce { f, d, a, mask })
    }

    fn elect(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[2])?;
        sync(modifiers)?;
        let Operand::Pair(d, p) = &operands[0] else {
            return Err(Refusal::invalid("no register and predicate"));
        };
        let d = self.register(&Operand::Name(d), S::B32)?;
        let p = self.predicate_register(p)?;
        Ok(Op::Elect { d, p, mask: self.source(&operands[1], S::B32)? })
    }

    fn active_mask(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        expect(operands, &[1])?;
        typed(modifiers, &[S::B32])?;
        Ok(Op::ActiveMask { d: self.register(&operands[0], S::B32)? })
    }
}

/// The forms of before Volta, without a mask of members, are gone from current targets.
fn sync(modifiers: &mut Modifiers<'_>) -> Result<(), Refusal> {
    if modifiers.take("sync") { Ok(()) } else { Err(Refusal::unmodelled("without `.sync`")) }
}

fn typed(modifiers: &mut Modifiers<'_>, types: &[S]) -> Result<S, Refusal> {
    let ty = modifiers.ty()?;
    if types.contains(&ty) { Ok(ty) } else { Err(Refusal::unmodelled(format!("type {ty:?}"))) }
}

fn grid_dependency(modifiers: &mut Modifiers<'_>, operands: &[Operand<'_>]) -> Result<Op, Refusal> {
    expect(operands, &[0])?;
    match modifiers.take_any(&["wait", "launch_dependents"]) {
        Some(_) => Ok(Op::GridDependency),
        None => Err(Refusal::unmodelled("no such form")),
    }
}
