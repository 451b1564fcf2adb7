//! What a run must give: the reference's rows with their tolerances.
//!
//! The reference reads Q, K, V and the modifiers from the bytes that the engine is given, at the
//! rows that the (clamped) lengths, starts and page ids name. Where live rows of packed Q overlap,
//! which only hostile data do, two sequences write one row of O: values are then not compared, and
//! what remains is memory safety and the error word.

use std::sync::Arc;

use frazil_core::{Facts, Role, SdpaFwdFacts};
use rayon::prelude::*;

use crate::case::Case;
use crate::declare::{CaseError, Declared};
use crate::instance::{Instance, Placed};
use crate::reference::{Head, Row};
use crate::tolerance::Tolerance;

/// A value and how far from it an engine may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) value: f64,
    pub(crate) tol: f64,
}

/// The rows of one query head of one sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadRows {
    /// `[rows, head_dim_v]`.
    pub(crate) o: Vec<f64>,
    /// Tolerances of `o`; all 0 in a row in which every term is 0, which must be +0 exactly.
    pub(crate) o_tol: Vec<f32>,
    /// One a row.
    pub(crate) lse: Vec<Want>,
    /// One a row.
    pub(crate) max: Vec<Want>,
    /// One a row.
    pub(crate) sum_exp: Vec<Want>,
}

/// The rows of every head of every sequence.
#[derive(Debug)]
pub(crate) struct Reference {
    heads: Vec<HeadRows>,
    num_q_heads: u64,
}

impl Reference {
    pub(crate) fn head(&self, b: u64, h: u64) -> &HeadRows {
        &self.heads[size(b * self.num_q_heads + h)]
    }

    /// Computes all rows, in parallel.
    ///
    /// # Errors
    ///
    /// [`CaseError::Case`] for features that the reference lacks.
    pub(crate) fn compute(
        case: &Case,
        declared: &Declared,
        instance: &Instance,
    ) -> Result<Arc<Self>, CaseError> {
        let inputs = Inputs::of(case, declared, instance)?;
        let num_q_heads = case.num_q_heads;
        let heads = (0..case.batch * num_q_heads)
            .into_par_iter()
            .map(|at| inputs.head_rows(at / num_q_heads, at % num_q_heads))
            .collect();
        Ok(Arc::new(Self { heads, num_q_heads }))
    }
}

/// Says which runs have one reference: all that the values depend on, and nothing about storage.
/// `None` where values depend on how they are stored.
pub(crate) fn reference_key(case: &Case, instance: &Instance) -> Option<String> {
    if instance.shared_inputs {
        return None;
    }
    let dtypes = (case.dtype, case.o_dtype(), case.softmax_scale, case.soft_cap);
    let heads = (case.num_q_heads, case.num_kv_heads, case.head_dim_qk, case.head_dim_v());
    let modifiers = (case.band, case.bias, case.alibi, case.sink, case.seqlen_kv);
    let values = (case.values, case.seed, case.batch);
    let live = (&instance.live.q.lens, &instance.live.kv.lens);
    Some(format!("{dtypes:?} {heads:?} {modifiers:?} {values:?} {live:?}"))
}

/// Where the reference reads.
struct Inputs<'a> {
    case: &'a Case,
    facts: &'a SdpaFwdFacts,
    instance: &'a Instance,
    q: &'a Placed,
    k: &'a Placed,
    v: &'a Placed,
    tolerance: Tolerance,
}

impl<'a> Inputs<'a> {
    fn of(
        case: &'a Case,
        declared: &'a Declared,
        instance: &'a Instance,
    ) -> Result<Self, CaseError> {
        let lacks = |what| CaseError::Case(format!("{}: no reference for {what}", case.name));
        let Facts::SdpaFwd(facts) = &*declared.facts else {
            return Err(lacks(declared.facts.op_name()));
        };
        if case.dropout.is_some() {
            return Err(lacks("dropout"));
        }
        if case.block_mask {
            return Err(lacks("a block mask"));
        }
        let tensor = |role: Role| instance.tensor(role).ok_or_else(|| lacks(role.name()));
        let (q, k, v) = (tensor(Role::Q)?, tensor(Role::K)?, tensor(Role::V)?);
        let soft_cap = facts.soft_cap().map(f64::from);
        let tolerance = Tolerance::new(case.dtype, case.o_dtype(), soft_cap);
        Ok(Self { case, facts, instance, q, k, v, tolerance })
    }

    fn head_rows(&self, b: u64, h: u64) -> HeadRows {
        let (case, live) = (self.case, &self.instance.live);
        let (len_q, len_kv) = (live.q.lens[size(b)], live.kv.lens[size(b)]);
        let kv_head = h / (case.num_q_heads / case.num_kv_heads);
        let (qk, dv) = (size(case.head_dim_qk), size(case.head_dim_v()));
        let q = self.gather(self.q, (b, h), len_q, qk);
        let k = self.gather(self.k, (b, kv_head), len_kv, qk);
        let v = self.gather(self.v, (b, kv_head), len_kv, dv);
        let bias = self.bias((b, h), len_q, len_kv);
        let head = Head {
            len_q: size(len_q),
            len_kv: size(len_kv),
            head_dim_qk: qk,
            head_dim_v: dv,
            q: &q,
            k: &k,
            v: &v,
            softmax_scale: self.facts.softmax_scale().into(),
            soft_cap: self.facts.soft_cap().map(f64::from),
            bias: bias.as_deref(),
            alibi: self.facts.alibi().map(|align| (self.number(Role::AlibiSlopes, b, h), align)),
            band: self.facts.band(),
            sink: case.sink.map(|_| self.number(Role::Sink, b, h)),
        };
        let rows = (0..size(len_q)).into_par_iter().with_min_len(8);
        let blocks: Vec<HeadRows> = rows
            .fold(HeadRows::default, |mut rows, i| {
                rows.push(&head.row(i), &self.tolerance);
                rows
            })
            .collect();
        blocks.into_iter().fold(HeadRows::default(), HeadRows::join)
    }

    /// Live rows of Q, K or V, row-major.
    fn gather(&self, placed: &Placed, (b, h): (u64, u64), rows: u64, columns: usize) -> Vec<f32> {
        let image = &self.instance.images[placed.image].bytes;
        let mut values = Vec::with_capacity(size(rows) * columns);
        for i in 0..rows {
            placed.row(&self.instance.live, b, h, i).load(image, columns, &mut values);
        }
        values
    }

    fn bias(&self, (b, h): (u64, u64), len_q: u64, len_kv: u64) -> Option<Vec<f32>> {
        let placed = self.instance.tensor(Role::Bias)?;
        let geometry = &placed.tensor.geometry;
        let image = &self.instance.images[placed.image].bytes;
        // The stride of an extent of 1 is 0.
        let head = b * geometry.stride(0) + h * geometry.stride(1);
        let mut values = Vec::with_capacity(size(len_q * len_kv));
        for i in 0..len_q {
            let run = placed.run(head + i * geometry.stride(2), geometry.stride(3));
            run.load(image, size(len_kv), &mut values);
        }
        Some(values)
    }

    /// A number of a query head, or of one in one sequence.
    fn number(&self, role: Role, b: u64, h: u64) -> f64 {
        let Some(placed) = self.instance.tensor(role) else { return 0.0 };
        let geometry = &placed.tensor.geometry;
        let (first, axis) = if geometry.rank() == 2 { (b * geometry.stride(0), 1) } else { (0, 0) };
        let run = placed.run(first + h * geometry.stride(axis), 0);
        let mut values = Vec::with_capacity(1);
        run.load(&self.instance.images[placed.image].bytes, 1, &mut values);
        values[0].into()
    }
}

impl HeadRows {
    fn push(&mut self, row: &Row, tolerance: &Tolerance) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "seven digits of a tolerance are enough"
        )]
        self.o_tol.extend((0..row.o.len()).map(|column| tolerance.of_o(row, column) as f32));
        self.o.extend(&row.o);
        self.lse.push(Want { value: row.lse, tol: tolerance.of_lse(row) });
        self.max.push(Want { value: row.max, tol: tolerance.of_max(row) });
        self.sum_exp.push(Want { value: row.sum_exp, tol: tolerance.of_sum_exp(row) });
    }

    fn join(mut self, mut after: Self) -> Self {
        self.o.append(&mut after.o);
        self.o_tol.append(&mut after.o_tol);
        self.lse.append(&mut after.lse);
        self.max.append(&mut after.max);
        self.sum_exp.append(&mut after.sum_exp);
        self
    }
}

/// Counts of what lies in host memory.
fn size(count: u64) -> usize {
    usize::try_from(count).expect("in host memory")
}
