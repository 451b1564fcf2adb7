//! Loads, stores, atomics, fences and hints (PTX ISA, `ld`, `st`, `atom`, `red`, `membar`, `fence`).

use super::Refusal;
use super::function::FunctionDecoder;
use super::modifiers::Modifiers;
use super::moves::space;
use super::operands::{Width, expect};
use crate::alu;
use crate::program::{Access, Op, Order};
use crate::syntax::ast::Operand;
use crate::types::{ScalarType as S, Space};

impl<'a> FunctionDecoder<'_, 'a> {
    pub(super) fn memory(
        &mut self,
        name: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Option<Result<Op, Refusal>> {
        Some(match name {
            "ld" | "ldu" => self.load(modifiers, operands),
            "st" => self.store(modifiers, operands),
            "atom" => self.atomic(modifiers, operands, true),
            "red" => self.atomic(modifiers, operands, false),
            "membar" => fence(modifiers, &["cta", "gl", "sys"]),
            "fence" => fence(modifiers, &["sc", "acq_rel", "acquire", "release"]),
            "prefetch" | "prefetchu" => hint(modifiers),
            "applypriority" => expect(operands, &[2]).and_then(|()| {
                modifiers.take("L2::evict_normal");
                hint(modifiers)
            }),
            "createpolicy" => self.policy(modifiers, operands),
            "nanosleep" => expect(operands, &[1]).and_then(|()| {
                modifiers.ty()?;
                self.source(&operands[0], S::U32).map(|_| Op::Hint)
            }),
            _ => return None,
        })
    }

    fn access(&mut self, modifiers: &mut Modifiers<'_>) -> Result<(Access, S), Refusal> {
        let ty = modifiers.ty()?;
        if ty == S::Pred || ty == S::B128 {
            return Err(Refusal::unmodelled(format!("type {ty:?}")));
        }
        let count = match modifiers.take_any(&["v2", "v4", "v8"]) {
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
            None => 1,
        };
        let order = order(modifiers)?;
        let space = space(modifiers)?;
        hints(modifiers);
        #[expect(clippy::cast_possible_truncation, reason = "an element has at most 8 bytes")]
        let bytes = ty.bytes() as u8;
        if u32::from(bytes) * count > 32 {
            return Err(Refusal::invalid("more than 32 bytes at once"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is at most 8")]
        let count = count as u8;
        Ok((Access { space, bytes, count, signed: ty.is_signed(), order }, ty))
    }

    /// The operands without the policy of a `.L2::cache_hint`, which stands last and changes no value.
    pub(super) fn without_policy<'o>(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &'o [Operand<'a>],
    ) -> Result<&'o [Operand<'a>], Refusal> {
        if !modifiers.take("L2::cache_hint") {
            return Ok(operands);
        }
        let [rest @ .., policy] = operands else { return Err(Refusal::invalid("no operands")) };
        self.source(policy, S::B64)?;
        Ok(rest)
    }

    /// A policy for caches: its bits mean nothing to a program, so all are alike here.
    fn policy(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let ty = modifiers.ty()?;
        if !modifiers.take("fractional") || ty != S::B64 {
            return Err(Refusal::unmodelled("no such form"));
        }
        while modifiers.take_prefixed("L2::evict_").is_some() {}
        expect(operands, &[1, 2])?;
        let s = [self.constants.value(0)];
        Ok(Op::Map1 { f: alu::map!(|a: u64| a), d: self.register(&operands[0], ty)?, s })
    }

    fn load(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let used = self.used_bytes.take().unwrap_or(u32::MAX);
        let operands = self.without_policy(modifiers, operands)?;
        expect(operands, &[2])?;
        let (mut access, ty) = self.access(modifiers)?;
        // Through the cache of data that no thread of the launch writes.
        modifiers.take("nc");
        let single = std::slice::from_ref(&operands[0]);
        let results = if let Operand::Vector(list) = &operands[0] { list } else { single };
        check_count(results.len(), access)?;
        let (address, space) = self.address(&operands[1], access.space)?;
        access.space = space;
        let d = results.iter().map(|d| self.optional_register(d, ty, Width::Relaxed));
        let d = d.collect::<Result<_, _>>()?;
        Ok(Op::Load { access, d, address, used })
    }

    fn store(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Refusal> {
        let operands = self.without_policy(modifiers, operands)?;
        expect(operands, &[2])?;
        let (mut access, ty) = self.access(modifiers)?;
        let single = std::slice::from_ref(&operands[1]);
        let values = if let Operand::Vector(list) = &operands[1] { list } else { single };
        check_count(values.len(), access)?;
        let (address, space) = self.address(&operands[0], access.space)?;
        if space == Space::Const {
            return Err(Refusal::invalid("a store to constants"));
        }
        access.space = space;
        let s = values.iter().map(|s| self.source_of(s, ty, Width::Relaxed));
        let s = s.collect::<Result<_, _>>()?;
        Ok(Op::Store { access, s, address })
    }

    fn atomic(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
        returns: bool,
    ) -> Result<Op, Refusal> {
        if modifiers.take_any(&["v2", "v4", "v8"]).is_some() {
            return Err(Refusal::unmodelled("more elements than one"));
        }
        let operands = self.without_policy(modifiers, operands)?;
        let ty = modifiers.ty()?;
        order(modifiers)?;
        modifiers.take_any(&["cta", "cluster", "gpu", "sys"]);
        let space = space(modifiers)?;
        modifiers.take("noftz");
        hints(modifiers);
        let name = modifiers.first()?;
        let modify = alu::modify(name, ty)
            .ok_or_else(|| Refusal::unmodelled(format!("`.{name}` of type {ty:?}")))?;
        let num_values = if name == "cas" { 2 } else { 1 };
        let first = usize::from(returns);
        expect(operands, &[first + 1 + num_values])?;
        let d =
            if returns { self.optional_register(&operands[0], ty, Width::Exact)? } else { None };
        let (address, space) = self.address(&operands[first], space)?;
        if !matches!(space, Space::Generic | Space::Global | Space::Shared) {
            return Err(Refusal::invalid(format!("an atomic in the {space} space")));
        }
        let b = self.source(&operands[first + 1], ty)?;
        let c = if num_values == 2 { self.source(&operands[first + 2], ty)? } else { b };
        #[expect(clippy::cast_possible_truncation, reason = "an element has at most 8 bytes")]
        let bytes = ty.bytes() as u8;
        // The register takes the old value as a load would extend it.
        let signed = ty.is_signed();
        let access = Access { space, bytes, count: 1, signed, order: Order::Strong };
        Ok(Op::Atomic { access, modify, d, address, b, c })
    }
}

fn check_count(given: usize, access: Access) -> Result<(), Refusal> {
    if given == usize::from(access.count) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{given} registers for {} elements", access.count)))
}

fn order(modifiers: &mut Modifiers<'_>) -> Result<Order, Refusal> {
    if modifiers.take("mmio") {
        return Err(Refusal::unmodelled("`.mmio`"));
    }
    modifiers.take("weak");
    let strong = ["volatile", "relaxed", "acquire", "release", "acq_rel"];
    let order = if modifiers.take_any(&strong).is_some() { Order::Strong } else { Order::Weak };
    if order == Order::Strong {
        modifiers.take_any(&["cta", "cluster", "gpu", "sys"]);
    }
    Ok(order)
}

/// How caches may treat an access changes no value.
fn hints(modifiers: &mut Modifiers<'_>) {
    while modifiers.take_any(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]).is_some() {}
    while modifiers.take_prefixed("L1::").is_some() {}
    for size in ["L2::64B", "L2::128B", "L2::256B"] {
        modifiers.take(size);
    }
    let evictions = ["L2::evict_last", "L2::evict_normal", "L2::evict_first"];
    modifiers.take_any(&evictions);
}

/// A fence of generic accesses. Those of proxies belong to asynchronous copies, which are not
/// modelled yet.
fn fence(modifiers: &mut Modifiers<'_>, kinds: &[&str]) -> Result<Op, Refusal> {
    if modifiers.take_any(kinds).is_none() {
        return Err(Refusal::unmodelled("no such form"));
    }
    modifiers.take_any(&["cta", "cluster", "gpu", "sys"]);
    Ok(Op::Fence)
}

fn hint(modifiers: &mut Modifiers<'_>) -> Result<Op, Refusal> {
    modifiers.take_any(&["global", "local"]);
    modifiers.take_any(&["L1", "L2"]);
    Ok(Op::Hint)
}
