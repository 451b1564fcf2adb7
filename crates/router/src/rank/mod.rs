//! The order of plans across engines: data, one module per operation.

mod sdpa_fwd;

use frazil_core::{EngineId, Facts, Maturity, Plan, Target};

/// One measured reason to prefer an engine.
///
/// Of the rows that match a plan's engine, facts and target, the first gives its score; a plan that
/// no row matches comes after all that one does.
#[derive(Clone, Copy, Debug)]
pub struct RankRow {
    /// Engine that the row speaks of.
    pub engine: &'static str,
    /// Facts and targets that it holds for.
    pub when: fn(&Facts, &Target) -> bool,
    /// Lower comes first.
    pub score: u32,
    /// Where it was measured: a row of a file in `benches/results/`; `None`: `unmeasured`.
    pub measured: Option<&'static str>,
}

/// The rows of the operation that these facts are about.
fn rows(facts: &Facts) -> &'static [RankRow] {
    match facts {
        Facts::SdpaFwd(_) => sdpa_fwd::ROWS,
        _ => &[],
    }
}

/// The row that ranks an engine for these facts.
pub(crate) fn row(engine: &EngineId, facts: &Facts, target: &Target) -> Option<&'static RankRow> {
    rows(facts).iter().find(|row| row.engine == engine.as_str() && (row.when)(facts, target))
}

/// Sorts plans, best first. Plans of one engine keep the order that the engine gave them.
///
/// Engines proven on silicon come before simulated ones, unless `simulated_first` names them; then
/// the rows decide, then the table of own engines, then the name.
pub(crate) fn sort(plans: &mut [Plan], simulated_first: &[EngineId]) {
    plans.sort_by(|a, b| {
        let key = |plan: &Plan| {
            let simulated = plan.maturity() == Maturity::Simulated;
            let late = simulated && !simulated_first.contains(plan.engine());
            let score =
                row(plan.engine(), plan.facts(), plan.target()).map_or(u32::MAX, |r| r.score);
            (late, score)
        };
        key(a).cmp(&key(b)).then_with(|| a.engine().order().cmp(&b.engine().order()))
    });
}
